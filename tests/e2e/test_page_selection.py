"""Several pictures of the library at once: chosen, tagged, deleted and brought back."""

from typing import Any

import pytest

from tests.support import patient

pytest.importorskip("playwright")
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.browser import DELETE, LOOKED_AT_AGAIN, Visit, accessibility_faults

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("all_shown")]

COLOURS = ["red", "green", "blue", "yellow", "cyan"]  # the last is listed first


def bar(page: Page) -> Locator:
    return page.get_by_role("group", name="Pictures selected")


def told(page: Page) -> Locator:
    return page.locator(".selection > p")


def press(page: Page, colour: str, *, shift: bool = False) -> None:
    """Press a picture, to choose it or not."""
    picture = page.locator("#main li.card", has_text=f"all {colour}").locator("button.picture")
    picture.click(modifiers=["Shift"] if shift else [])


def tags(address: str) -> dict[str, dict[str, object]]:
    """Colour -> tags of what is stored."""
    images = patient.get(f"{address}/images").json()["images"]
    return {image["filename"].removesuffix(".png"): image["tags"] for image in images}


def test_those_that_are_chosen_get_a_tag_and_no_other_does(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="Select several").click()
    press(page, "green")
    press(page, "yellow", shift=True)  # and blue, which stands between them
    press(page, "blue")
    expect(bar(page)).to_contain_text("2 of 5 shown selected")
    assert accessibility_faults(page) == []
    give_tag(page, "no name")
    expect(told(page)).to_contain_text("“no name” has no colon")
    bar(page).get_by_label("Tag for those selected").fill("album: walls")
    bar(page).get_by_label("Tag for those selected").press("Enter")
    expect(told(page)).to_have_text("2 pictures tagged. Undo")
    assert {colour: found for colour, found in tags(visit.address).items() if found} == {
        "green": {"album": "walls"},
        "yellow": {"album": "walls"},
    }
    expect(page.locator("#main li.card", has_text="album: walls")).to_have_count(2)
    bar(page).get_by_role("button", name="Done").click()
    expect(page.get_by_role("button", name="Select several")).to_be_focused()
    press(page, "green")
    expect(page.get_by_role("dialog")).to_be_visible()  # opens large again


@pytest.mark.parametrize(("part", "key"), [("button.picture", "Enter"), (".pick", "Space")])
def test_a_row_is_chosen_by_keys(visit: Visit, part: str, key: str) -> None:
    page = visit.page
    page.evaluate("Object.defineProperty(PointerEvent.prototype, 'shiftKey', {get: () => false})")  # as in Firefox
    page.get_by_role("button", name="Select several").click()
    for colour, keys in (("green", key), ("yellow", f"Shift+{key}"), ("red", key)):
        page.locator("#main li.card", has_text=f"all {colour}").locator(part).press(keys)
    expect(bar(page)).to_contain_text("4 of 5 shown selected")


def give_tag(page: Page, tag: str) -> None:
    bar(page).get_by_label("Tag for those selected").fill(tag)
    bar(page).get_by_role("button", name="Add tag").click()
    expect(bar(page)).not_to_have_attribute("aria-busy", "true")


def test_tags_in_use_are_offered_as_they_are_written(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="Select several").click()
    press(page, "green")
    give_tag(page, "who: Oma")
    expect(told(page)).to_have_text("1 picture tagged. Undo")
    page.reload()
    page.get_by_role("button", name="Select several").click()
    expect(page.locator("#tags option[value='who: Oma']")).to_have_count(1)
    offered = "input => [...(input.list?.options ?? [])].map((one) => one.value)"
    tag = bar(page).get_by_label("Tag for those selected")
    assert tag.evaluate(offered) == ["who: Oma"]
    assert tag.get_attribute("autocapitalize") == "none"  # as by phones


def test_values_that_a_tag_takes_the_place_of_are_told_of_and_come_back(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="Select several").click()
    for colours, tag in ((["red"], "album: 2023"), (["green"], "album: Best"), (["blue", "cyan"], "place: Rome")):
        for colour in colours:
            press(page, colour)
        give_tag(page, tag)
        expect(told(page)).to_contain_text("tagged. Undo")
        for colour in colours:
            press(page, colour)
    before = tags(visit.address)
    for colour in ("red", "green", "blue"):
        press(page, colour)
    give_tag(page, "album: Best")
    expect(told(page)).to_have_text("3 pictures tagged. 1 of them had another “album” before. Undo")
    assert tags(visit.address)["red"] == {"album": "Best"}
    told(page).get_by_role("button", name="Undo").click()
    expect(told(page)).to_have_text("3 pictures tagged as before.")
    assert tags(visit.address) == before
    expect(page.locator("#main li.card", has_text="album: 2023")).to_have_count(1)


def test_a_tag_that_somebody_changed_since_is_not_undone(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="Select several").click()
    press(page, "red")
    press(page, "green")
    give_tag(page, "album: walls")
    expect(told(page)).to_contain_text("2 pictures tagged.")
    red = next(one for one in patient.get(f"{visit.address}/images").json()["images"] if one["filename"] == "red.png")
    patient.patch(f"{visit.address}/images/{red['image_id']}", json={"tags": {"album": "mine"}}).raise_for_status()
    page.evaluate(LOOKED_AT_AGAIN)
    expect(page.locator("#main li.card", has_text="album: mine")).to_have_count(1)
    told(page).get_by_role("button", name="Undo").click()
    expect(told(page)).to_have_text("1 picture tagged as before. 1 picture not: its tag is another by now")
    assert {name: found for name, found in tags(visit.address).items() if found} == {"red": {"album": "mine"}}


COVERED = """
() => {
  const { left, top } = document.activeElement.getBoundingClientRect();
  return document.elementFromPoint(left + 8, top + 8).closest(".selection") !== null;
}
"""


@pytest.mark.parametrize("height", [256, 700])
def test_what_has_the_focus_is_not_below_the_bar(visit: Visit, height: int) -> None:
    page = visit.page
    page.set_viewport_size({"width": 320, "height": height})
    page.get_by_role("button", name="Select several").click()
    page.locator("#main .pick").last.focus()
    for _ in COLOURS[1:]:
        page.keyboard.press("Shift+Tab")
        assert not page.evaluate(COVERED)
    expect(page.locator("#main .pick").first).to_be_focused()  # one step for each


def test_a_picture_says_whether_it_is_chosen(visit: Visit) -> None:
    page = visit.page
    picture = page.locator("#main li.card", has_text="all green").locator("button.picture")
    expect(picture).to_have_accessible_name("all green: show large")
    page.get_by_role("button", name="Select several").click()
    expect(picture).to_have_accessible_name("Select all green")
    expect(picture).to_have_attribute("aria-pressed", "false")
    picture.press("Enter")
    expect(picture).to_have_attribute("aria-pressed", "true")
    give_tag(page, "a: b")  # which has the card drawn anew
    expect(told(page)).to_contain_text("1 picture tagged.")
    expect(picture).to_have_attribute("aria-pressed", "true")
    page.get_by_role("checkbox", name="Select all green").uncheck()
    expect(picture).to_have_attribute("aria-pressed", "false")
    page.get_by_role("button", name="All shown").click()
    expect(picture).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Done").click()
    expect(picture).to_have_accessible_name("all green: show large")
    assert picture.get_attribute("aria-pressed") is None


def test_those_that_are_chosen_are_deleted_and_brought_back_together(visit: Visit) -> None:
    page, refused = visit.page, list[str]()

    def refuse_one(route: Route) -> None:
        if route.request.method == "DELETE" and not refused:
            refused.append(route.request.url)
            route.fulfill(status=403, json={"detail": "Not this one."})
        else:
            route.continue_()

    page.get_by_role("button", name="Select several").click()
    page.get_by_role("button", name="All shown").click()
    press(page, "red")
    page.route("**/images/*", refuse_one)
    bar(page).get_by_role("button", name=DELETE).click()
    expect(told(page)).to_contain_text("3 pictures deleted. 1 picture not: Not this one.")
    assert set(tags(visit.address)) == {"red", "cyan"}
    expect(page.locator("#status")).to_have_text("2 pictures.")
    expect(bar(page)).to_contain_text("1 of 2 shown selected")
    expect(told(page).get_by_role("button", name="Undo")).to_be_focused()
    told(page).get_by_role("button", name="Undo").click()
    expect(told(page)).to_have_text("3 pictures brought back.")
    expect(page.locator("#status")).to_have_text("5 pictures.")
    expect(bar(page).get_by_role("button", name="All shown")).to_be_focused()
    assert set(tags(visit.address)) == set(COLOURS)


def test_what_is_being_edited_is_not_deleted_with_others(visit: Visit) -> None:
    page = visit.page
    green = page.locator("#main li.card", has_text="all green")
    green.get_by_role("button", name="Edit").click()
    green.get_by_label("Captions").fill("all green, and more")
    page.get_by_role("button", name="Select several").click()
    press(page, "green")
    page.get_by_role("button", name="All shown").click()
    bar(page).get_by_role("button", name=DELETE).click()
    expect(told(page)).to_contain_text("4 pictures deleted.")
    assert set(tags(visit.address)) == {"green"}
    expect(green.get_by_label("Captions")).to_have_value("all green, and more")


def test_those_that_were_not_reached_are_counted(visit: Visit) -> None:
    page = visit.page
    page.clock.install()
    page.get_by_role("button", name="Select several").click()
    for colour in ("red", "green", "blue"):
        press(page, colour)
    busy: dict[str, Any] = {"json": {"detail": "Busy."}, "headers": {"Retry-After": "1"}}
    page.route("**/images/*", lambda route: route.fulfill(status=503, **busy))
    bar(page).get_by_role("button", name=DELETE).click()
    for _ in range(5):
        page.clock.run_for(1500)
        page.wait_for_timeout(50)
    expect(told(page)).to_have_text("0 pictures deleted. 3 pictures not: Busy.")
    expect(bar(page)).to_contain_text("3 of 5 shown selected")


def test_a_busy_service_is_asked_again(visit: Visit) -> None:
    page, asked = visit.page, list[str]()

    def refuse_once(route: Route) -> None:
        asked.append(route.request.method)
        if asked.count("PATCH") == 1 and asked[-1] == "PATCH":
            route.fulfill(status=429, json={"detail": "Too many."}, headers={"Retry-After": "1"})
        else:
            route.continue_()

    page.route("**/images/*", refuse_once)
    page.get_by_role("button", name="Select several").click()
    bar(page).get_by_label("Tag for those selected").fill("a: b")
    bar(page).get_by_label("Tag for those selected").press("Enter")
    for name in ("Add tag", "Download", DELETE):  # of no picture yet
        expect(bar(page).get_by_role("button", name=name)).to_be_disabled()
    page.get_by_role("checkbox", name="Select all red").check()
    bar(page).get_by_role("button", name="Add tag").click()
    expect(told(page)).to_have_text("1 picture tagged. Undo")
    assert asked.count("PATCH") == 2
