"""Fingers: swipes turn pictures over, and lead the browser nowhere."""

import re
from functools import partial
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser import HeldRequests, Visit, accessibility_faults, open_large, search

pytestmark = pytest.mark.browser

COLOURS = ["red", "green", "blue"]


SWIPE = """
(element, [across, down]) => {
  const touch = (x, y) => new Touch({ identifier: 0, target: element, clientX: 200 + x, clientY: 300 + y });
  const send = (kind, touches, changedTouches) =>
    element.dispatchEvent(new TouchEvent(kind, { touches, changedTouches, bubbles: true }));
  send("touchstart", [touch(0, 0)], [touch(0, 0)]);
  send("touchend", [], [touch(across, down)]);
}
"""


def test_a_swipe_turns_over_and_the_thumbnail_stands_until_the_picture_is_there(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = visit.page
    held = HeldRequests(page, re.compile("/images/[0-9a-f]+$"))
    dialog = open_large(page, "all blue")
    figure, title = dialog.locator("figure"), dialog.get_by_role("heading", level=2)
    picture = figure.locator("img")
    for across, down, expected in (
        (-90, 20, "all green"),
        (-90, 60, "all green"),
        (-30, 0, "all green"),
        (90, 9, "all blue"),
    ):
        figure.evaluate(SWIPE, [across, down])
        expect(title).to_have_text(expected)
    shown = picture.evaluate("one => [one.style.backgroundImage, one.clientWidth, one.clientHeight]")
    assert "/thumbnail" in shown[0]
    assert shown[1] / shown[2] == pytest.approx(64 / 48, abs=0.02)
    held.let_go()
    expect(picture).to_have_js_property("naturalWidth", 64)
    expect(picture).not_to_have_attribute("style", re.compile("thumbnail"))
    with visit.context.expect_page() as opened:
        dialog.get_by_role("link", name="Full size").tap()
    assert urlsplit(opened.value.url).path == picture.get_attribute("src")
    assert accessibility_faults(page) == []
    visit.close()


def test_what_was_drawn_larger_is_moved_by_a_finger(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport={"width": 375, "height": 667}, has_touch=True, is_mobile=True)
    page = visit.page
    dialog = open_large(page, "all blue")
    page.context.new_cdp_session(page).send("Emulation.setPageScaleFactor", {"pageScaleFactor": 2.5})
    page.wait_for_function("visualViewport.scale === 2.5")
    swipe(page, 200, 80)
    page.wait_for_function("visualViewport.offsetLeft > 0")
    assert page.evaluate("visualViewport.scale") == 2.5
    expect(dialog.get_by_role("heading", level=2)).to_have_text("all blue")
    visit.close()


LOWER_THAN_A_FINGER = """
() => [...document.querySelectorAll("button, summary, label, select, input[type=text]")].filter((one) => {
  const { height } = one.getBoundingClientRect();
  return height > 1 && height < 44;
}).map((one) => one.outerHTML)
"""


def test_what_is_pressed_is_as_high_as_a_finger(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport={"width": 375, "height": 667}, has_touch=True, is_mobile=True)
    page = visit.page
    visit.open_options()
    assert page.evaluate(LOWER_THAN_A_FINGER) == []
    search(page, "blue")
    page.locator("#main li.card .picture").first.click()
    expect(page.get_by_role("dialog").locator(".word")).to_have_count(1)
    assert page.evaluate(LOWER_THAN_A_FINGER) == []
    visit.close()


def swipe(page: Page, start: int, end: int) -> None:
    """Draw a finger across the middle of the screen as hardware tells of it: the browser acts on it, too."""
    hardware = page.context.new_cdp_session(page)
    send = partial(hardware.send, "Input.dispatchTouchEvent")
    send({"type": "touchStart", "touchPoints": [{"x": start, "y": 300}]})
    for step in range(1, 11):
        send({"type": "touchMove", "touchPoints": [{"x": start + (end - start) * step / 10, "y": 300}]})
    send({"type": "touchEnd", "touchPoints": []})


def test_a_finger_that_leads_back_to_the_picture_before_does_not_lead_the_browser_back(
    browser: Browser, address: str
) -> None:
    visit = Visit(browser, address, viewport={"width": 375, "height": 667}, has_touch=True, is_mobile=True)
    page = visit.page
    search(page, "blue")
    names = page.locator("#main li.card .title").all_inner_texts()
    dialog = open_large(page, names[0])
    title = dialog.get_by_role("heading", level=2)
    for start, end, expected in ((300, 60, names[1]), (100, 340, names[0]), (300, 60, names[1])):
        swipe(page, start, end)
        expect(title).to_have_text(expected)
        page.wait_for_timeout(1000)  # the browser's own swipe takes its time
        expect(dialog).to_be_visible()
    visit.close()


def test_a_phone_offers_changes_of_a_picture_in_the_large_view_alone(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = visit.page
    card = page.locator("#main li.card").first
    expect(card.get_by_role("button", name="More like this")).to_be_visible()
    offered = [re.compile(f"^{name}\\b") for name in ("Edit", "Download", "Delete")]
    for name in offered:
        expect(card.get_by_role("button", name=name)).to_have_count(0)
    page.get_by_role("button", name="Select several").tap()  # several are deleted together as before
    card.locator(".picture").tap()
    page.get_by_role("button", name="Delete", exact=True).tap()
    card.get_by_role("button", name="Undo").tap()
    page.get_by_role("button", name="Done").tap()
    card.locator(".picture").tap()
    for name in offered:
        expect(page.get_by_role("dialog").get_by_role("button", name=name)).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 560})  # in which the form is not seen at once
    page.get_by_role("dialog").get_by_role("button", name=offered[0]).tap()
    expect(page.locator("form.editor")).to_be_in_viewport(ratio=0.99)
    visit.close()
