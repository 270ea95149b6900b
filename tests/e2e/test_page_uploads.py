"""Pictures on their way: lost connections, several choices at once, leaving the page, a library that fills."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support import patient
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Locator, Page, Response, Route, expect

from tests.e2e.browser import HeldRequests, Visit, accessibility_faults, query

pytestmark = pytest.mark.browser

NO_PICTURE = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no"}

ASKS_BEFORE_LEAVING = """
() => {
  const leaving = new Event("beforeunload", { cancelable: true });
  dispatchEvent(leaving);
  return leaving.defaultPrevented;
}
"""


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    """The page over an empty library."""
    with running_server(tmp_path / "data") as address:
        begun = Visit(browser, address)
        begun.page.get_by_role("heading", name="No pictures yet").wait_for()
        yield begun
        begun.close()


def picture(left: str, right: str) -> dict[str, Any]:
    return {"name": f"{left}-{right}.png", "mimeType": "image/png", "buffer": png(two_coloured(left, right, 64, 48))}


def choose(page: Page, *files: Any) -> None:
    """Choose files to be taken in."""
    page.locator("#choose-files").set_input_files(files=list(files))


def told(page: Page) -> Locator:
    return page.locator("#add").get_by_role("status")


def test_a_list_that_is_scrolled_is_reached_by_keys(visit: Visit) -> None:
    files = ({"name": f"{n}.txt", "mimeType": "text/plain", "buffer": b"no"} for n in range(30))
    choose(visit.page, *files)
    expect(told(visit.page)).to_contain_text("30 left out")
    assert accessibility_faults(visit.page) == []


def test_a_question_to_an_empty_library_says_that_nothing_can_be_found_yet(visit: Visit) -> None:
    query(visit.page).fill("red")
    expect(visit.page.locator("#status")).to_have_text("No picture can be found yet.")
    visit.open_options()
    visit.page.get_by_label("Look at").select_option("text alone")
    expect(visit.page.locator("#status")).to_have_text("No picture has these words in its text.")


def test_copies_and_what_was_there_already_are_told_apart(visit: Visit) -> None:
    page = visit.page
    choose(page, picture("red", "red"))
    expect(told(page)).to_have_text("Done: 1 of 1 can be found.")
    copy = picture("blue", "red") | {"name": "copy.png"}
    choose(page, picture("red", "red"), picture("blue", "red"), copy, {**copy, "name": "no.png", "buffer": b"no"})
    expect(told(page)).to_have_text("Done: 3 of 4 can be found, 2 of them there already, 1 left out.")
    bar = page.get_by_role("progressbar", name="Pictures taken in")
    assert bar.evaluate("one => one.value === one.max")
    there_already = page.locator("#add .reasons").nth(1).locator("li")
    expect(there_already).to_have_text([re.compile("copy.png"), re.compile("red-red.png")])


def test_a_deleted_picture_that_is_taken_in_again_is_told_of(visit: Visit) -> None:
    page = visit.page
    choose(page, picture("red", "red"))
    expect(told(page)).to_have_text("Done: 1 of 1 can be found.")
    (known,) = patient.get(f"{visit.address}/images").json()["images"]
    patient.delete(f"{visit.address}/images/{known['image_id']}").raise_for_status()
    choose(page, picture("red", "red"), picture("blue", "red"))
    expect(told(page)).to_have_text("Done: 2 of 2 can be found, 1 of them deleted before.")
    expect(page.get_by_role("heading", name="Deleted before, and there again as they were: 1 file")).to_be_visible()
    expect(page.locator("#add .reasons li")).to_have_text([re.compile("red-red.png")])


@pytest.mark.parametrize(
    ("fail", "why"),
    [
        (lambda route: route.abort(), "The service does not answer."),
        (lambda route: route.fulfill(status=503, body="<h1>No server</h1>"), "The service answered 503."),  # by a proxy
    ],
)
def test_a_service_that_is_not_there_is_waited_for_and_sent_the_files_again(visit: Visit, fail: Any, why: str) -> None:
    page = visit.page
    page.route("**/ingest", fail)
    choose(page, picture("red", "blue"))
    expect(told(page)).to_have_text(f"Taking in: 0 of 1 can be found. {why} It is waited for.")
    page.unroute("**/ingest")
    expect(told(page)).to_have_text("Done: 1 of 1 can be found.")


def test_what_a_service_that_lacks_something_refuses_is_sent_again_when_somebody_wants_it(visit: Visit) -> None:
    page, asked = visit.page, list[str]()
    why = "The server may not write to its disk."

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        # Without a time after which it would be another.
        route.fulfill(status=503, json={"type": "urn:regard:problem:not-ready", "detail": why})

    page.route("**/ingest", refuse)
    choose(page, picture("red", "blue"), picture("green", "blue"))
    expect(told(page)).to_have_text(f"{why} Done: 0 of 2 can be found, 2 not taken in.")
    expect(page.locator("#add li")).to_have_text([re.compile("green-blue.png"), re.compile("red-blue.png")])
    page.wait_for_timeout(2500)  # more than twice the pause of one that sends by itself
    assert len(asked) == 1
    page.unroute("**/ingest")
    page.locator("#add").get_by_role("button", name="Try again").press("Enter")
    expect(told(page)).to_have_text("Done: 2 of 2 can be found.")
    expect(page.locator("#add li")).to_have_count(0)
    close = page.locator("#add").get_by_role("button", name="Close")
    expect(close).to_be_focused()
    close.press("Enter")
    expect(page.get_by_role("button", name="Add pictures")).to_be_focused()


def test_a_file_that_is_gone_from_the_disk_is_not_waited_for(visit: Visit, tmp_path: Path) -> None:
    page, moved = visit.page, tmp_path / "moved.png"
    moved.write_bytes(picture("red", "red")["buffer"])
    held = HeldRequests(page, "**/ingest")
    choose(page, picture("red", "blue"))
    held.first()
    choose(page, moved)
    moved.unlink()
    held.let_go()
    expect(told(page)).to_have_text("Done: 1 of 2 can be found, 1 left out.")
    expect(page.locator("#add li", has_text="moved.png")).to_contain_text("cannot be read any more")


def test_a_list_of_failures_that_cannot_be_had_is_no_failure_of_an_upload(visit: Visit) -> None:
    page = visit.page
    page.route("**/failures", lambda route: route.abort())
    choose(page, picture("red", "blue"))
    expect(page.locator("#add")).to_contain_text("What was set aside cannot be shown: The service does not answer.")
    expect(told(page)).to_have_text("Done: 1 of 1 can be found.")


def test_leaving_is_asked_about_as_long_as_files_are_unsent(visit: Visit) -> None:
    page = visit.page
    assert not page.evaluate(ASKS_BEFORE_LEAVING)
    held = HeldRequests(page, "**/ingest")
    choose(page, picture("red", "blue"))
    expect(told(page)).to_have_text("Taking in: 0 of 1 can be found.")
    assert page.evaluate(ASKS_BEFORE_LEAVING)
    page.evaluate("window.isSame = true")
    page.get_by_role("link", name="Regard").click()  # which loads nothing anew
    held.let_go()
    expect(told(page)).to_have_text("Done: 1 of 1 can be found.")
    assert page.evaluate("window.isSame")
    assert not page.evaluate(ASKS_BEFORE_LEAVING)


def test_what_is_chosen_while_pictures_are_sent_joins_their_report(visit: Visit) -> None:
    page = visit.page
    held = HeldRequests(page, "**/ingest")
    choose(page, picture("red", "blue"), {"name": "first.txt", "mimeType": "text/plain", "buffer": b"words"})
    choose(page, picture("green", "blue"), {"name": "second.txt", "mimeType": "text/plain", "buffer": b"words"})
    expect(told(page)).to_have_text("Taking in: 0 of 4 can be found, 2 left out.")
    expect(told(page)).to_have_attribute("aria-live", "off")
    assert page.get_by_role("progressbar").evaluate("one => [one.value, one.max]") == [2, 4]
    held.let_go()
    expect(told(page)).to_have_text("Done: 2 of 4 can be found, 2 left out.")
    expect(told(page)).to_have_attribute("aria-live", "polite")
    for name in ("first.txt", "second.txt"):
        expect(page.locator("#add li", has_text=name)).to_have_count(1)


def test_a_folder_that_is_chosen_again_meanwhile_is_counted_once(visit: Visit, tmp_path: Path) -> None:
    page, folder = visit.page, tmp_path / "album"
    folder.mkdir()
    (folder / "notes.txt").write_bytes(b"words")
    for name in ("red", "green"):
        (folder / f"{name}.png").write_bytes(picture(name, "blue")["buffer"])
    held = HeldRequests(page, "**/ingest")
    for _ in range(2):
        page.locator("#choose-folder").set_input_files(folder)
        expect(told(page)).to_have_text("Taking in: 0 of 3 can be found, 1 left out.")
    expect(page.locator("#add li")).to_have_text([re.compile("notes.txt")])
    held.let_go()
    expect(told(page)).to_have_text("Done: 2 of 3 can be found, 1 left out.")
    held = HeldRequests(page, "**/jobs/**")
    page.locator("#choose-folder").set_input_files(folder)
    held.first()
    expect(told(page)).to_have_text("Taking in: 0 of 3 can be found, 1 left out.")  # though it is known what was there
    held.let_go()
    expect(told(page)).to_have_text("Done: 2 of 3 can be found, 2 of them there already, 1 left out.")


def test_an_empty_library_shows_what_is_taken_in_before_it_can_be_found(visit: Visit) -> None:
    page = visit.page
    held = HeldRequests(page, "**/jobs/**")
    choose(page, picture("red", "blue"))
    expect(page.get_by_role("list", name="Library").locator("li.card")).to_have_count(1)
    expect(page.get_by_role("heading", name="No pictures yet")).to_have_count(0)
    held.let_go()
    expect(told(page)).to_have_text("Done: 1 of 1 can be found.")


def test_many_batches_leave_the_browser_connections_for_all_else(visit: Visit) -> None:
    page, num = visit.page, 150  # a browser has six connections to a service, and a batch is of 20 pictures
    held = HeldRequests(page, "**/jobs/**")
    files = [
        {"name": f"{n}.png", "mimeType": "image/png", "buffer": png(Image.new("RGB", (64, 48), (n, 0, 200)))}
        for n in range(num)
    ]
    taken = list[Response]()
    page.on("response", lambda one: taken.append(one) if one.url.endswith("/ingest") else None)
    with page.expect_event("response", lambda _: len(taken) == 8):
        choose(page, *files)
    expect(page.get_by_role("list", name="Library").locator("li.card")).to_have_count(48)
    assert held.first()
    assert len(held.routes) == 1
    held.let_go()
    expect(told(page)).to_have_text(f"Done: {num} of {num} can be found.")
    expect(page.locator("#status")).to_have_text(f"{num} pictures.")


def test_a_question_folds_the_panel_that_takes_pictures_in(visit: Visit) -> None:
    page = visit.page
    choose(page, picture("red", "blue"), {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"words"})
    heading, left = page.get_by_role("heading", name="Add pictures"), page.locator("#add li", has_text="notes.txt")
    expect(told(page)).to_have_text("Done: 1 of 2 can be found, 1 left out.")
    expect(left).to_be_visible()
    query(page).fill("red")
    expect(page.get_by_role("list", name="Results")).to_be_visible()
    expect(heading).to_be_hidden()
    expect(left).to_be_hidden()
    expect(told(page)).to_be_visible()
    page.get_by_role("button", name="Library").click()
    expect(left).to_be_visible()


def test_a_closed_panel_opens_where_something_was_not_taken_in(visit: Visit) -> None:
    page, panel = visit.page, visit.page.locator("#add")
    for files, is_shown in (([picture("red", "blue")], False), ([picture("blue", "red"), NO_PICTURE], True)):
        held = HeldRequests(page, "**/ingest")
        choose(page, *files)
        held.first()
        panel.get_by_role("button", name="Close").click()
        held.let_go()
        expect(page.locator("#status")).to_have_text(f"{1 + is_shown} picture{'s' * is_shown}.")
        expect(panel.locator("[role=status]")).to_have_text(re.compile("^Done"))
        expect(panel).to_be_visible(visible=is_shown)
