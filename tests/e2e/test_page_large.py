"""A picture shown large: opened from results and from the library, changed and deleted there, put away by Back."""

from functools import partial

import pytest

from tests.support import patient

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Request, Route, expect

from tests.e2e.browser import DELETE, HeldRequests, Visit, accessibility_faults, cards, open_large, query, search

pytestmark = pytest.mark.browser

COLOURS = ["red", "green", "blue"]


def described(address: str, name: str) -> list[str]:
    images = patient.get(f"{address}/images").json()["images"]
    return next((one["captions"] for one in images if one["filename"] == name), [])


def test_a_result_is_edited_where_it_is_looked_at(visit: Visit) -> None:
    page = visit.page
    page.set_viewport_size({"width": 1280, "height": 480})
    search(page, "red")
    dialog = open_large(page, "all red")
    dialog.get_by_role("button", name="Edit").click()
    form = dialog.locator("form.editor")
    captions = form.get_by_label("Captions")
    captions.fill("a red wall")
    captions.press("ArrowLeft")  # moves in the text alone
    buttons = form.locator(".actions").bounding_box()
    written = captions.bounding_box()
    assert buttons is not None
    assert written is not None
    assert written["y"] + written["height"] <= buttons["y"]  # what is typed is seen
    assert accessibility_faults(page) == []
    form.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("heading", level=2)).to_have_text("a red wall")
    expect(dialog.get_by_role("button", name="Edit")).to_be_focused()
    assert described(visit.address, "red.png") == ["a red wall"]
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("#main li.card", has_text="a red wall").locator("button.picture")).to_be_focused()


def test_a_result_is_deleted_where_it_is_looked_at_and_brought_back(visit: Visit) -> None:
    page = visit.page
    search(page, "green")
    dialog = open_large(page, "all green")
    dialog.get_by_role("button", name=DELETE).click()
    expect(dialog).to_contain_text("all green was deleted.")
    assert described(visit.address, "green.png") == []
    dialog.get_by_role("button", name="Undo").click()
    expect(dialog.get_by_role("button", name=DELETE)).to_be_visible()
    assert described(visit.address, "green.png") == ["all green"]
    dialog.get_by_role("button", name=DELETE).click()
    expect(dialog).to_contain_text("all green was deleted.")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#main li.card")).to_have_count(len(COLOURS) - 1)
    expect(page.locator("#main li.card .picture").first).to_be_focused()  # the one that followed


@pytest.mark.parametrize("place", [1, 2])
def test_the_focus_goes_to_a_neighbour_of_a_picture_that_was_deleted(visit: Visit, place: int) -> None:
    page = visit.page
    all_shown = cards(page)
    expect(all_shown).to_have_count(len(COLOURS))
    names = all_shown.locator(".title").all_inner_texts()
    dialog = open_large(page, names[place])
    dialog.get_by_role("button", name=DELETE).click()
    expect(dialog).to_contain_text("was deleted.")
    page.keyboard.press("Escape")
    expect(all_shown).to_have_count(len(COLOURS) - 1)
    neighbour = all_shown.filter(has_text=names[2 if place == 1 else 1])
    expect(neighbour.locator(".picture")).to_be_focused()


def is_by(method: str, request: Request) -> bool:
    return request.method == method


def test_who_goes_on_before_the_service_answered_sees_the_next_picture(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    dialog = open_large(page, page.locator("#main li.card .title").first.inner_text())
    title = dialog.get_by_role("heading", level=2)
    names = page.locator("#main li.card .title").all_inner_texts()
    held = HeldRequests(page, "**/images/*", lambda request: request.method != "GET")
    dialog.get_by_role("button", name="Edit").click()
    dialog.get_by_label("Date").fill("2020")
    dialog.get_by_role("button", name="Save").click()
    dialog.get_by_role("button", name="Next").click()
    dialog.get_by_role("button", name=DELETE).click()
    dialog.get_by_role("button", name="Next").click()
    expect(title).to_have_text(names[2])
    for method in ("PATCH", "DELETE"):
        route = held.first(partial(is_by, method))
        with page.expect_response(route.request.url):
            route.continue_()
    expect(title).to_have_text(names[2])
    expect(dialog.get_by_role("button", name=DELETE)).to_be_visible()
    dialog.get_by_role("button", name="Previous").click()
    expect(dialog.get_by_role("button", name=f"Undo: {names[1]} was deleted")).to_be_visible()
    expect(dialog.get_by_role("button", name="Previous")).to_be_focused()
    dialog.get_by_role("button", name="Previous").click()
    expect(title).to_have_text(names[0])
    expect(dialog.locator("dd", has_text="2020")).to_be_visible()


def test_a_picture_of_the_library_opens_large(visit: Visit) -> None:
    page = visit.page
    dialog = open_large(page, "all blue")
    expect(dialog).not_to_contain_text("Rank")
    expect(dialog.locator("figure img")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(dialog.get_by_role("heading", level=2)).to_have_text("all green")
    dialog.get_by_role("button", name="More like this").click()
    expect(page.locator("#status")).to_have_text("Pictures like all green.")
    page.go_back()
    expect(page.get_by_role("list", name="Library")).to_be_visible()


@pytest.mark.parametrize("how", ["Back", "Escape", "Close"])
def test_what_puts_it_away_leads_to_what_lay_beneath(visit: Visit, how: str) -> None:
    page = visit.page
    search(page, "red")
    search(page, "blue")
    dialog = open_large(page, "all blue")
    page.keyboard.press("ArrowRight")
    match how:
        case "Back":
            page.go_back()
        case "Escape":
            page.keyboard.press("Escape")
        case _:
            dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("list", name="Results")).to_be_visible()
    expect(query(page)).to_have_value("blue")
    page.go_back()
    expect(page.get_by_role("list", name="Library")).to_be_visible()


def test_a_caption_that_somebody_else_added_stays(visit: Visit) -> None:
    page = visit.page
    dialog = open_large(page, "all red")
    dialog.get_by_role("button", name="Edit").click()
    image_id = page.locator("#main li.card", has_text="all red").get_attribute("data-image")
    url = f"{visit.address}/images/{image_id}"
    patient.patch(url, json={"captions": ["all red", "of somebody else"]}).raise_for_status()
    form = dialog.locator("form.editor")
    form.get_by_label("Captions").fill("all red\nmine")
    form.get_by_role("button", name="Save").click()
    expect(form).to_be_hidden()
    assert described(visit.address, "red.png") == ["all red", "mine", "of somebody else"]
    dialog.get_by_role("button", name="Edit").click()
    patient.delete(url).raise_for_status()
    form.get_by_label("Captions").fill("too late")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_have_text("This picture is not there any more: somebody deleted it meanwhile.")


@pytest.mark.parametrize("width", [360, 820])
def test_words_beside_their_bars_are_whole(browser: Browser, address: str, width: int) -> None:
    visit = Visit(browser, address, viewport={"width": width, "height": 800})
    search(visit.page, "red children")
    dialog = open_large(visit.page, "all red")
    dialog.get_by_text("Details", exact=True).click()
    heights = dialog.locator("table.bars th").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert len(heights) == 4  # red, children, the rest; together
    assert max(heights) == pytest.approx(min(heights), abs=2)
    visit.close()


@pytest.mark.parametrize("size", [(360, 640), (820, 1400), (1600, 1100)])
def test_details_open_where_the_pointer_stays(browser: Browser, address: str, size: tuple[int, int]) -> None:
    visit = Visit(browser, address, viewport=dict(zip(("width", "height"), size, strict=True)))
    search(visit.page, "red children")
    summary = open_large(visit.page, "all red").get_by_text("Details", exact=True)
    summary.scroll_into_view_if_needed()
    before = summary.bounding_box()
    summary.click()
    assert summary.bounding_box() == before
    visit.close()


def test_what_is_written_stays_until_it_is_saved_or_given_up(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    dialog = open_large(page, page.locator("#main li.card .title").first.inner_text())
    captions = dialog.get_by_label("Captions, one a line")
    dialog.get_by_role("button", name="Edit").click()
    captions.fill("a draft")
    dialog.get_by_role("button", name="Next").click()
    expect(captions).to_have_count(0)
    dialog.get_by_role("button", name="Previous").click()
    expect(captions).to_have_value("a draft")
    dialog.get_by_role("button", name="Close").click()
    asked = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    assert page.evaluate(asked)
    page.locator("#main li.card .picture").first.click()
    expect(captions).to_have_value("a draft")
    dialog.get_by_role("button", name="Cancel").click()
    assert not page.evaluate(asked)
    expect(captions).to_have_count(0)


def test_what_fails_after_somebody_went_on_is_told(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    names = page.locator("#main li.card .title").all_inner_texts()
    dialog = open_large(page, names[0])
    held = HeldRequests(page, "**/images/*", lambda request: request.method != "GET")

    def refuse(method: str) -> None:
        held.first(lambda request: request.method == method).fulfill(status=507, json={"detail": "The disk is full."})

    dialog.get_by_role("button", name="Edit").click()
    dialog.get_by_label("Date").fill("2020")
    dialog.get_by_role("button", name="Save").click()
    dialog.get_by_role("button", name="Next").click()
    refuse("PATCH")
    expect(dialog.get_by_role("alert").first).to_have_text(f"Saving {names[0]} failed: The disk is full.")
    dialog.get_by_role("button", name=DELETE).click()
    dialog.get_by_role("button", name="Previous").click()
    refuse("DELETE")
    expect(dialog.get_by_role("alert").first).to_have_text(f"Deleting {names[1]} failed: The disk is full.")
    expect(dialog.get_by_label("Date")).to_have_value("2020")


def test_the_focus_goes_on_from_the_picture_that_was_looked_at_last(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    dialog = open_large(page, page.locator("#main li.card .title").first.inner_text())
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#main li.card .picture").nth(1)).to_be_focused()


def test_an_edit_that_began_under_another_question_keeps_why_it_is_found_by_this_one(visit: Visit) -> None:
    page = visit.page
    search(page, "green red white")
    dialog = open_large(page, "all red")
    dialog.get_by_role("button", name="Edit").click()
    dialog.get_by_label("Captions").fill("all red, saved later")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    search(page, "blue")
    dialog = open_large(page, "all red")
    found = dialog.locator(".why").inner_text()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("heading", level=2)).to_have_text("all red, saved later")
    why = dialog.locator(".why").inner_text()
    assert "NaN" not in why
    assert why.partition("Picture")[0] == found.partition("Picture")[0] != ""


def test_the_address_names_the_picture_that_is_shown_large(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    dialog = open_large(page, "all red")
    first = page.url
    assert "picture=" in first
    dialog.get_by_role("button", name="Next").click()
    expect(page).not_to_have_url(first)
    assert page.url.split("picture=")[0] == first.split("picture=")[0]
    name = dialog.get_by_role("heading", level=2).inner_text()
    page.reload()
    expect(dialog.get_by_role("heading", level=2)).to_have_text(name)
    page.go_back()
    expect(dialog).to_be_hidden()
    expect(query(page)).to_have_value("red")
    assert "picture=" not in page.url
    page.go_forward()
    expect(dialog.get_by_role("heading", level=2)).to_have_text(name)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert "picture=" not in page.url


@pytest.mark.parametrize("question", ["q=red&", ""])
def test_an_address_of_a_picture_opens_it_over_its_question(visit: Visit, question: str) -> None:
    page = visit.page
    images = patient.get(f"{visit.address}/images").json()["images"]
    image_id = next(one["image_id"] for one in images if one["filename"] == "blue.png")
    page.goto("about:blank")
    page.goto(f"{visit.address}/#{question}picture={image_id}")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", level=2)).to_have_text("all blue")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#main li.card")).to_have_count(len(COLOURS))
    assert "picture=" not in page.url


def test_a_picture_that_no_answer_holds_is_opened_by_itself_and_one_that_is_gone_is_told_of(visit: Visit) -> None:
    page = visit.page
    images = patient.get(f"{visit.address}/images").json()["images"]
    image_id = next(one["image_id"] for one in images if one["filename"] == "blue.png")
    page.goto("about:blank")
    page.goto(f"{visit.address}/#q=nothing%20has%20these%20words&look=text&picture={image_id}")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", level=2)).to_have_text("all blue")
    expect(dialog.get_by_role("button", name="Next")).to_be_disabled()
    expect(page.locator("#main li.card")).to_have_count(0)
    patient.delete(f"{visit.address}/images/{image_id}").raise_for_status()
    page.reload()
    gone = "This picture is not there any more: somebody deleted it."
    expect(page.locator("#status")).to_contain_text(f"{gone} “Deleted pictures”, below the library, may still")
    expect(dialog).to_be_hidden()
    page.goto("about:blank")
    page.goto(f"{visit.address}/#like={image_id}")
    expect(page.locator("#status")).to_contain_text(gone)
    expect(page.locator("#status")).not_to_contain_text(image_id)
    for name in ("like", "picture"):
        page.goto("about:blank")
        page.goto(f"{visit.address}/#{name}={image_id[:20]}")
        expect(page.locator("#status")).to_have_text("This address names no picture; perhaps its end is missing.")


def test_an_address_of_a_picture_is_tried_again_and_another_one_takes_its_place(visit: Visit) -> None:
    page = visit.page
    images = patient.get(f"{visit.address}/images").json()["images"]
    ids = {one["filename"]: one["image_id"] for one in images}
    asked: list[Route] = []

    def busy_once(route: Route) -> None:
        asked.append(route)
        if len(asked) == 1:
            route.fulfill(status=503, json={"type": "urn:regard:problem:not-ready", "detail": "Not ready just now."})
        else:
            route.continue_()

    page.route("**/info", busy_once)
    page.goto("about:blank")
    page.goto(f"{visit.address}/#q=nothing%20has%20these%20words&look=text&picture={ids['blue.png']}")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Try again").click()
    expect(dialog.get_by_role("heading", level=2)).to_have_text("all blue")
    page.evaluate(f"location.hash = '#q=red&picture={ids['red.png']}'")
    expect(dialog.get_by_role("heading", level=2)).to_have_text("all red")
    page.evaluate(f"location.hash = '#q=red&picture={ids['green.png']}'")
    expect(dialog.get_by_role("heading", level=2)).to_have_text("all green")


def test_a_large_window_is_for_the_picture(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport={"width": 1920, "height": 1080})
    search(visit.page, "red")
    dialog = open_large(visit.page, "all red")
    picture, why = dialog.locator("figure").bounding_box(), dialog.locator(".why").bounding_box()
    assert picture is not None
    assert why is not None
    assert picture["width"] > 1200
    assert picture["height"] > 900
    assert picture["x"] + picture["width"] <= why["x"]
    visit.close()
