"""Tags whose values are empty, hold dots or quotation marks, or are written before it is known which there are."""

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Locator, Page, Request, expect

from tests.e2e.browser import HeldRequests, Visit, cards, send

pytestmark = pytest.mark.browser

NOTES = {"red": "", "blue": "1..3", "green": '"so"', "yellow": "2"}
WRITTEN = {"red": 'note: ""', "blue": 'note: "1..3"', "green": 'note: """so"""', "yellow": "note: 2"}
CHOOSE = """
(input, [value, events]) => {
  input.value = value;
  const how = { inputType: "insertReplacementText", bubbles: true };
  for (const one of events) input.dispatchEvent(new InputEvent(one, how));
}
"""
OPTIONS_OPEN = True
HINT = "Write name: value, or name: 2020..2024 for a range."


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        for colour, note in NOTES.items():
            about = {"tags": {"note": note, "kind:light": "lamp" if note else "sun"}}
            send(url, f"{colour}.png", png(two_coloured(colour, "white", 64, 48)), about)
        yield url


def chips(page: Page) -> Locator:
    """The conditions on tags."""
    return page.get_by_role("group", name="Conditions", exact=True).get_by_role("button")


def write(page: Page, condition: str) -> None:
    """Ask for a tag as a person does."""
    page.get_by_label("Tag", exact=True).fill(condition)
    page.get_by_label("Tag", exact=True).press("Enter")


@pytest.mark.parametrize("colour", NOTES)
def test_a_tag_of_a_picture_asks_for_its_value_as_it_stands(visit: Visit, colour: str) -> None:
    page = visit.page
    shown = cards(page).filter(has_text=colour)
    shown.get_by_role("button", name=f"note: {NOTES[colour]}".strip(), exact=True).click()
    expect(cards(page)).to_have_count(1)
    expect(chips(page)).to_have_text(f"{WRITTEN[colour]} ×")
    expect(shown).to_be_visible()
    page.reload()  # the address says it, too
    expect(chips(page)).to_have_text(f"{WRITTEN[colour]} ×")
    expect(cards(page)).to_have_count(1)
    expect(shown).to_be_visible()
    chips(page).click()
    expect(cards(page)).to_have_count(len(NOTES))


@pytest.mark.parametrize("colour", NOTES)
def test_a_tag_that_is_offered_is_taken_as_it_is_offered(visit: Visit, colour: str) -> None:
    page = visit.page
    offered = page.locator("#tags option")
    expect(offered).to_have_count(len(NOTES) + 2)
    assert set(WRITTEN.values()) < set(offered.evaluate_all("all => all.map((one) => one.value)"))
    write(page, WRITTEN[colour])
    expect(chips(page)).to_have_text(f"{WRITTEN[colour]} ×")
    expect(cards(page)).to_have_count(1)
    expect(cards(page)).to_contain_text(colour)


def test_a_value_alone_is_found_beside_one_that_is_empty(visit: Visit) -> None:
    page = visit.page
    expect(page.locator("#tags option[value='note: \"\"']")).to_have_count(1)
    write(page, "Sun")
    expect(chips(page)).to_have_text("kind:light: sun ×")
    expect(page.get_by_label("Tag", exact=True)).to_have_value("")
    expect(cards(page)).to_have_count(1)
    expect(page.locator("#tags option[value='note: \"\"']")).to_have_count(1)  # everything is offered again
    write(page, "note: 1..2")  # a range, in which texts lie as texts
    expect(page.get_by_role("button", name="Take away: note: 1..2", exact=True)).to_be_visible()


def asked_tags(request: Request) -> str | None:
    """The words that a request for the tags looks for, if it names any."""
    return parse_qs(urlsplit(request.url).query).get("search", [None])[0]


@pytest.mark.parametrize("written", ["lamp", "KIND:LIGHT:lamp"])
def test_what_is_written_before_the_tags_are_known_waits_for_them(visit: Visit, written: str) -> None:
    page = visit.page
    held = HeldRequests(page, "**/tags?*")
    page.reload()
    held.first()
    write(page, written)
    held.first(lambda request: asked_tags(request) == "lamp")
    expect(page.locator("#tag-fault")).to_be_hidden()
    expect(chips(page)).to_have_count(0)
    held.let_go()  # what is written, for which the first was given up
    expect(chips(page)).to_have_text("kind:light: lamp ×")
    expect(cards(page)).to_have_count(len(NOTES) - 1)
    expect(page.locator("#tag-fault")).to_be_hidden()


def test_what_is_written_is_decided_where_the_tags_cannot_be_had(visit: Visit) -> None:
    page = visit.page
    page.route("**/tags?*", lambda route: route.abort())
    page.reload()
    write(page, "lamp")
    expect(page.locator("#tag-fault")).to_have_text(HINT)
    write(page, "note: 2")
    expect(chips(page)).to_have_text("note: 2 ×")
    expect(cards(page)).to_have_count(1)


def test_what_is_written_while_another_condition_waits_is_taken_beside_it(visit: Visit) -> None:
    page = visit.page
    expect(cards(page)).to_have_count(len(NOTES))
    held = HeldRequests(page, "**/tags?*")
    write(page, "note>=2")
    write(page, "note<=3")
    held.first(lambda request: asked_tags(request) == "note<=3")
    expect(chips(page)).to_have_count(0)
    held.let_go()  # the second, for which the first was given up
    expect(chips(page)).to_have_count(2)
    expect(cards(page)).to_have_count(1)
    expect(page.get_by_label("Tag", exact=True)).to_have_value("")


def test_a_condition_that_is_chosen_is_taken_at_once_and_the_next_leaves_the_focus_where_it_went(visit: Visit) -> None:
    page, tag = visit.page, visit.page.get_by_label("Tag", exact=True)
    expect(page.locator("#tags option")).to_have_count(len(NOTES) + 2)
    for shown, events in ((0, ["input"]), (1, ["input", "change"])):  # as Firefox tells of a choice, and chromium
        expect(chips(page)).to_have_count(shown)
        tag.evaluate(CHOOSE, [list(WRITTEN.values())[shown], events])
        expect(chips(page)).to_have_count(shown + 1)
        expect(page.locator("#tag-fault")).to_be_hidden()
    tag.fill(WRITTEN["green"])
    chips(page).first.focus()
    expect(chips(page)).to_have_count(3)
    expect(chips(page).first).to_be_focused()
