"""What the page asks for besides a sentence: near duplicates as one, what is looked at, sentences for a picture."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest

from index.catalog.catalog import Catalog
from tests.support import patient
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import expect

from tests.e2e.browser import Visit, accessibility_faults, asked_by, chromium, search, send

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(tmp_path: Path) -> Iterator[Visit]:
    """The page over two shots of one scene and another scene, none with a caption."""
    with running_server(tmp_path) as address, chromium() as browser:
        for name, colour, width in (("shot-1", "red", 320), ("shot-2", "red", 324), ("other", "blue", 320)):
            send(address, f"{name}.png", png(two_coloured(colour, colour, width, 240)))
        images = patient.get(f"{address}/images").raise_for_status().json()["images"]
        hashes = {one["image_id"]: (bytes(8) if "shot" in one["filename"] else b"\xff" * 8) for one in images}
        with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
            catalog.hashes.add(hashes)
        begun = Visit(browser, address, options_open=True)
        yield begun
        begun.close()


def test_near_duplicates_are_shown_as_one_where_that_is_wanted(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    cards = page.get_by_role("list", name="Results").locator("li.card")
    expect(cards).to_have_count(3)
    page.get_by_label("Show near duplicates as one").check()
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text("and 1 alike")
    expect(cards.last).not_to_contain_text("alike")
    shown = cards.first.locator(".title").inner_text()
    cards.first.locator(".picture").click()
    other = {"shot-1.png": "shot-2.png", "shot-2.png": "shot-1.png"}[shown]
    expect(page.get_by_role("dialog").get_by_text(other)).to_be_visible()
    page.get_by_role("button", name="Close").click()
    cards.last.get_by_role("button", name="More like this").click()
    expect(cards).to_have_count(1)
    page.get_by_label("Show near duplicates as one").uncheck()  # asks again for pictures like the other scene
    expect(cards).to_have_count(2)
    expect(page.get_by_role("status").first).to_contain_text("Pictures like")
    assert accessibility_faults(page) == []


def test_a_sentence_is_compared_with_what_is_wanted(visit: Visit) -> None:
    page = visit.page
    search(page, "shot")
    page.get_by_label("Look at").select_option("text alone")
    cards = page.get_by_role("list", name="Results").locator("li.card")
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text("by its text")
    page.get_by_label("Look at").select_option("pictures alone")
    expect(cards).to_have_count(3)


def test_options_that_change_nothing_are_told_of(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    page.get_by_label("Look at").select_option("text alone")
    page.get_by_label("At least").fill("50")
    expect(status).to_have_text(
        "3 pictures. Until something is asked these options change nothing: “Look at”, “At least”."
    )
    page.locator("#main li.card").first.get_by_role("button", name="More like this").click()
    expect(status).to_contain_text(
        "How alike pictures are is no percentage: for “At least” choose “score”."
        " Here these options change nothing: “Look at”."
    )
    page.get_by_label("At least").fill("")
    page.get_by_label("Sort by").select_option("date")
    page.get_by_role("button", name="Sentences for it").click()
    expect(status).to_contain_text("Here these options change nothing: “Sort by”, “Look at”.")
    search(page, "shot")
    expect(status).not_to_contain_text("change nothing")


def test_sentences_for_a_picture_or_why_there_are_none(visit: Visit) -> None:
    page, status = visit.page, visit.page.get_by_role("status").first
    search(page, "red")
    page.get_by_role("button", name="More like this").first.click()
    page.get_by_role("button", name="Sentences for it").click()
    expect(status).to_have_text("No captions are stored that could describe it. Write captions with “Edit”.")
    image_id = patient.get(f"{visit.address}/images").json()["images"][0]["image_id"]
    patient.patch(f"{visit.address}/images/{image_id}", json={"captions": ["a red wall"]}).raise_for_status()
    sentences = page.get_by_role("list", name="Sentences").locator("li")

    def asked_again() -> bool:
        page.get_by_role("button", name="Pictures like it").click()
        page.get_by_role("button", name="Sentences for it").click()
        status.filter(has_text="No captions are stored").or_(sentences.first).wait_for()
        return sentences.count() == 1

    while not asked_again():  # until the caption can be found
        pass
    expect(sentences.first).to_contain_text("a red wall")
    expect(status).to_contain_text("Sentences for")


def test_a_least_score_that_is_no_number_is_told_and_one_with_a_comma_is_read(visit: Visit) -> None:
    page, status, least = visit.page, visit.page.locator("#status"), visit.page.get_by_label("At least")
    search(page, "red")
    page.get_by_label("Percent or score").select_option("score")
    for written in ("3x", "5 %"):
        least.press_sequentially(written)
        least.press("Tab")
        expect(status).to_have_text("At least: write a number.")
        expect(page.locator("#main li.card")).to_have_count(3)
        assert urlencode({"least": written}) in page.url
        least.fill("")
    with page.expect_request("**/search/text") as asked:
        least.press_sequentially("-2,5 ")
    assert asked_by(asked.value)["min_score"] == -2.5
