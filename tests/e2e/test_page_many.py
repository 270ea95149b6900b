"""The page with more results than are explained at once."""

import itertools
from collections.abc import Iterator

import pytest

from tests.support.fakes import COLOURS
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import expect

from tests.e2e.browser import Visit, cards, search, send

pytestmark = pytest.mark.browser

NUM, EXPLAINED = 104, 100


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sizes = itertools.count(40)
    with running_server(tmp_path_factory.mktemp("page")) as url:
        for left, right in itertools.islice(itertools.cycle(itertools.product(COLOURS, repeat=2)), NUM):
            send(url, f"{left}-{right}.png", png(two_coloured(left, right, next(sizes), 48)), {})
        yield url


def test_all_results_are_shown_and_the_best_hundred_explained(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    cards, more = page.locator("#main li.card"), page.get_by_role("button", name="Show more")
    expect(cards).to_have_count(24)
    more.click()
    expect(cards).to_have_count(EXPLAINED)
    more.click()
    expect(cards).to_have_count(NUM)
    expect(more).to_be_hidden()
    expect(page.locator("#status")).to_contain_text(f"{NUM} pictures")
    large = page.get_by_role("dialog")
    cards.first.locator("button").first.click()
    expect(large.get_by_role("group", name="Words")).to_be_visible()
    page.keyboard.press("Escape")
    cards.last.locator("button").first.click()
    expect(large).to_contain_text(f"Regions are shown for the best {EXPLAINED}.")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More like this").first.click()
    expect(cards).to_have_count(24)
    page.go_back()  # as many as there were
    expect(cards).to_have_count(NUM)


def test_the_first_further_picture_has_the_focus_while_several_are_chosen(visit: Visit) -> None:
    page = visit.page
    shown = cards(page)
    expect(shown).to_have_count(48)
    page.get_by_role("button", name="Select several").click()
    page.get_by_role("button", name="Show more").press("Enter")
    expect(shown.nth(48).get_by_role("checkbox")).to_be_focused()
    expect(shown.nth(48)).to_be_in_viewport()
