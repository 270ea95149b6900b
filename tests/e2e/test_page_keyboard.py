"""Where the focus goes, and what lies over the page: the skip link, the large view, what is pasted and dropped."""

import base64
from collections.abc import Iterator

import pytest

from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import expect

from tests.e2e.browser import HeldRequests, Visit, drop, search, send_captioned

pytestmark = pytest.mark.browser

COLOURS = ["red", "green", "blue"]
RED = png(two_coloured("red", "red", 64, 48))

# Drags something of these types over an element, or drops it there: whether the page took it, and as what.
DRAGGED = """
([target, kind, type]) => {
  const dataTransfer = { types: type.split(" "), items: [], files: [] };
  const event = Object.assign(new Event(kind, { bubbles: true, cancelable: true }), { dataTransfer });
  document.querySelector(target).dispatchEvent(event);
  return [event.defaultPrevented, dataTransfer.dropEffect];
}
"""
# Whether the page takes for itself what a program put on the clipboard: words, and a picture of them.
TAKES_WORDS_AND_PICTURE = """
([selector, content]) => {
  const clipboardData = new DataTransfer();
  const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
  clipboardData.items.add(new File([bytes], "image.png", { type: "image/png" }));
  clipboardData.setData("text/plain", "a red ball");
  const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  document.querySelector(selector).dispatchEvent(paste);
  return paste.defaultPrevented;
}
"""

# In Safari, which throws at a hundred addresses in ten seconds.
HELD = """() => {
  history.replaceState = () => { throw "too many"; };
  const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
  for (const key of ["ArrowRight", "ArrowLeft", "ArrowRight"]) press(key);
  delete history.replaceState;
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        send_captioned(url, COLOURS)
        yield url


def test_the_skip_link_leads_to_the_pictures_of_the_question(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    page.get_by_role("link", name="Skip to the pictures").press("Enter")
    expect(page.locator("#main")).to_be_focused()
    expect(page.get_by_role("list", name="Results").locator("li.card")).to_have_count(len(COLOURS))
    expect(page.get_by_label("What do the pictures show?")).to_have_value("red")
    assert page.evaluate("location.hash") == "#q=red"


def test_what_has_the_focus_is_seen_where_its_field_is_not(visit: Visit) -> None:
    visit.page.get_by_label("Search with a picture").focus()
    expect(visit.page.get_by_text("Picture…")).to_have_css("outline-style", "solid")


def test_the_focus_stays_on_the_step_that_was_taken(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    page.locator("#main li.card .picture").first.click()
    dialog = page.get_by_role("dialog")
    previous, following = (dialog.get_by_role("button", name=name) for name in ("Previous", "Next"))
    following.press("Enter")
    expect(dialog).to_contain_text("Rank 2")
    expect(dialog.get_by_role("heading", level=2)).to_have_attribute("aria-live", "polite")
    expect(following).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Rank 3")  # the last one
    expect(previous).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Rank 2")
    expect(previous).to_be_focused()


def test_arrow_keys_work_wherever_the_focus_is(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    page.locator("#main li.card .picture").first.click()
    dialog = page.get_by_role("dialog")
    dialog.locator("button.word").focus()  # which is of this result alone
    page.keyboard.press("ArrowRight")
    expect(dialog).to_contain_text("Rank 2")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    expect(dialog).to_contain_text("Rank 3")
    page.keyboard.press("ArrowLeft")
    expect(dialog).to_contain_text("Rank 2")
    page.evaluate(HELD)
    expect(dialog).to_contain_text("Rank 3")


def test_words_that_are_pasted_where_words_are_written_stay_words(visit: Visit) -> None:
    page, content = visit.page, base64.b64encode(RED).decode()
    assert not page.evaluate(TAKES_WORDS_AND_PICTURE, ["#query", content])
    page.locator("#main li.card .picture").first.click()
    assert page.evaluate(TAKES_WORDS_AND_PICTURE, ["#detail", content])
    expect(page.locator("#status")).to_have_text("Pictures like image.png.")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.go_back()
    expect(page.get_by_role("list", name="Library")).to_be_visible()


def test_a_picture_that_is_dropped_over_a_large_one_asks_on_the_page(visit: Visit) -> None:
    page, red = visit.page, ("mine.png", "image/png", RED)
    search(page, "red")
    page.locator("#main li.card .picture").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    drop(page, "#detail", red, kinds=["dragover", "dragover"])
    expect(dialog).to_be_hidden()
    assert page.url.endswith("#q=red")
    expect(page.get_by_text("Add to the library")).to_be_visible()
    drop(page, "[data-drop=search]", red)
    expect(page.locator("#status")).to_have_text("Pictures like mine.png.")
    page.go_back()
    expect(page.get_by_role("list", name="Results")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("list", name="Library")).to_be_visible()


def test_the_focus_stays_on_a_picture_that_is_found_anew(visit: Visit) -> None:
    page, main = visit.page, visit.page.locator("#main")
    search(page, "red")
    like = page.get_by_role("button", name="More like this: all green")
    word = page.locator("#words button")
    visit.open_options()
    # No text of green ones has the word.
    for looked, focused, kept in (("pictures", like, like), ("both", word, word), ("text", like, main)):
        held = HeldRequests(page, "**/search/text")
        page.get_by_label("Look at").select_option(looked)
        held.first()
        focused.focus()
        held.let_go()
        expect(main).not_to_have_attribute("aria-busy", "true")
        expect(kept).to_be_focused()


def test_the_focus_of_a_picture_that_a_filter_takes_away_goes_to_the_others(visit: Visit) -> None:
    page = visit.page
    cards = page.get_by_role("list", name="Library").locator("li.card")
    expect(cards).to_have_count(len(COLOURS))
    visit.open_options()
    held = HeldRequests(page, "**/images?*")
    page.get_by_label("to", exact=True).fill("1999")
    held.first()
    cards.first.locator(".picture").focus()
    held.let_go()
    expect(cards).to_have_count(0)
    expect(page.locator("#main")).to_be_focused()


def test_a_dropped_address_does_not_lead_away_and_a_file_is_copied(visit: Visit) -> None:
    page = visit.page
    expect(page.get_by_role("list", name="Library")).to_be_visible()
    assert page.evaluate(DRAGGED, ["#main", "dragover", "Files"]) == [True, "copy"]
    for target, types in (("#main", "text/uri-list text/plain"), ("#query", "text/uri-list")):  # as in Firefox
        assert [page.evaluate(DRAGGED, [target, kind, types])[0] for kind in ("dragover", "drop")] == [True, True]
    expect(page.locator("#status")).to_contain_text("save or copy the picture first")
    assert not page.evaluate(DRAGGED, ["#query", "drop", "text/uri-list text/plain"])[0]
