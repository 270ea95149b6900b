"""More results than the page shows at first, and questions that the service refuses."""

import itertools
from collections.abc import Iterator

import pytest

from tests.support.fakes import COLOURS
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Locator, expect

from tests.e2e.browser import HeldRequests, Visit, search, send

pytestmark = pytest.mark.browser

NUM, AT_FIRST = 30, 24

SAFARI_16 = """
delete AbortSignal.any;
delete URLSearchParams.prototype.size;
addEventListener("scrollend", (event) => event.stopImmediatePropagation(), true);
"""
# From another page in Safari, which went to the field in focus.
GONE_BACK_TO = "scrollTo(0, 0); dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        for left, right in itertools.islice(itertools.product(COLOURS, repeat=2), NUM):
            send(url, f"{left}-{right}.png", png(two_coloured(left, right, 64, 48)), {"captions": [f"{left}, {right}"]})
        yield url


def titles(cards: Locator) -> list[str]:
    """Names of the pictures shown, in their order."""
    return cards.locator(".title").all_inner_texts()


def test_more_results_come_when_they_are_asked_for(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    cards, more = page.locator("#main li.card"), page.get_by_role("button", name="Show more")
    expect(cards).to_have_count(AT_FIRST)
    first = cards.evaluate_all("cards => cards.map(one => one.dataset.image)")
    held = HeldRequests(page, "**/search/text")
    more.dblclick()
    asked = held.first()
    page.evaluate("fetch('/livez')")  # a second one would have been sent before
    assert held.routes == [asked]
    held.let_go()
    expect(cards).to_have_count(NUM)
    expect(more).to_be_hidden()
    assert cards.evaluate_all("cards => cards.map(one => one.dataset.image)")[:AT_FIRST] == first
    expect(cards.nth(AT_FIRST).locator("button").first).to_be_focused()
    search(page, "blue")  # another question begins with few
    expect(cards).to_have_count(AT_FIRST)
    cards.first.get_by_role("button", name="More like this").click()
    expect(page.locator("#status")).to_contain_text("Pictures like")
    expect(cards).to_have_count(AT_FIRST)
    more.click()
    expect(cards).to_have_count(NUM - 1)


def test_another_question_begins_at_the_top_and_back_leads_to_where_one_was(visit: Visit) -> None:
    page = visit.page
    page.add_init_script(SAFARI_16)
    page.reload()
    search(page, "red")
    cards, status = page.locator("#main li.card"), page.locator("#status")
    page.get_by_role("button", name="Show more").click()
    expect(cards).to_have_count(NUM)
    last = cards.nth(NUM - 2)
    last.scroll_into_view_if_needed()
    left_at = page.evaluate("scrollY")
    assert left_at > 0
    last.get_by_role("button", name="More like this").click()
    expect(status).to_contain_text("Pictures like")
    assert page.evaluate("scrollY") == 0
    expect(page.locator("#main")).to_be_focused()  # the button is gone: whoever uses the keyboard goes on from here
    page.go_back()
    expect(cards).to_have_count(NUM)
    page.wait_for_function("place => scrollY === place", arg=left_at)
    last.locator("button.picture").click()  # large, and from there
    page.get_by_role("dialog").get_by_role("button", name="More like this").click()
    expect(status).to_contain_text("Pictures like")
    expect(page.locator("#main")).to_be_focused()
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(cards).to_have_count(NUM)
    page.wait_for_function("place => scrollY === place", arg=left_at)
    page.wait_for_function("place => history.state.scrolled === place", arg=left_at)
    page.reload()
    expect(cards).to_have_count(NUM)
    page.wait_for_function("place => scrollY === place", arg=left_at)
    page.evaluate("scrollTo(0, 9)")
    page.wait_for_function("() => history.state.scrolled === 9")
    page.evaluate(GONE_BACK_TO)
    page.wait_for_function("() => scrollY === 9")


def test_what_was_shown_before_does_not_stand_below_a_refusal(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    expect(page.locator("#main li.card")).to_have_count(AT_FIRST)
    page.locator("#like-file").set_input_files({"name": "a.jpg", "mimeType": "image/jpeg", "buffer": b"no picture"})
    expect(page.locator("#status")).to_contain_text("This is text, not a picture")
    expect(page.locator("#main li")).to_have_count(0)


@pytest.mark.parametrize("question", ["red", ""])
def test_what_follows_the_last_picture_shown_is_looked_at_next(visit: Visit, question: str) -> None:
    page, cards = visit.page, visit.page.locator("#main li.card")
    page.route("**/images?*", lambda route: route.continue_(url=route.request.url.replace("limit=48", "limit=12")))
    if question:
        search(page, question)
    else:
        page.reload()
    expect(cards).to_have_count(AT_FIRST if question else 12)
    cards.last.locator(".picture").click()
    dialog = page.get_by_role("dialog")
    before = dialog.get_by_role("heading", level=2).inner_text()
    dialog.get_by_role("button", name="Next", exact=True).click()
    expect(dialog.get_by_role("heading", level=2)).not_to_have_text(before)
    expect(cards).to_have_count(NUM if question else 24)
    expect(dialog.get_by_role("button", name="Next", exact=True)).to_be_focused()
    dialog.get_by_role("button", name="Previous", exact=True).click()
    expect(dialog.get_by_role("heading", level=2)).to_have_text(before)
    for _ in range(NUM - (AT_FIRST if question else 12)):
        page.keyboard.press("ArrowRight")
        expect(dialog.get_by_role("heading", level=2)).not_to_have_text(before)
        expect(dialog.get_by_role("button", name="Next", exact=True)).not_to_have_attribute("aria-disabled", "true")
    expect(dialog.get_by_role("button", name="Next", exact=True)).to_be_disabled()
    page.go_back()
    expect(dialog).to_be_hidden()
    expect(cards).to_have_count(NUM)


def test_further_pictures_that_cannot_be_had_are_told_of_where_one_is_looked_at(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    page.locator("#main li.card .picture").nth(AT_FIRST - 1).click()
    page.route("**/search/text", lambda route: route.fulfill(status=500, json={"detail": "The disk is gone."}))
    page.keyboard.press("ArrowRight")
    dialog, cards = page.get_by_role("dialog"), page.locator("#main li.card")
    expect(dialog.get_by_role("alert").first).to_have_text("The disk is gone.")
    expect(cards).to_have_count(AT_FIRST)  # what was found stays
    page.unroute("**/search/text")
    page.keyboard.press("ArrowRight")
    expect(cards).to_have_count(NUM)
    expect(dialog.get_by_role("button", name="Next", exact=True)).not_to_have_attribute("aria-disabled", "true")
    assert dialog.get_by_role("heading", level=2).inner_text() == titles(cards)[AT_FIRST]


def test_what_failed_for_a_picture_that_was_left_is_not_told_of_another(visit: Visit) -> None:
    page, cards = visit.page, visit.page.locator("#main li.card")
    search(page, "red")
    held = HeldRequests(page, "**/search/text")
    cards.last.locator(".picture").click()
    dialog = page.get_by_role("dialog")
    page.keyboard.press("ArrowRight")
    asked = held.first()
    page.go_back()
    expect(dialog).to_be_hidden()
    cards.first.locator(".picture").click()
    with page.expect_response("**/search/text"):
        asked.fulfill(status=500, json={"detail": "The disk is gone."})
    expect(dialog.get_by_role("button", name="Next", exact=True)).not_to_have_attribute("aria-disabled", "true")
    expect(dialog.get_by_role("alert")).to_have_count(0)


def test_results_stay_where_no_more_can_be_had(visit: Visit) -> None:
    page, cards = visit.page, visit.page.locator("#main li.card")
    search(page, "red")
    more, first = page.get_by_role("button", name="Show more"), titles(cards)
    page.route("**/search/text", lambda route: route.abort())
    page.route("**/livez", lambda route: route.abort())
    more.click()
    expect(page.locator("#status")).to_have_text("The service does not answer. Try again")
    assert titles(cards) == first
    expect(page.locator("#words button").first).to_be_visible()
    page.unroute("**/search/text")
    page.get_by_role("button", name="Try again").click()
    expect(cards).to_have_count(NUM)
    expect(more).to_be_hidden()
