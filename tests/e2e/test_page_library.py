"""The library changes in place: what is being edited, how much is shown and where, deletions one by one."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import patient
from tests.support.library import two_coloured
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Dialog, FilePayload, Locator, Page, Route, expect

from tests.e2e.browser import DELETE, LOOKED_AT_AGAIN, HeldRequests, Visit, accessibility_faults, cards, search, send

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("all_shown")]

COLOURS = ["red", "green", "blue", "yellow", "cyan", "magenta"]
AT_ONCE = 4

# What lies around a button gets the focus.
PRESSED_IN_SAFARI = """document.addEventListener("mousedown", (event) => {
  event.preventDefault();
  document.querySelector("#main").focus({ preventScroll: true });
})"""


@pytest.fixture
def browser_context_args() -> dict[str, Any]:
    """A window so low that the library has to be scrolled."""
    return {"viewport": {"width": 800, "height": 300}}


def card(page: Page, colour: str) -> Locator:
    return page.locator("#main li.card", has_text=f"all {colour}")


def stored(address: str) -> list[str]:
    """Names of what is stored, the latest first."""
    return [one["filename"] for one in patient.get(f"{address}/images", params={"sort": "latest"}).json()["images"]]


def image_id(picture: Locator) -> str:
    return picture.get_attribute("data-image") or ""


def add_picture(page: Page, name: str) -> None:
    """Choose a file to be taken in, and wait until it can be found."""
    page.get_by_role("button", name="Add pictures").click()
    chosen: FilePayload = {"name": name, "mimeType": "image/png", "buffer": png(two_coloured("black", "white", 64, 48))}
    page.get_by_label("Files…").set_input_files(files=[chosen])
    expect(page.locator("#add").get_by_role("status")).to_have_text("Done: 1 of 1 can be found.")


def test_a_button_that_is_pressed_twice_deletes_once(visit: Visit) -> None:
    page = visit.page
    held = HeldRequests(page, "**/images/*", lambda request: request.method == "DELETE")
    card(page, "green").get_by_role("button", name=DELETE).dblclick()
    held.first().continue_()
    expect(card(page, "green")).to_contain_text("all green was deleted.")
    expect(card(page, "green").locator(".fault")).to_be_empty()
    page.evaluate("fetch('/livez')")  # a second one would have been sent before
    assert len(held.routes) == 1


def test_a_picture_that_is_gone_already_is_deleted(visit: Visit) -> None:
    page = visit.page
    patient.delete(f"{visit.address}/images/{image_id(card(page, 'blue'))}").raise_for_status()
    card(page, "blue").get_by_role("button", name=DELETE).click()
    expect(card(page, "blue")).to_contain_text("all blue was deleted.")
    card(page, "blue").get_by_role("button", name="Undo").click()
    expect(card(page, "blue").get_by_role("button", name=DELETE)).to_be_visible()


def test_each_of_several_deletions_is_undone_where_it_was_made(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    expect(status).to_have_text(f"{len(COLOURS)} pictures.")
    page.evaluate(PRESSED_IN_SAFARI)
    for colour in ("red", "green"):
        button = card(page, colour).get_by_role("button", name=DELETE)
        button.scroll_into_view_if_needed()
        before = page.evaluate("scrollY")
        button.click()
        expect(card(page, colour).get_by_role("button", name="Undo")).to_be_focused()
        assert page.evaluate("scrollY") == before
    expect(status).to_have_text(f"{len(COLOURS) - 2} pictures.")
    page.evaluate(LOOKED_AT_AGAIN)
    add_picture(page, "black.png")  # after which the library is listed anew
    expect(cards(page)).to_have_count(len(COLOURS) + 1)
    assert accessibility_faults(page) == []
    for colour in ("red", "green"):
        card(page, colour).get_by_role("button", name="Undo").click()
        expect(card(page, colour).get_by_role("button", name="Edit")).to_be_focused()
    expect(status).to_have_text(f"{len(COLOURS) + 1} pictures.")
    assert set(stored(visit.address)) == {"black.png", *(f"{colour}.png" for colour in COLOURS)}


def test_a_deleted_picture_is_brought_back_after_the_page_was_loaded_anew(visit: Visit) -> None:
    page = visit.page
    for colour in ("red", "green"):
        card(page, colour).get_by_role("button", name=DELETE).click()
        expect(card(page, colour).get_by_role("button", name="Undo")).to_be_focused()
    page.reload()
    expect(cards(page)).to_have_count(len(COLOURS) - 2)
    page.get_by_text("Deleted pictures").click()
    listed = page.locator(".deleted li")
    expect(listed).to_have_text([re.compile("all green"), re.compile("all red")])
    for one in (0, 1):
        listed.nth(one).scroll_into_view_if_needed()  # a thumbnail is asked for once it comes into sight
        expect(listed.nth(one).locator("img")).to_have_js_property("naturalWidth", 64)
    assert accessibility_faults(page) == []
    page.get_by_role("button", name="Bring back all red").click()
    expect(card(page, "red").get_by_role("button", name=DELETE)).to_be_visible()
    expect(listed).to_have_text([re.compile("all green")])
    expect(page.locator("#main > details:last-child")).to_contain_text("all red is back.")
    card(page, "blue").get_by_role("button", name=DELETE).click()  # what was deleted here is brought back there
    expect(card(page, "blue").get_by_role("button", name="Undo")).to_be_focused()
    page.evaluate(LOOKED_AT_AGAIN)
    page.get_by_role("button", name="Bring back all blue").focus()
    with page.expect_response(lambda answer: "deleted=true" in answer.url):
        page.evaluate(LOOKED_AT_AGAIN)
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(page.get_by_role("button", name="Bring back all blue")).to_be_focused()  # also while it is listed anew
    page.get_by_role("button", name="Bring back all blue").click()
    expect(card(page, "blue").get_by_role("button", name=DELETE)).to_be_visible()
    assert len(stored(visit.address)) == len(COLOURS) - 1


def test_a_form_goes_with_the_picture_that_is_deleted(visit: Visit) -> None:
    page, asked = visit.page, list[str]()

    def accept(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", accept)
    card(page, "red").get_by_role("button", name="Edit").click()
    page.locator("form.editor").get_by_label("Captions").fill("never saved")
    card(page, "red").get_by_role("button", name=DELETE).click()
    expect(card(page, "red").get_by_role("button", name="Undo")).to_be_focused()
    page.reload()
    expect(cards(page)).to_have_count(len(COLOURS) - 1)
    assert asked == []  # nothing is unsaved


def test_a_picture_is_downloaded_as_it_was_uploaded(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    saved = tmp_path / "saved.png"
    with page.expect_download() as downloading:
        card(page, "red").get_by_role("button", name="Download all red").click()
    downloading.value.save_as(saved)
    assert downloading.value.suggested_filename == "red.png"
    assert saved.read_bytes() == png(two_coloured("red", "white", 64, 48))
    search(page, "green")
    page.locator("#main li").first.get_by_role("button").first.click()
    detail = page.get_by_role("dialog")
    with page.expect_download() as downloading:
        detail.get_by_role("button", name="Download").click()
    downloading.value.save_as(saved)
    assert saved.read_bytes() == png(two_coloured("green", "white", 64, 48))
    page.route("**/original", lambda route: route.fulfill(status=404, json={"detail": "The original is missing."}))
    detail.get_by_role("button", name="Download").click()
    expect(detail.get_by_role("alert")).to_have_text("The original is missing.")
    assert accessibility_faults(page) == []


def test_why_a_deletion_failed_stands_in_the_card(visit: Visit) -> None:
    page, told = visit.page, "The disk of the server is full."
    page.route("**/images/*", lambda route: route.fulfill(status=507, json={"detail": told}))
    card(page, "red").get_by_role("button", name=DELETE).click()
    expect(card(page, "red").get_by_role("alert")).to_have_text(told)
    expect(card(page, "red").get_by_role("button", name=DELETE)).to_be_focused()


def test_escape_closes_an_editor_in_which_nothing_was_written(visit: Visit) -> None:
    page = visit.page
    edit = card(page, "red").get_by_role("button", name="Edit")
    edit.click()
    page.keyboard.press("Escape")
    expect(card(page, "red").get_by_label("Captions")).to_have_count(0)
    expect(edit).to_be_focused()
    edit.click()
    card(page, "red").get_by_label("Captions").fill("written")
    page.keyboard.press("Escape")
    expect(card(page, "red").get_by_label("Captions")).to_have_value("written")


IS_SEEN = """element => {
  const {left, top} = element.getBoundingClientRect();
  return element.contains(document.elementFromPoint(left + 4, top + 4));
}"""


@pytest.mark.parametrize(("width", "height"), [(1000, 320), (360, 520)])
def test_why_a_change_was_not_made_is_seen(visit: Visit, width: int, height: int) -> None:
    page = visit.page
    page.set_viewport_size({"width": width, "height": height})
    card(page, "red").get_by_role("button", name="Edit").click()
    form = page.get_by_role("form", name="Edit all red")
    form.get_by_label("Tags").fill("no name")
    form.get_by_role("button", name="Save").click()
    fault = form.get_by_role("alert")
    expect(fault).to_contain_text("no name")
    expect(fault).to_be_in_viewport(ratio=1)
    assert fault.evaluate(IS_SEEN)
    assert form.get_by_label("Date").evaluate(IS_SEEN) or height < 500
    form.get_by_label("Date").fill("March")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Date")).to_have_accessible_description(re.compile("Date: write a date"))
    bounds = form.bounding_box()
    assert bounds is not None
    assert bounds["width"] > 180


def test_what_is_being_edited_stays_when_the_library_is_listed_anew(visit: Visit) -> None:
    page = visit.page
    for _ in range(2):
        card(page, "red").get_by_role("button", name="Edit").click()
    form = page.locator("form.editor")
    expect(form).to_have_count(1)
    form.get_by_label("Captions").fill("as red as it gets")
    add_picture(page, "black.png")
    expect(cards(page).first).to_contain_text("black.png")
    visit.open_options()
    page.get_by_label("From", exact=True).fill("2030")  # which no picture passes
    page.get_by_label("From", exact=True).press("Enter")
    expect(page.locator("#status")).to_have_text("No picture passes the filter.")
    expect(cards(page)).to_have_count(1)
    form.get_by_role("button", name="Save").click()
    expect(cards(page)).to_contain_text("as red as it gets")


def list_few(page: Page) -> None:
    """Have the library listed anew with few pictures at once."""
    page.route(
        "**/images?*",
        lambda route: route.continue_(url=re.sub(r"limit=\d+", f"limit={AT_ONCE}", route.request.url)),
    )
    page.reload()
    expect(cards(page)).to_have_count(AT_ONCE)


def test_why_no_more_is_listed_is_told_below_that_list_alone(visit: Visit) -> None:
    page, more, refusal = visit.page, visit.page.locator("#main .more"), {"detail": "The disk is gone."}
    list_few(page)
    held = HeldRequests(page, re.compile("after="))
    more.dblclick()
    asked = held.first()
    page.evaluate("fetch('/livez')")  # a second one would have been sent before
    assert held.routes == [asked]
    asked.fulfill(status=500, json=refusal)
    expect(more).to_have_text("Show more (The disk is gone.)")
    visit.open_options()
    page.get_by_label("Sort by").select_option("date")
    expect(more).to_have_text("Show more")
    held.routes.clear()
    more.click()
    asked = held.first()
    page.get_by_label("Sort by").select_option("relevance")
    expect(page.locator("#main")).not_to_have_attribute("aria-busy", "true")
    asked.fulfill(status=500, json=refusal)
    expect(more).not_to_have_attribute("aria-disabled", "true")
    expect(more).to_have_text("Show more")


def test_as_many_are_shown_at_the_same_place_when_the_library_is_listed_anew(visit: Visit) -> None:
    page = visit.page
    list_few(page)
    page.get_by_role("button", name="Show more").press("Enter")
    expect(cards(page)).to_have_count(len(COLOURS))
    expect(cards(page).nth(AT_ONCE).get_by_role("button", name="Edit")).to_be_focused()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    before = page.evaluate("scrollY")
    assert before > 0
    last = cards(page).last
    patient.patch(f"{visit.address}/images/{image_id(last)}", json={"tags": {"seen": "yes"}}).raise_for_status()
    page.evaluate(LOOKED_AT_AGAIN)
    expect(last).to_contain_text("seen: yes")
    expect(cards(page)).to_have_count(len(COLOURS))
    assert page.evaluate("scrollY") == before
    page.reload()
    expect(cards(page)).to_have_count(len(COLOURS))
    page.wait_for_function(f"scrollY === {before}")


def test_what_waits_is_looked_at_again(visit: Visit) -> None:
    def all_wait(route: Route) -> None:
        answer = route.fetch().json()
        images = [{**one, "state": "queued"} for one in answer["images"]]
        route.fulfill(json={**answer, "images": images, "queued": len(images)})

    refused = set[str]()

    def refuse_once(route: Route) -> None:
        is_again = route.request.url in refused
        refused.add(route.request.url)
        route.continue_() if is_again else route.fulfill(status=503)

    page, waiting = visit.page, visit.page.locator("#main .picture", has_text="waiting")
    page.clock.install()
    page.route("**/thumbnail", refuse_once)
    page.route("**/images?*", all_wait)
    page.route("**/readyz", lambda route: route.fulfill(status=503, json={"detail": "worker: none was heard from"}))
    page.reload()
    expect(waiting).to_have_count(len(COLOURS))
    expect(waiting.locator("img")).to_have_count(0)
    page.clock.run_for(4000)
    expect(waiting.locator("img").first).to_have_js_property("naturalWidth", 64)
    assert accessibility_faults(page) == []
    for _ in range(7):
        with page.expect_response("**/images?*"):
            page.clock.run_for(3000)
    expect(page.locator("#status")).to_contain_text("The service is not ready: worker: none was heard from.")
    page.unroute("**/images?*")
    page.clock.run_for(3000)
    expect(waiting).to_have_count(0)
    expect(page.locator("#status")).not_to_contain_text("not ready")


def test_a_picture_that_failed_says_why_and_is_tried_again(visit: Visit) -> None:
    page = visit.page
    send(visit.address, "cut.png", png(two_coloured("red", "red", 640, 480))[:-200])
    (failure,) = patient.get(f"{visit.address}/failures").json()["failures"]
    page.reload()
    failed = cards(page).filter(has_text="cut.png")
    again = failed.get_by_role("button", name="Try again: cut.png")
    expect(failed).to_contain_text(failure["reason"])
    assert accessibility_faults(page) == []
    with page.expect_response(f"**/failures/{failure['image_id']}/retry") as answered:
        again.click()
    assert answered.value.status == 202
    expect(failed).to_contain_text(failure["reason"])  # as it is damaged still
    page.route("**/retry", lambda route: route.fulfill(status=409, json={"detail": "Send the file again."}))
    again.click()
    expect(failed.get_by_role("alert")).to_have_text("Send the file again.")
    page.evaluate("document.body.classList.add('read-only')")
    expect(again).to_be_hidden()
