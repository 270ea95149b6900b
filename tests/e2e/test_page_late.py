"""Answers that come when somebody has gone on: nothing that is written is lost, and nothing takes the focus away."""

import re
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from tests.support import patient
from tests.support.library import two_coloured
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import FilePayload, Locator, Page, Route, expect

from tests.e2e.browser import DELETE, LOOKED_AT_AGAIN, HeldRequests, Visit, asked_by, open_large, search

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("all_shown")]

COLOURS = ["red", "green", "blue", "yellow", "cyan"]
SHOWN = 24  # results that the page asks for at first
FULL: dict[str, Any] = {"status": 507, "json": {"detail": "The disk is full."}}
REFUSED = "all green failed: The disk is full."


def card(page: Page, colour: str) -> Locator:
    return page.locator("#main li.card", has_text=f"all {colour}")


def changes(page: Page) -> HeldRequests:
    """The requests that change or delete single pictures, held."""
    return HeldRequests(page, "**/images/*", lambda request: request.method != "GET")


def let_go(held: HeldRequests) -> None:
    """Have the first that is held answered."""
    route = held.first()
    with route.request.frame.page.expect_event("requestfinished", lambda request: request == route.request):
        route.continue_()


def save(page: Page, colour: str, tag: str) -> None:
    card(page, colour).get_by_role("button", name="Edit").click()
    card(page, colour).get_by_label("Tags").fill(tag)
    card(page, colour).get_by_role("button", name="Save").click()


def test_who_writes_elsewhere_keeps_the_focus_when_a_picture_is_saved(visit: Visit) -> None:
    page, held = visit.page, changes(visit.page)
    save(page, "green", "place: Oslo")
    held.first()
    card(page, "blue").get_by_role("button", name="Edit").click()
    captions = card(page, "blue").get_by_label("Captions")
    captions.fill("a dog in")
    let_go(held)
    expect(card(page, "green").locator("form")).to_have_count(0)
    page.keyboard.type(" the snow")
    expect(captions).to_have_value("a dog in the snow")
    expect(card(page, "green").locator("form")).to_have_count(0)


def test_a_deletion_that_is_told_late_is_not_undone_by_a_space(visit: Visit) -> None:
    page, held, tag = visit.page, changes(visit.page), visit.page.get_by_label("Tag", exact=True)
    visit.open_options()
    card(page, "green").get_by_role("button", name=DELETE).click()
    held.first()
    tag.fill("album:")
    let_go(held)
    expect(card(page, "green").get_by_role("button", name="Undo")).to_be_visible()
    page.keyboard.type(" Summer")
    expect(tag).to_have_value("album: Summer")
    expect(card(page, "green").get_by_role("button", name="Undo")).to_be_visible()
    assert "green.png" not in {one["filename"] for one in patient.get(f"{visit.address}/images").json()["images"]}


def test_a_form_that_is_being_saved_takes_nothing_that_would_be_lost(visit: Visit) -> None:
    page, held = visit.page, changes(visit.page)
    save(page, "green", "place: Oslo")
    held.first()
    tags = card(page, "green").get_by_label("Tags")
    tags.press_sequentially("!")
    expect(tags).to_have_value("place: Oslo")
    expect(tags).not_to_be_editable()
    held.first().fulfill(**FULL)
    expect(card(page, "green").get_by_role("alert")).to_have_text("The disk is full.")
    expect(tags).to_be_editable()


def test_a_form_that_is_opened_again_while_the_first_is_saved_stays(visit: Visit) -> None:
    page, held = visit.page, changes(visit.page)
    save(page, "green", "place: Oslo")
    held.first()
    card(page, "green").get_by_role("button", name="Cancel").click()
    card(page, "green").get_by_role("button", name="Edit").click()
    captions = card(page, "green").get_by_label("Captions")
    captions.fill("another")
    let_go(held)
    page.wait_for_function("document.querySelector('form.editor textarea').value === 'another'")
    card(page, "green").get_by_role("button", name="Save").click()
    held.let_go()
    expect(page.locator("#main li.card", has_text="another")).to_contain_text("place: Oslo")


def test_a_save_that_was_cancelled_too_late_is_shown(visit: Visit) -> None:
    page, held = visit.page, changes(visit.page)
    save(page, "green", "place: Oslo")
    held.first()
    card(page, "green").get_by_role("button", name="Cancel").click()
    expect(card(page, "green").locator("form")).to_have_count(0)
    let_go(held)
    expect(card(page, "green")).to_contain_text("place: Oslo")


def test_the_next_tag_may_be_written_while_one_is_given(visit: Visit) -> None:
    page, held = visit.page, changes(visit.page)
    page.get_by_role("button", name="Select several").click()
    card(page, "green").locator("button.picture").click()
    tag = page.get_by_label("Tag for those selected")
    tag.fill("album: One")
    tag.press("Enter")
    held.first()
    tag.fill("place: Rome")
    let_go(held)
    expect(page.locator(".selection > p")).to_contain_text("1 picture tagged.")
    expect(tag).to_have_value("place: Rome")


@pytest.mark.parametrize("work", ["Saving", "Deleting"])
def test_what_was_not_done_is_told_to_whoever_went_on(visit: Visit, work: str) -> None:
    page, held = visit.page, changes(visit.page)
    if work == "Saving":
        save(page, "green", "place: Oslo")
    else:
        card(page, "green").get_by_role("button", name=DELETE).click()
    route = held.first()
    search(page, "red")
    route.fulfill(**FULL)
    expect(page.locator("#status")).to_have_text(f"{work} {REFUSED}")


def test_a_picture_that_came_back_after_it_was_closed_is_in_the_library(visit: Visit) -> None:
    page = visit.page
    dialog = open_large(page, "all green")
    dialog.get_by_role("button", name=DELETE).click()
    held = HeldRequests(page, "**/restore")
    dialog.get_by_role("button", name="Undo").click()
    held.first()
    dialog.get_by_role("button", name="Close").click()
    expect(card(page, "green")).to_have_count(0)
    held.let_go()
    expect(card(page, "green")).to_have_count(1)


def test_what_could_not_be_brought_back_is_told_to_whoever_went_on(visit: Visit) -> None:
    dialog = open_large(visit.page, "all green")
    dialog.get_by_role("button", name=DELETE).click()
    held = HeldRequests(visit.page, "**/restore")
    dialog.get_by_role("button", name="Undo").click()
    route = held.first()
    dialog.get_by_role("button", name="Next").click()
    route.fulfill(**FULL)
    expect(dialog.get_by_role("alert").first).to_have_text(f"Bringing back {REFUSED}")


class ManyResults:
    """Answers with as many results as the page asks for, the same pictures again and again; some are held."""

    def __init__(self, page: Page, is_held: Callable[[dict[str, Any]], bool]) -> None:
        """`is_held` is told what is asked."""
        self._page, self._is_held = page, is_held
        self._held: list[Route] = []
        page.route("**/search/text", self._answer)

    def _answer(self, route: Route) -> None:
        if self._is_held(asked_by(route.request)):
            self._held.append(route)
        else:
            self._fulfill(route)

    def _fulfill(self, route: Route) -> None:
        found = route.fetch()
        answer, asked = found.json(), asked_by(route.request)["k"]
        hits = islice(cycle(answer["results"]), asked)
        route.fulfill(response=found, json={**answer, "results": [{**hit, "rank": n} for n, hit in enumerate(hits, 1)]})

    def wait(self) -> None:
        """Return once one is held."""
        while not self._held:
            self._page.wait_for_timeout(20)

    def let_go(self) -> None:
        """Answer the one that is held, once it is."""
        self.wait()
        self._fulfill(self._held.pop())


def test_a_picture_of_an_older_answer_is_not_followed_by_those_of_the_next(visit: Visit) -> None:
    page, cards = visit.page, visit.page.locator("#main li.card")
    answers = ManyResults(page, lambda asked: asked["query"] == "blue")
    search(page, "red")
    expect(cards).to_have_count(SHOWN)
    page.get_by_label("What do the pictures show?").fill("blue")
    answers.wait()
    cards.last.locator("button.picture").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Rank {SHOWN}")
    answers.let_go()
    expect(page.locator("#main li.card .title").first).to_have_text("all blue")
    expect(page.get_by_role("dialog").get_by_role("button", name="Next")).to_be_disabled()


def test_who_writes_elsewhere_keeps_the_focus_when_more_is_shown(visit: Visit) -> None:
    page, tag = visit.page, visit.page.get_by_label("Tag", exact=True)
    visit.open_options()
    answers = ManyResults(page, lambda asked: asked["k"] > SHOWN)
    search(page, "red")
    page.get_by_role("button", name="Show more").click()
    tag.fill("album:")
    answers.let_go()
    expect(page.locator("#main li.card").nth(SHOWN)).to_be_attached()
    expect(page.locator("#main")).not_to_have_attribute("aria-busy", "true")
    page.keyboard.type(" Summer")
    expect(tag).to_have_value("album: Summer")


def test_who_writes_elsewhere_keeps_the_focus_when_a_picture_is_brought_back(visit: Visit) -> None:
    page, tag = visit.page, visit.page.get_by_label("Tag", exact=True)
    visit.open_options()
    card(page, "green").get_by_role("button", name=DELETE).click()
    expect(card(page, "green").get_by_role("button", name="Undo")).to_be_visible()
    page.reload()
    page.get_by_text("Deleted pictures").click()
    held = HeldRequests(page, "**/restore")
    page.get_by_role("button", name="Bring back all green").click()
    held.first()
    tag.fill("album:")
    held.let_go()
    expect(page.locator("#main > details:last-child")).to_contain_text("all green is back.")
    page.keyboard.type(" Summer")
    expect(tag).to_have_value("album: Summer")


def test_words_besides_are_written_on_while_another_picture_is_asked_with(visit: Visit) -> None:
    page, words = visit.page, visit.page.get_by_label("What they should show besides")
    card(page, "green").get_by_role("button", name="More like this").click()
    expect(page.locator("#status")).to_contain_text("Pictures like all green")
    held = HeldRequests(page, "**/search/image")
    card(page, "blue").get_by_role("button", name="More like this").click()
    held.first()
    words.fill("in the")
    held.let_go()
    expect(page.locator("#status")).to_contain_text("Pictures like all blue")
    page.keyboard.type(" snow")
    expect(words).to_have_value("in the snow")


def test_words_besides_are_written_on_while_the_service_refuses(visit: Visit) -> None:
    page, words, status = (
        visit.page,
        visit.page.get_by_label("What they should show besides"),
        visit.page.locator("#status"),
    )

    def refuse(route: Route) -> None:
        route.fulfill(status=503, json={"detail": "Many wait."}, headers={"Retry-After": "1"})

    card(page, "green").get_by_role("button", name="More like this").click()
    expect(status).to_contain_text("Pictures like all green")
    page.route("**/search/image", refuse)
    words.fill("red")
    words.press("Enter")
    expect(status).to_contain_text("Many wait.")
    page.keyboard.type(" wall")
    page.unroute("**/search/image", refuse)
    expect(status).to_contain_text("Pictures like all green that show “red”")
    expect(words).to_have_value("red wall")
    expect(words).to_be_focused()


def test_a_file_that_is_gone_is_told_of_and_not_asked_with_again(visit: Visit, tmp_path: Path) -> None:
    page, asked, file = visit.page, list[str](), tmp_path / "mine.png"
    file.write_bytes(png(two_coloured("red", "blue", 64, 48)))
    page.locator("#like-file").set_input_files(file)
    expect(page.locator("#status")).to_contain_text("Pictures like mine.png")
    file.unlink()
    page.evaluate("addEventListener('unhandledrejection', (one) => one.preventDefault())")  # chromium's own
    page.on("request", lambda request: asked.append(request.url))
    visit.open_options()
    page.get_by_label("Sort by").select_option("date")
    expect(page.locator("#status")).to_contain_text("cannot be read any more: choose it again.")
    assert len([one for one in asked if one.endswith("/search/image")]) <= 1


def test_the_library_is_shown_while_pictures_are_taken_in(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    held = HeldRequests(page, re.compile(r"/images\?(?!.*deleted)"))
    page.get_by_role("button", name="Library", exact=True).click()
    first = held.first()
    for _ in range(3):  # as each batch does that is taken in
        page.evaluate(LOOKED_AT_AGAIN)
    assert held.routes == [first]
    held.let_go()
    expect(page.get_by_role("list", name="Library")).to_be_visible()


def test_failures_that_are_told_late_do_not_replace_later_ones(visit: Visit) -> None:
    page, held = visit.page, list[Route]()

    def answer(route: Route) -> None:
        if held:
            bad = {"image_id": "0" * 32, "filename": "bad.png", "reason": "broken"}
            route.fulfill(json={"failures": [bad]})
        else:
            held.append(route)

    page.route("**/failures", answer)
    page.get_by_role("button", name="Add pictures").first.click()
    page.wait_for_timeout(100)
    file: FilePayload = {"name": "n.png", "mimeType": "image/png", "buffer": png(two_coloured("red", "red", 80, 48))}
    page.locator("#add input[type=file]").first.set_input_files([file])
    expect(page.locator("#add [role=status]")).to_contain_text("Done")
    held[0].fulfill(json={"failures": []})
    expect(page.locator("#add")).to_contain_text("Set aside so far: 1 file")
