"""The page in a real browser, against a real server over a small library of coloured pictures."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

import pytest

from tests.support import patient
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Error, Locator, Page, Route, expect

from tests.e2e.browser import DELETE, HeldRequests, Visit, accessibility_faults, asked_by, drop, search, send

pytestmark = pytest.mark.browser

PAIRS = [("red", "blue"), ("blue", "green"), ("green", "yellow"), ("cyan", "red"), ("white", "black"), ("red", "red")]
FAINTEST = 0.08  # as in service/page/src/explanation.ts
FIRST_VIEW_BYTES = 150_000
CUT = png(two_coloured("cyan", "cyan", 640, 480))[:-200]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        for left, right in PAIRS:
            about = {"captions": [f"{left} and {right}"], "tags": {"left": left}, "taken_at": "2024-05-01"}
            send(url, f"{left}-{right}.png", png(two_coloured(left, right, 320, 240)), about)
        yield url


def lit_boxes(page: Page, image_id: str) -> set[tuple[float, ...]]:
    """The boxes that are lit over a picture of the results."""
    found = page.locator(f"li.card[data-image='{image_id}'] rect.lit").evaluate_all(
        "rects => rects.map(one => ['x', 'y', 'width', 'height'].map(name => Number(one.getAttribute(name))))"
    )
    return {(x, y, x + width, y + height) for x, y, width, height in found}


def expected_boxes(answer: dict[str, Any], word: str) -> dict[str, set[tuple[float, ...]]]:
    """The boxes of every picture whose share with the word is at least FAINTEST of the word's largest."""
    shares = {}
    for hit in answer["results"]:
        why = hit["explanation"]
        place = [token["text"] for token in why["words"]].index(word)
        shares[hit["image_id"]] = list(zip(why["regions"], why["shares"][place], strict=True))
    most = max(share for pairs in shares.values() for _, share in pairs)
    return {
        image_id: {tuple(region["box"]) for region, share in pairs if share >= FAINTEST * most}
        for image_id, pairs in shares.items()
    }


def test_the_first_view_is_small_and_ready_to_type(browser: Browser, address: str) -> None:
    visit = Visit(browser, "about:blank")
    visit.address, sizes = address, list[int]()
    visit.page.on("response", lambda answer: sizes.append(len(answer.body())))
    visit.page.goto(address)
    expect(visit.page.get_by_label("What do the pictures show?")).to_be_focused()
    expect(visit.page.locator("#main li.card")).to_have_count(len(PAIRS))
    assert 0 < sum(sizes) < FIRST_VIEW_BYTES
    visit.close()


def test_a_page_that_the_browser_has_kept_works_when_it_is_opened_again(browser: Browser, address: str) -> None:
    faults: list[str] = []
    with contextlib.closing(browser.new_context()) as context:  # no visit: its routes switch the browser's cache off
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.goto(address)
        ways: tuple[Callable[[], object], ...] = (page.reload, page.reload, lambda: page.goto(address))
        for open_again in ways:
            expect(page.locator("#main li.card")).to_have_count(len(PAIRS))
            open_again()
        expect(page.locator("#main li.card")).to_have_count(len(PAIRS))
    assert faults == []


def test_a_word_lights_the_regions_that_answered_it(visit: Visit) -> None:
    answer = search(visit.page, "red blue")
    assert len(answer["results"]) == len(PAIRS)
    for word in ("red", "blue"):
        visit.page.locator("#words").get_by_role("button", name=word, exact=True).hover()
        expected = expected_boxes(answer, word)
        assert {image_id: lit_boxes(visit.page, image_id) for image_id in expected} == expected
        said = visit.page.get_by_role("button", name=re.compile(f"regions for .*{word}.*: show large"))
        expect(said).to_have_count(sum(map(bool, expected.values())))
        assert any(expected.values())
        for overlay in visit.page.locator("svg.overlay", has=visit.page.locator("rect.lit")).all():
            expect(overlay.locator("rect").last).to_have_class("lit strongest")  # its outline lies over all others
    visit.page.locator("h1").hover()
    assert visit.page.locator("rect.lit").count() == 0


def test_a_region_lights_its_words(visit: Visit) -> None:
    search(visit.page, "red blue")
    picture = visit.page.locator("li.card .picture").first
    picture.hover()  # waits until it stands where it stays
    box = picture.bounding_box()
    assert box is not None
    lit = visit.page.locator("#words .word.lit")
    visit.page.mouse.move(box["x"] + box["width"] * 0.15, box["y"] + box["height"] * 0.5)
    expect(lit).to_have_text(["red"])
    visit.page.mouse.move(box["x"] + box["width"] * 0.85, box["y"] + box["height"] * 0.5)
    expect(lit).to_have_text(["blue"])


def bars_in(dialog: Locator) -> tuple[list[tuple[str, list[int]]], list[float]]:
    """The parts of the question, with the numbers of their words; what each added, and all together."""
    dialog.get_by_text("Details", exact=True).click()
    rows = dialog.locator(".bars tr[data-words]")
    words = rows.evaluate_all("all => all.map((one) => one.dataset.words.split(' ').map(Number))")
    parts = list(zip(rows.locator("th").all_inner_texts(), words, strict=True))
    return parts, [float(text) for text in dialog.locator(".bars td.number").all_inner_texts()]


def test_a_result_opens_large_and_its_bars_add_up(visit: Visit) -> None:
    best, *others = search(visit.page, "red and blue")["results"]
    others = [one for one in others if one["score"] is not None]
    expect(visit.page.locator("#words .word")).to_have_text(["red", "blue"])
    visit.page.locator("li.card .picture").first.click()
    dialog = visit.page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Rank 1; the shortlist had it at {best['shortlist_rank']}")
    assert dialog.locator(".region").all_inner_texts() == ["red · left", "blue · right"]
    expect(dialog).to_contain_text("“red” fits best at the left, “blue” at the right.")
    expect(dialog.locator(".bars th:visible")).to_have_text(["red", "blue"])
    parts, (*added, together) = bars_in(dialog)
    assert parts == [("red", [1]), ("blue", [3]), ("the rest", [0, 2, 4])]
    bars = dialog.locator(".bars .bar").evaluate_all("all => all.map((one) => parseFloat(one.style.width))")
    most = max(map(abs, added))
    assert bars == pytest.approx([max(bars) * abs(one) / most for one in added], abs=0.1)  # that of the rest, too
    beside = [fmean(column) for column in zip(*(one["explanation"]["contributions"] for one in others), strict=True)]
    above = [own - mean for own, mean in zip(best["explanation"]["contributions"], beside, strict=True)]
    assert added == pytest.approx([sum(above[n] for n in numbers) for _, numbers in parts], abs=2e-4)
    assert round(sum(added), 4) == together == round(best["score"] - fmean(one["score"] for one in others), 4)
    expect(dialog.get_by_role("caption")).to_contain_text(f"beside the mean of {len(others)} other results")
    expect(dialog).to_contain_text(f"Score {best['score']:.4f}")
    for known in (best["filename"], best["captions"][0], "left: red", "2024"):
        expect(dialog).to_contain_text(known)
    assert accessibility_faults(visit.page) == []
    visit.page.keyboard.press("ArrowRight")
    expect(dialog).to_contain_text("Rank 2")
    dialog.get_by_role("button", name="More like this").click()
    expect(visit.page.get_by_role("status").first).to_contain_text("Pictures like")
    expect(visit.page.locator("li.card")).to_have_count(len(PAIRS) - 1)


def test_the_bars_of_a_lone_result_add_up_to_its_score(visit: Visit) -> None:
    def cut(route: Route) -> None:
        answer = route.fetch().json()
        route.fulfill(json={**answer, "results": answer["results"][:1]})

    visit.page.route("**/search/text", cut)
    (best,) = search(visit.page, "red blue")["results"]
    visit.page.locator("li.card .picture").first.click()
    dialog = visit.page.get_by_role("dialog")
    parts, (*added, score) = bars_in(dialog)
    own = best["explanation"]["contributions"]
    assert added == pytest.approx([sum(own[n] for n in numbers) for _, numbers in parts], abs=2e-4)
    assert round(sum(added), 4) == score == round(best["score"], 4)
    expect(dialog.get_by_role("caption")).to_have_text("What each word added")


def test_dropped_files_are_taken_in_and_each_that_is_not_has_a_reason(visit: Visit) -> None:
    page = visit.page
    drop(
        page,
        "[data-drop=add]",
        ("magenta.png", "image/png", png(two_coloured("magenta", "magenta", 64, 48))),
        ("film.mp4", "video/mp4", b"no picture"),
        ("words.jpg", "image/jpeg", b"these are words"),
        ("cut.png", "image/png", CUT),
    )
    panel = page.locator("#add")
    expect(panel.get_by_role("status")).to_have_text("Done: 1 of 4 can be found, 2 left out, 1 failed.")
    assert panel.get_by_role("progressbar").evaluate("one => one.value / one.max") == 1
    for name in ("film.mp4", "words.jpg", "cut.png"):
        expect(panel.locator("li", has_text=name)).to_have_count(1)
    panel.get_by_role("button", name="Try again: cut.png").click()
    expect(panel.get_by_role("status")).to_have_text("Done: 0 of 1 can be found, 1 failed.")
    expect(panel.get_by_role("button", name="Try again: cut.png")).to_be_focused()
    assert accessibility_faults(page) == []
    answer = search(page, "magenta")
    assert answer["results"][0]["filename"] == "magenta.png"
    (failure,) = patient.get(f"{visit.address}/failures").json()["failures"]
    for one in (answer["results"][0], failure):
        patient.delete(f"{visit.address}/images/{one['image_id']}").raise_for_status()


def test_a_dropped_picture_is_searched_with(visit: Visit) -> None:
    drop(visit.page, "[data-drop=search]", ("mine.png", "image/png", png(two_coloured("green", "yellow", 64, 48))))
    expect(visit.page.locator("#status")).to_have_text("Pictures like mine.png.")
    expect(visit.page.locator("li.card .title").first).to_have_text("green and yellow")
    expect(visit.page.get_by_role("img", name="Asked with: mine.png")).to_be_visible()


def test_everything_can_be_done_with_the_keyboard(visit: Visit) -> None:
    page = visit.page
    expect(page.get_by_label("What do the pictures show?")).to_be_focused()
    page.keyboard.type("red blue")
    expect(page.locator("#words .word")).to_have_text(["red", "blue"])  # not those of what was typed until a pause
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('word')"):
            break
    assert page.locator("rect.lit").count() > 0
    for _ in range(4):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.card .picture')"):
            break
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert page.evaluate("document.activeElement.matches('.card .picture')")


COUNT_SEARCHES = """
() => {
  const send = window.fetch;
  let running = 0;
  window.most = 0;
  window.fetch = async (path, ...rest) => {
    if (path !== "/search/text") return send(path, ...rest);
    window.most = Math.max(window.most, ++running);
    try { return await send(path, ...rest); } finally { running--; }
  };
}
"""


def test_an_older_answer_is_never_shown_over_a_newer_one(visit: Visit) -> None:
    page = visit.page
    page.evaluate(COUNT_SEARCHES)
    held = HeldRequests(page, "**/search/text", lambda request: "yellow" in (request.post_data or ""))
    field = page.get_by_label("What do the pictures show?")
    field.fill("yellow")
    older = held.first()
    with page.expect_response("**/search/text"):
        field.fill("white black")
    expect(page.locator("li.card .title").first).to_have_text("white and black")
    with contextlib.suppress(Error):  # the page has given it up
        older.fulfill(json={})
    expect(page.locator("#words .word")).to_have_text(["white", "black"])
    assert page.evaluate("window.most") == 1


def test_poor_answers_and_empty_libraries_are_said_plainly(visit: Visit) -> None:
    def doubt(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "matched": False})

    visit.page.route("**/search/text", doubt)
    search(visit.page, "cyan")
    expect(visit.page.locator("#status")).to_contain_text("Nothing matches well. These come nearest:")
    visit.page.route("**/images?*", lambda route: route.fulfill(json={"images": [], "next": None}))
    visit.page.get_by_label("What do the pictures show?").fill("")
    expect(visit.page.get_by_role("heading", name="No pictures yet")).to_be_visible()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_phone_shows_all_of_it_in_either_colours(browser: Browser, address: str, colours: Any) -> None:
    size = {"width": 390, "height": 800}
    visit = Visit(browser, address, viewport=size, color_scheme=colours, has_touch=True, is_mobile=True)
    drawn = visit.page.evaluate("getComputedStyle(document.getElementById('query')).appearance")
    assert drawn == "textfield"  # else as Safari draws it
    search(visit.page, "red blue")
    expect(visit.page.locator("#words")).to_contain_text("Tap a word")
    lit, word = visit.page.locator("rect.lit"), visit.page.locator("#words").get_by_role("button", name="red")
    for held in ("true", "false"):  # a second tap lets go
        word.tap()
        expect(word).to_have_attribute("aria-pressed", held)
        assert (lit.count() > 0) is (held == "true")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    model = visit.page.get_by_label("Model")
    expect(model).to_be_hidden()  # options are folded away, so that pictures are seen
    visit.page.get_by_role("button", name="Options").tap()
    expect(model).to_be_visible()
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(json.loads(f"[{ground.removeprefix('rgb(').removesuffix(')')}]")) < 200) is (colours == "dark")
    assert accessibility_faults(visit.page) == []
    visit.page.locator("li.card .picture").first.tap()
    expect(visit.page.get_by_role("dialog")).to_be_visible()
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    visit.close()


def test_two_models_are_compared_side_by_side(visit: Visit) -> None:
    def two_models(route: Route) -> None:
        answer = route.fetch().json()
        answer["models"].append({**answer["models"][0], "name": "backwards", "default": False})
        route.fulfill(json=answer)

    def backwards(route: Route) -> None:
        """The one model answers for both, in the opposite order for the second."""
        asked = asked_by(route.request)
        answer = route.fetch(post_data=json.dumps({**asked, "model": None})).json()
        if asked["model"] == "backwards":
            answer["model"] = "backwards"
            for rank, hit in enumerate(reversed(answer["results"]), start=1):
                hit["rank"] = rank
            answer["results"].reverse()
        route.fulfill(json=answer)

    page = visit.page
    page.route("**/models", two_models)
    page.route("**/search/text", backwards)
    page.reload()
    visit.open_options()
    page.get_by_label("beside").select_option("backwards")
    page.get_by_label("What do the pictures show?").fill("red blue")
    left, right = page.get_by_role("region", name="fake"), page.get_by_role("region", name="backwards")
    last = len(PAIRS)
    expect(left.locator(".moved").first).to_have_text(f"1. {last - 1} places higher than by backwards")
    expect(right.locator(".moved").last).to_have_text(f"{last}. {last - 1} places lower than by fake")
    left.get_by_role("button", name="red", exact=True).hover()
    assert left.locator("rect.lit").count() > 0
    assert right.locator("rect.lit").count() == 0
    assert accessibility_faults(page) == []


def test_dates_and_tags_filter_the_library_and_searches(visit: Visit) -> None:
    page, cards = visit.page, visit.page.locator("#main li.card")
    expect(cards).to_have_count(len(PAIRS))
    visit.open_options()
    page.get_by_label("Tag", exact=True).fill("left: red")
    page.get_by_label("Tag", exact=True).press("Tab")
    expect(cards).to_have_count(2)
    answer = search(page, "blue")
    assert {hit["tags"]["left"] for hit in answer["results"]} == {"red"}
    page.get_by_label("From").fill("2025")
    page.get_by_label("From").press("Enter")
    expect(page.locator("#status")).to_have_text("Nothing was found that passes the filter.")
    page.get_by_label("From").fill("last summer")
    page.get_by_label("From").press("Tab")
    expect(page.locator("#status")).to_contain_text("From: write a date as 2024")


def test_captions_tags_and_date_are_edited_in_place(visit: Visit) -> None:
    page = visit.page
    card = page.locator("#main li.card", has_text="white and black")
    card.get_by_role("button", name="Edit").click()
    form = page.get_by_role("form", name="Edit white and black")
    form.get_by_label("Captions").fill("night and day\nwhite and black")
    form.get_by_label("Tags").fill("left: white\nstars: 5")
    form.get_by_label("Date").fill("2023-02")
    assert accessibility_faults(page) == []
    form.get_by_role("button", name="Save").click()
    changed = page.locator("#main li.card", has_text="night and day")
    expect(changed.locator(".facts > *")).to_have_text(["Feb 1, 2023", "left: white", "stars: 5"])
    image_id = changed.get_attribute("data-image")
    known = patient.get(f"{visit.address}/images/{image_id}/info").json()
    assert known["captions"] == ["night and day", "white and black"]
    assert known["tags"] == {"left": "white", "stars": 5}
    changed.get_by_role("button", name="Edit").click()
    form = page.get_by_role("form", name="Edit night and day")
    form.get_by_label("Captions").fill("white and black")
    form.get_by_label("Date").fill("the other day")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("2024-05")
    form.get_by_label("Date").fill("2024-05-01")
    form.get_by_role("button", name="Save").click()
    expect(page.locator("#main li.card", has_text="white and black")).to_contain_text("May 1, 2024")


def test_what_is_edited_can_be_saved_where_the_form_is_higher_than_the_screen(visit: Visit) -> None:
    page = visit.page
    page.set_viewport_size({"width": 1000, "height": 250})
    page.locator("#main li.card", has_text="white and black").get_by_role("button", name="Edit").click()
    form = page.get_by_role("form", name="Edit white and black")
    form.get_by_label("Captions").fill("never kept")
    expect(form.get_by_role("button", name="Save")).to_be_in_viewport(ratio=1)
    form.get_by_role("button", name="Cancel").click()
    expect(page.locator("#main li.card", has_text="white and black")).to_be_visible()


def test_a_deletion_is_undone(visit: Visit) -> None:
    page = visit.page
    card = page.locator("#main li.card", has_text="green and yellow")
    card.get_by_role("button", name=DELETE).click()
    expect(card).to_contain_text("green and yellow was deleted.")
    assert len(patient.get(f"{visit.address}/images").json()["images"]) == len(PAIRS) - 1
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(card.get_by_role("button", name=DELETE)).to_be_visible()
    assert len(search(page, "green")["results"]) == len(PAIRS)
