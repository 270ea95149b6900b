"""The page on paper, under a finger, in a system's colours and by its landmarks; questions longer than are answered."""

from collections.abc import Iterator

import pytest

from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.e2e.browser import Visit, asked_by, search, send

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        send(url, "red.png", png(two_coloured("red", "white", 64, 48)))
        yield url


def test_what_is_printed_is_what_was_found_or_the_picture_that_is_looked_at(visit: Visit) -> None:
    page, dialog = visit.page, visit.page.get_by_role("dialog")
    card = page.locator("#main li.card")
    search(page, "red")
    page.emulate_media(media="print")
    expect(card.locator("img")).to_be_visible()
    for hidden in (page.locator("header").first, page.locator("#options"), page.get_by_text("More like this")):
        expect(hidden).to_be_hidden()
    page.emulate_media(media="screen")
    card.locator(".picture").click()
    page.emulate_media(media="print")
    expect(dialog.locator("figure img")).to_be_visible()
    expect(dialog).to_contain_text("Rank 1")
    above = dialog.locator("header")
    for hidden in (page.locator("#main"), page.locator("#status"), above.locator("button").first, above.locator("a")):
        expect(hidden).to_be_hidden()


def test_nothing_is_to_be_dropped_by_a_finger(browser: Browser, address: str, visit: Visit) -> None:
    touched = Visit(browser, address, has_touch=True, is_mobile=True)
    for page, told in ((visit.page, "Drop files or folders anywhere"), (touched.page, "Choose files or a folder:")):
        page.get_by_role("button", name="Add pictures", exact=True).click()
        expect(page.locator("#add p").first).to_contain_text(told)
    touched.close()


def test_all_of_the_page_lies_in_landmarks(visit: Visit) -> None:
    search(visit.page, "red")
    expect(visit.page.locator("#words .word")).to_have_count(1)
    assert "region" not in {rule["id"] for rule in Axe().run(visit.page).response["violations"]}


def test_a_question_that_is_too_long_is_asked_as_far_as_it_is_taken(visit: Visit) -> None:
    asked = visit.page.evaluate("'red ' + 'x'.repeat(600)")
    with visit.page.expect_request("**/search/text") as sent:
        visit.page.get_by_label("What do the pictures show?").fill(asked)
    assert asked_by(sent.value)["query"] == asked[:512]
    expect(visit.page.locator("#status")).to_contain_text("The question is long: its beginning alone was asked.")


GROUNDS = """
(element) => {
  const grounds = [element, element.closest("dialog")];
  return grounds.map((one) => getComputedStyle(one).backgroundColor);
}
"""


def test_bars_and_words_are_told_from_the_ground_where_colours_are_the_systems(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, forced_colors="active")
    page, dialog = visit.page, visit.page.get_by_role("dialog")
    search(page, "red children")
    page.locator("#main li.card .picture").click()
    dialog.get_by_text("Details", exact=True).click()
    bars = dialog.locator(".bars .bar")
    expect(bars).to_have_count(3)
    for name in ("bar", "bar negative"):
        bars.first.evaluate("(one, name) => (one.className = name)", name)
        ground, below = bars.first.evaluate(GROUNDS)
        assert bars.first.evaluate("(one) => one.offsetWidth - one.clientWidth") == 2  # the edge
        assert (ground == below) is (name == "bar negative")
    word = dialog.locator(".word").first
    before = word.evaluate(GROUNDS)
    word.click()
    assert word.evaluate(GROUNDS)[0] != before[0]
    expect(word).to_have_css("forced-color-adjust", "none")  # else the text has a ground of its own, of its own colour
    visit.close()
