"""Several results at once: chosen, tagged, deleted, brought back, and downloaded as one file."""

import io
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from tests.support import patient
from tests.support.fakes import COLOURS as ALL
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.browser import DELETE, HeldRequests, Visit, accessibility_faults, drop, query, search

pytestmark = pytest.mark.browser

COLOURS = ["red", "green", "blue", "yellow", "cyan"]
MANY = 30  # more than are shown at first


@pytest.fixture
def browser_context_args(request: pytest.FixtureRequest) -> dict[str, Any]:
    return getattr(request, "param", {})


def bar(page: Page) -> Locator:
    return page.get_by_role("group", name="Pictures selected")


def told(page: Page) -> Locator:
    return page.locator(".selection > p")


def result(page: Page, colour: str) -> Locator:
    return page.locator("#main li.card", has_text=f"all {colour}").locator("button.picture")


def choose(page: Page, *colours: str) -> None:
    page.get_by_role("button", name="Select several").click()
    for colour in colours:
        result(page, colour).click()
    expect(bar(page)).to_contain_text(f"{len(colours)} of 5 shown selected")


def stored(address: str) -> dict[str, dict[str, Any]]:
    """Colour -> what is listed of its picture."""
    images = patient.get(f"{address}/images").json()["images"]
    return {image["filename"].removesuffix(".png"): image for image in images}


def test_results_are_tagged_deleted_and_brought_back(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    choose(page, "red", "blue")
    assert accessibility_faults(page) == []
    expect(result(page, "blue")).to_have_attribute("aria-pressed", "true")
    page.emulate_media(media="print")  # what was found, without controls
    expect(page.locator(".pick").first).to_be_hidden()
    page.emulate_media(media="screen")
    tag = bar(page).get_by_label("Tag for those selected")
    tag.fill("album: walls")
    tag.press("Enter")
    expect(told(page)).to_have_text("2 pictures tagged. Undo")
    tagged = [colour for colour, image in stored(visit.address).items() if image["tags"] == {"album": "walls"}]
    assert sorted(tagged) == ["blue", "red"]
    expect(page.locator("#main li.card", has_text="walls")).to_have_count(2)
    bar(page).get_by_role("button", name=DELETE).click()
    expect(told(page)).to_contain_text("2 pictures deleted.")
    assert sorted(stored(visit.address)) == ["cyan", "green", "yellow"]
    expect(bar(page)).to_contain_text("0 of 3 shown selected")
    expect(told(page).get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(told(page)).to_have_text("2 pictures brought back.")
    assert len(stored(visit.address)) == len(COLOURS)
    bar(page).get_by_role("button", name="Done").click()
    result(page, "red").click()  # opens large again
    expect(page.get_by_role("dialog").get_by_role("definition").filter(has_text="walls")).to_have_count(1)


def test_a_selection_ends_with_its_question_and_outlives_its_answer(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    choose(page, "red", "cyan")
    page.get_by_role("button", name="Options").click()
    with page.expect_response("**/search/text"):
        page.get_by_label("Sort by").select_option("date")  # the same question, answered anew
    expect(bar(page)).to_contain_text("2 of 5 shown selected")
    expect(page.get_by_role("checkbox", name="Select all cyan")).to_be_checked()
    search(page, "blue")
    expect(bar(page)).to_be_hidden()
    expect(page.locator(".pick:checked")).to_have_count(0)
    choose(page, "green")
    page.go_back()
    expect(bar(page)).to_be_hidden()
    page.get_by_role("button", name="Select several").press("Enter")
    expect(bar(page).get_by_role("button", name="All shown")).to_be_focused()
    result(page, "red").press("Enter")
    page.get_by_role("checkbox", name="Select all green").press("Space")
    expect(bar(page)).to_contain_text("2 of 5 shown selected")


@pytest.mark.parametrize("browser_context_args", [{"viewport": {"width": 360, "height": 640}}], indirect=True)
def test_results_stay_in_place_until_the_next_answer(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    several = page.get_by_role("button", name="Select several")
    expect(several).to_be_visible()
    before = result(page, "red").bounding_box()
    held = HeldRequests(page, "**/search/text")
    query(page).fill("blue")
    held.first()
    expect(several).to_be_hidden()
    assert result(page, "red").bounding_box() == before
    held.let_go()
    expect(several).to_be_visible()


def test_the_focus_in_a_selection_goes_to_the_next_results(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    choose(page, "green")
    bar(page).get_by_role("button", name="Done").focus()
    held = HeldRequests(page, re.compile(r"/search/text|/images\?"))
    page.go_back()
    held.first()  # so long that the browser takes the focus from what is hidden
    expect(bar(page)).to_be_hidden()
    expect(page.locator("#main")).to_be_focused()
    held.let_go()


@pytest.mark.parametrize(
    "browser_context_args", [{"has_touch": True, "viewport": {"width": 360, "height": 640}}], indirect=True
)
def test_similar_pictures_are_chosen_by_touch(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    page.get_by_role("button", name="More like this: all red").tap()
    expect(page.locator("#main li.card")).to_have_count(4)
    page.get_by_role("button", name="Select several").tap()
    result(page, "blue").tap()
    expect(bar(page)).to_contain_text("1 of 4 shown selected")
    bar(page).get_by_role("button", name=DELETE).tap()
    expect(told(page)).to_contain_text("1 picture deleted.")
    assert "blue" not in stored(visit.address)


def downloaded(page: Page) -> dict[str, bytes]:
    """The files in the archive that a press of "Download" saves."""
    with page.expect_download() as begun:
        bar(page).get_by_role("button", name="Download").click()
    with zipfile.ZipFile(io.BytesIO(begun.value.path().read_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_download_that_takes_long_to_begin_is_of_what_was_selected_then(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    choose(page, "red", "green")
    held = HeldRequests(page, "**/images/archive/ticket")
    bar(page).get_by_role("button", name="Download").click()
    busy = held.first()
    expect(bar(page)).to_contain_text("Preparing the download…")
    result(page, "green").click()
    with page.expect_download() as begun:
        busy.fulfill(status=503, json={"detail": "busy"})  # asked again
        held.let_go()
    with zipfile.ZipFile(begun.value.path()) as archive:
        assert sorted(archive.namelist()) == ["green.png", "red.png"]
    expect(bar(page)).not_to_contain_text("Preparing")


def test_results_are_downloaded_as_one_file(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    choose(page, "red", "green", "cyan")
    images = stored(visit.address)
    wanted = {
        f"{colour}.png": patient.get(f"{visit.address}/images/{images[colour]['image_id']}/original").content
        for colour in ("red", "green", "cyan")
    }
    assert downloaded(page) == wanted
    expect(told(page)).to_contain_text("Downloading 3 pictures, as one file of 0.1 MB.")
    assert downloaded(page) == wanted  # and once more
    patient.delete(f"{visit.address}/images/{images['red']['image_id']}").raise_for_status()
    bar(page).get_by_role("button", name="Download").click()
    expect(told(page)).to_contain_text("Nothing was downloaded: 1 original cannot be had any more.")
    page.route("**/images/archive", lambda route: route.fulfill(status=503, headers={"X-Frame-Options": "DENY"}))
    # Firefox sends no such event for it.
    page.evaluate("document.addEventListener('load', (event) => event.stopImmediatePropagation(), true)")
    result(page, "red").click()
    bar(page).get_by_role("button", name="Download").click()
    expect(told(page)).to_have_text("The download was refused: try again. ")


@pytest.fixture
def guarded(browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    """The page of a service with a key, which somebody gave."""
    key, stored_key = create_key("browser", Permission.WRITE, time.time())
    change_keys(tmp_path / "keys.json", lambda keys: [stored_key])
    with running_server(tmp_path) as address:
        visit = Visit(browser, address)
        visit.page.get_by_role("dialog").get_by_label("API key").fill(key)
        visit.page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        yield visit
        visit.close()


def test_a_key_is_not_needed_for_more_results_to_be_downloaded(guarded: Visit) -> None:
    page = guarded.page
    expect(page.get_by_role("heading", name="No pictures yet")).to_be_visible()
    pairs = [(left, right) for left in ALL for right in ALL][:MANY]
    files = {f"{left}-{right}.png": png(two_coloured(left, right, 64, 48)) for left, right in pairs}
    drop(page, "[data-drop=add]", *((name, "image/png", content) for name, content in files.items()))
    expect(page.locator("#add").get_by_role("status")).to_have_text(f"Done: {MANY} of {MANY} can be found.")
    query(page).fill("red")
    expect(page.get_by_role("button", name="Show more")).to_be_visible()
    page.get_by_role("button", name="Select several").click()
    page.locator("#main li.card button.picture").nth(3).click()
    page.get_by_role("button", name="Show more").click()
    expect(bar(page)).to_contain_text(f"1 of {MANY} shown selected")
    bar(page).get_by_role("button", name="All shown").click()
    assert downloaded(page) == files
