"""The layout of the page: names and lines that are broken, panoramas, options in a window that is not wide."""

from collections.abc import Iterator

import pytest

from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Locator, Route, expect

from tests.e2e.browser import Visit, open_large, query, search, send

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("layout")) as url:
        about = {"tags": {"album": "Summer/Norway"}, "taken_at": "2024-05-01"}
        send(url, "IMG_0412.jpg", png(two_coloured("red", "blue", 320, 240)), about)
        send(url, "panorama.png", png(two_coloured("green", "blue", 1600, 200)))
        yield url


def bounds(one: Locator) -> dict[str, float]:
    found = one.bounding_box()
    assert found is not None
    left, top, width, height = found["x"], found["y"], found["width"], found["height"]
    return {"x": left, "y": top, "width": width, "height": height, "bottom": top + height}


def test_names_are_broken_behind_their_marks_and_no_separator_stands_alone(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport={"width": 320, "height": 640})
    card = visit.page.locator("#main li.card", has_text="IMG")
    expect(card.locator(".title")).to_have_js_property("innerHTML", "IMG_<wbr>0412.<wbr>jpg")
    expect(card.locator(".facts > *")).to_have_text(["May 1, 2024", "album: Summer/Norway"])
    expect(query(visit.page)).to_have_attribute("placeholder", "Search pictures")
    search(visit.page, "red")
    expect(card.locator(".facts > *").last).to_have_js_property("innerHTML", "album: Summer/<wbr>Norway")
    visit.page.go_back()
    expect(visit.page.locator(".selection")).to_have_css("border-bottom-style", "solid")
    visit.close()


def test_text_is_as_large_as_somebody_wants_it(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport={"width": 390, "height": 844})
    visit.page.evaluate("document.documentElement.style.fontSize = '200%'")  # as the browser's own setting has it
    expect(visit.page.locator("#main .title").first).to_have_css("font-size", "32px")
    assert bounds(visit.page.get_by_role("searchbox"))["width"] > 300
    visit.open_options()
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 390  # nothing is beside the screen
    visit.close()


@pytest.mark.parametrize("width", [320, 640, 700])  # of windows whose text is drawn larger, up to four times
def test_a_question_has_room_in_a_narrow_window(browser: Browser, address: str, width: int) -> None:
    visit = Visit(browser, address, viewport={"width": width, "height": 480})
    assert bounds(query(visit.page))["width"] > min(350, 0.7 * width)
    visit.close()


def test_what_is_said_of_a_panorama_stands_below_it(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport={"width": 1280, "height": 800})
    dialog = open_large(visit.page, "panorama.png")
    assert bounds(dialog.locator("figure"))["bottom"] <= bounds(dialog.locator(".why"))["y"]
    assert bounds(dialog.locator("figure"))["width"] > 1200
    visit.page.keyboard.press("ArrowRight")
    expect(dialog.get_by_role("heading", level=2)).to_have_text("IMG_0412.jpg")
    assert bounds(dialog.locator("figure"))["y"] == bounds(dialog.locator(".why"))["y"]
    visit.close()


def test_what_filters_stays_together_in_a_window_that_is_not_wide(browser: Browser, address: str) -> None:
    def long_names(route: Route) -> None:
        answer = route.fetch().json()
        (model,) = answer["models"]
        others = [{**model, "name": f"{n}-model-of-a-long-name", "default": n == 0} for n in range(2)]
        route.fulfill(json={**answer, "models": others})

    visit = Visit(browser, address, options_open=True, viewport={"width": 700, "height": 800})
    visit.page.route("**/models", long_names)
    visit.page.reload()
    model = visit.page.get_by_role("combobox", name="Model", exact=True)  # a label's text holds the options' as well
    expect(model.locator("option")).to_have_text(["0-model-of-a-long-name", "1-model-of-a-long-name"])
    expect(visit.page.get_by_label("beside")).to_be_visible()
    filters = [visit.page.get_by_label(name, exact=True) for name in ("From", "to", "Tag")]
    lines = [bounds(one)["y"] for one in (model, *filters)]
    assert lines[0] > lines[1] == lines[2] == lines[3]
    visit.close()
