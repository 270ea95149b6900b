"""The page says what was found by its text, and what a query waited for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Route, expect

from tests.e2e.browser import Visit, asked_by, cards, chromium, query, search, send

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(tmp_path: Path) -> Iterator[Visit]:
    with running_server(tmp_path, at_first_use=True) as address, chromium() as browser:
        for left, right, date in (("red", "blue", "2021"), ("green", "yellow", "2023-05")):
            about = {"captions": [f"{left} and {right}"], "taken_at": date}
            send(address, f"{left}-{right}.png", png(two_coloured(left, right, 320, 240)), about)
        begun = Visit(browser, address)
        yield begun
        begun.close()


def test_the_first_query_says_that_its_model_was_loaded(visit: Visit) -> None:
    status = visit.page.locator("#status")
    search(visit.page, "red")
    expect(status).to_contain_text("fake was loaded first, in")
    search(visit.page, "blue")
    expect(status).to_contain_text("pictures.")
    expect(status).not_to_contain_text("loaded")


def test_a_date_in_a_question_is_offered_as_a_filter(visit: Visit) -> None:
    page, offer = visit.page, visit.page.locator("#status button")
    search(page, "white since May 2023")
    expect(offer).to_have_text("Only from 2023-05")
    offer.click()
    expect(cards(page)).to_have_count(1)
    expect(offer).to_have_count(0)
    expect(page.get_by_label("From")).to_have_value("2023-05")
    expect(query(page)).to_have_value("white")
    page.go_back()
    expect(query(page)).to_have_value("white since May 2023")


def test_a_result_says_that_its_text_holds_the_words(visit: Visit) -> None:
    answer = search(visit.page, "red and blue")
    assert answer["results"][0]["found_by"] == ["pictures", "text"]
    about = visit.page.locator("li.card .about")
    expect(about.first.locator(".facts span").first).to_have_text("by its text")
    by_pictures = [n for n, hit in enumerate(answer["results"]) if hit["found_by"] == ["pictures"]]
    expect(about.nth(by_pictures[0])).not_to_contain_text("by its text")

    visit.page.locator("li.card .picture").first.click()
    why, told = visit.page.locator(".why"), "its file name, captions, tags or date hold what was asked."
    expect(why.locator("p").first).to_have_text(f"Found by its text: {told}")
    visit.page.get_by_role("button", name="Next").click()
    expect(why).to_contain_text("Rank 2")
    expect(why).not_to_contain_text("its text")
    visit.page.keyboard.press("Escape")
    expect(visit.page.get_by_role("dialog")).to_be_hidden()

    def found_by_text(route: Route) -> None:
        asked = asked_by(route.request) | {"match": "text"}
        route.fulfill(response=route.fetch(post_data=asked))

    visit.page.route("**/search/text", found_by_text)
    search(visit.page, "blue and red")
    expect(about.first).to_contain_text("by its text")
    visit.page.locator("li.card .picture").first.click()
    expect(visit.page.get_by_role("dialog")).to_contain_text(
        "Found by its name, captions, tags or date alone: blue, red."
    )
