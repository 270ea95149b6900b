"""Words of all kinds on the page: very long ones, from right to left, tags that look like numbers or hold a colon."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import patient
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.e2e.browser import DELETE, Visit, accessibility_faults, cards, search, send

pytestmark = pytest.mark.browser

LONG = "x" * 500
HEBREW = "כלב שחור"
ABOUT: dict[str, dict[str, Any]] = {
    "red": {"captions": [f"red {LONG}"], "tags": {"exif:lens": "35mm", "exif:iso": 200, LONG[:60]: LONG[:400]}},
    "green": {"captions": [HEBREW], "tags": {"exif:lens": "50mm", "exif:iso": 800}},
    "blue": {"captions": ["all blue"]},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        for colour, about in ABOUT.items():
            send(url, f"{colour}.png", png(two_coloured(colour, "white", 64, 48)), about)
        yield url


def add_tag(page: Page, condition: str) -> None:
    """Ask for a tag as a person does."""
    page.get_by_label("Tag", exact=True).fill(condition)
    page.get_by_label("Tag", exact=True).press("Enter")


def edit_tags(page: Page, tags: str) -> Locator:
    """The form of the blue picture, after these tags were written and saved."""
    cards(page).filter(has_text="all blue").get_by_role("button", name="Edit").click()
    form = page.get_by_role("form", name="Edit all blue")
    form.get_by_label("Tags").fill(tags)
    form.get_by_role("button", name="Save").click()
    return form


def tags_of_blue(address: str) -> dict[str, Any]:
    images = patient.get(f"{address}/images").json()["images"]
    (tags,) = (one["tags"] for one in images if one["filename"] == "blue.png")
    return dict(tags)


def test_what_is_no_finite_number_is_text(visit: Visit) -> None:
    expect(edit_tags(visit.page, "size: NaN\nlimit: Infinity\nstars: 5")).to_be_hidden()
    assert tags_of_blue(visit.address) == {"size": "NaN", "limit": "Infinity", "stars": 5}
    expect(edit_tags(visit.page, "size: NaN\nstars: 5")).to_be_hidden()
    assert tags_of_blue(visit.address) == {"size": "NaN", "stars": 5}
    visit.open_options()
    add_tag(visit.page, "size: NaN")
    expect(cards(visit.page)).to_have_count(1)


def test_one_tag_on_two_lines_is_refused(visit: Visit) -> None:
    before = tags_of_blue(visit.address)
    form = edit_tags(visit.page, "place: Oslo\nplace: Rome")
    expect(form.get_by_role("alert")).to_have_text("“place” stands on two lines; a tag has one value.")
    assert tags_of_blue(visit.address) == before


@pytest.mark.parametrize("condition", ["exif:lens: 35mm", "exif:iso: 100..300", "exif:iso<=200"])
def test_a_tag_whose_name_holds_a_colon_filters(visit: Visit, condition: str) -> None:
    page = visit.page
    expect(page.locator("#tags option[value='exif:lens: 35mm']")).to_have_count(1)
    visit.open_options()
    add_tag(page, condition)
    expect(cards(page)).to_have_count(1)
    expect(cards(page)).to_contain_text("35mm")


def test_text_from_right_to_left_turns_nothing_around_it(visit: Visit) -> None:
    page = visit.page
    search(page, "green")
    expect(cards(page).locator(".title", has_text=HEBREW)).to_have_attribute("dir", "auto")
    page.get_by_role("button", name=f"More like this: {HEBREW}").click()
    expect(page.locator("#status")).to_have_text(f"Pictures like \u2068{HEBREW}\u2069.")
    page.get_by_role("button", name="Sentences for it").click()
    sentences = page.get_by_role("list", name="Sentences").locator("li")
    expect(sentences.filter(has_text=HEBREW).locator("bdi")).to_have_text(HEBREW)


def test_words_that_light_nothing_are_not_offered(visit: Visit) -> None:
    """Of a model as `sman`, whose weights tell no words apart."""

    def weights_alone(route: Route) -> None:
        answer = route.fetch().json()
        for hit in answer["results"]:
            hit["explanation"].update(kind="weights", shares=None, attention=None)
        route.fulfill(json=answer)

    page = visit.page
    search(page, "red")
    expect(page.locator("#words")).to_contain_text("Hover a word")
    page.route("**/search/text", weights_alone)
    search(page, "blue")
    expect(page.locator("#words")).to_be_empty()
    cards(page).first.locator(".picture").click()
    expect(page.get_by_role("dialog")).to_contain_text("Rank 1")
    expect(page.get_by_role("dialog").locator(".word")).to_have_count(0)


def overhang(page: Page) -> int:
    """How many pixels wider the page is than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_window(browser: Browser, address: str, width: int) -> None:
    visit = Visit(browser, address, viewport={"width": width, "height": 800})
    page = visit.page
    visit.open_options()
    page.get_by_role("button", name="Add pictures").click()
    cards(page).filter(has_text="red").get_by_role("button", name="Edit").click()
    add_tag(page, f"place: {LONG}")
    expect(page.locator("#status")).to_have_text("No picture passes the filter.")
    assert overhang(page) <= 0
    page.get_by_role("button", name="Take away").click()
    page.locator("form.editor").get_by_role("button", name="Cancel").click()
    search(page, f"red {LONG[:480]}")
    expect(page.locator("#status")).to_contain_text(LONG[:480])
    assert overhang(page) <= 0
    cards(page).first.locator(".picture").click()
    expect(page.get_by_role("dialog")).to_contain_text("Rank 1")
    assert page.get_by_role("dialog").evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    assert accessibility_faults(page) == []
    visit.close()


def test_a_long_caption_makes_no_tall_card_of_a_deleted_picture(visit: Visit) -> None:
    card = cards(visit.page).filter(has_text="red")
    card.get_by_role("button", name=DELETE).click()
    expect(card).to_contain_text(f"{LONG} was deleted.")
    about = card.locator(".about").bounding_box()
    card.get_by_role("button", name="Undo").click()
    expect(card.get_by_role("button", name=DELETE)).to_be_visible()
    assert about is not None
    assert about["height"] < 160


@pytest.mark.parametrize(("width", "most"), [(390, 215), (1280, 130)])
def test_options_are_folded_away_and_say_how_many_are_set(
    browser: Browser, address: str, width: int, most: int
) -> None:
    visit = Visit(browser, address, viewport={"width": width, "height": 800}, has_touch=width < 400)
    page, options, panel = visit.page, visit.page.get_by_role("button", name="Options"), visit.page.locator("#panel")
    search(page, "red")
    expect(page.locator("#words button")).not_to_have_count(0)
    top = cards(page).first.bounding_box()
    assert top is not None
    assert top["y"] < most  # photographs are seen first
    visit.open_options()
    add_tag(page, "exif:lens: 35mm")
    expect(options).to_have_text("Options (1)")
    page.get_by_label("Sort by").select_option("date")
    expect(options).to_have_text("Options (2)")
    options.press("Enter")
    expect(panel).to_be_hidden()
    taken = page.get_by_role("button", name="Take away: exif:lens: 35mm")
    taken.click()  # which stays in sight
    expect(options).to_be_focused()
    expect(options).to_have_text("Options (1)")
    page.go_back()
    expect(taken).to_be_visible()
    expect(panel).to_be_visible(visible=width > 400)  # another option than there was, in sight on a telephone
    visit.close()


def test_whether_options_are_shown_is_kept_and_an_address_with_one_shows_them(visit: Visit) -> None:
    page, panel = visit.page, visit.page.locator("#panel")
    for is_open in (True, False):
        page.get_by_role("button", name="Options").click()
        search(page, "blue" if is_open else "green")
        page.reload()
        expect(cards(page)).to_have_count(len(ABOUT))
        expect(panel).to_be_visible(visible=is_open)
    page.goto("about:blank")
    page.goto(f"{visit.address}/#q=red&sort=date")
    expect(page.get_by_role("button", name="Options")).to_have_text("Options (1)")
    expect(panel).to_be_visible()
