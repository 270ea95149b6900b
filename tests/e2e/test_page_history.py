"""The page's questions in the browser's history, and in addresses."""

import re
from collections.abc import Iterator

import pytest

from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import FilePayload, Page, expect

from tests.e2e.browser import NEVER_SETTLED, HeldRequests, Visit, accessibility_faults, search, send

pytestmark = pytest.mark.browser

COLOURS = ["red", "green", "blue", "yellow"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        for colour in COLOURS:
            send(url, f"{colour}.png", png(two_coloured(colour, colour, 64, 48)), {"captions": [f"all {colour}"]})
        yield url


def line(page: Page) -> str:
    """The text in the line for questions."""
    return page.get_by_label("What do the pictures show?").input_value()


def test_back_and_forward_go_through_the_questions(visit: Visit) -> None:
    page, status, shown = visit.page, visit.page.locator("#status"), visit.page.locator("#main li.card .title")
    library = page.get_by_role("list", name="Library")
    expect(library).to_be_visible()
    search(page, "red")
    page.locator("#main li.card").first.get_by_role("button", name="More like this").click()
    expect(status).to_have_text("Pictures like all red.")
    assert line(page) == ""
    asked = page.get_by_role("img", name="Asked with: all red")
    expect(asked).to_be_visible()
    page.get_by_role("button", name="Sentences for it").click()
    expect(page.get_by_role("list", name="Sentences")).to_be_visible()
    expect(asked).to_be_visible()
    page.go_back()
    expect(status).to_have_text("Pictures like all red.")
    page.go_back()
    expect(shown.first).to_have_text("all red")
    expect(status).to_have_text("4 pictures.")
    assert line(page) == "red"
    assert page.title() == "red · Regard"
    page.go_back()
    expect(library).to_be_visible()
    assert line(page) == ""
    page.go_forward()
    expect(status).to_have_text("4 pictures.")
    page.go_forward()
    expect(status).to_have_text("Pictures like all red.")
    page.reload()
    expect(status).to_have_text("Pictures like all red.")
    expect(shown).to_have_count(len(COLOURS) - 1)


def test_back_leads_to_the_picture_that_was_left_or_to_the_pictures(visit: Visit) -> None:
    page, like = visit.page, visit.page.get_by_role("button", name="More like this: all green")
    for line in (page.get_by_label("What do the pictures show?"), like):
        if line is like:
            like.press("Enter")
        else:
            search(page, "red")
        found = page.get_by_role("list", name="Results").get_by_role("button", name="More like this: all blue")
        found.press("Enter")
        expect(page.locator("#status")).to_have_text("Pictures like all blue.")
        page.get_by_role("button", name="Sentences for it").focus()
        page.go_back()
        expect(page.get_by_role("button", name=re.compile("all blue.*: show large"))).to_be_focused()
        page.get_by_role("link", name="Skip to the pictures").press("Enter")
        page.go_back()
        expect(page.get_by_role("list", name="Library")).to_be_visible()
        expect(
            page.get_by_role("button", name="all green: show large") if line is like else page.locator("#main")
        ).to_be_focused()


def test_words_beside_a_picture_are_a_question_that_back_leads_away_from(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    search(page, "red")
    page.locator("#main li.card").first.get_by_role("button", name="More like this").click()
    expect(status).to_have_text("Pictures like all red.")
    words = page.get_by_label("What they should show besides")
    words.fill(" blue ")
    with page.expect_request("**/search/image") as asked:
        words.press("Enter")
    assert 'name="query"\r\n\r\nblue\r\n' in (asked.value.post_data or "")
    expect(status).to_have_text("Pictures like all red that show “blue”.")
    expect(page.locator("#main li.card .title").first).to_have_text("all blue")
    expect(words).to_have_value("blue")
    assert accessibility_faults(page) == []
    page.reload()
    expect(status).to_have_text("Pictures like all red that show “blue”.")
    expect(words).to_have_value("blue")
    page.go_back()
    expect(status).to_have_text("Pictures like all red.")
    expect(words).to_have_value("")
    page.go_forward()
    expect(words).to_have_value("blue")  # else the line that is written into is replaced
    words.fill("")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(status).to_have_text("Pictures like all red.")


def test_words_that_are_being_written_stay_when_an_answer_comes(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    search(page, "red")
    page.locator("#main li.card").first.get_by_role("button", name="More like this").click()
    expect(status).to_have_text("Pictures like all red.")
    words = page.get_by_label("What they should show besides")
    held = HeldRequests(page, "**/search/image")
    visit.open_options()
    page.get_by_label("Sort by").select_option("date")
    waiting = held.first()
    words.press_sequentially("bl")
    with page.expect_response("**/search/image"):
        held.let_go()
    page.locator("#main.late").wait_for(state="detached")
    assert "date" in (waiting.request.post_data or "")
    expect(status).to_have_text("Pictures like all red.")
    expect(words).to_be_focused()
    page.keyboard.type("ue\n")
    expect(status).to_have_text("Pictures like all red that show “blue”.")
    expect(words).to_have_value("blue")
    page.locator("#main li.card").nth(1).get_by_role("button", name="More like this").click()
    expect(status).not_to_contain_text("Pictures like all red")
    expect(words).to_have_value("")


def test_a_date_that_is_left_while_it_is_typed_takes_no_step_away(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    for colour in ("red", "blue"):
        page.get_by_role("button", name=f"More like this: all {colour}").click()
        expect(status).to_have_text(f"Pictures like all {colour}.")
    page.clock.install(time=0)
    page.clock.pause_at(10)
    visit.open_options()
    page.get_by_label("From", exact=True).fill("2024")
    page.go_back()
    expect(status).to_have_text("Pictures like all red.")
    page.clock.fast_forward(1000)
    page.go_forward()
    expect(status).to_have_text("Pictures like all blue.")


def test_a_sentence_is_one_question_until_it_rests(visit: Visit) -> None:
    page = visit.page
    expect(page.get_by_role("list", name="Library")).to_be_visible()
    before = page.evaluate("history.length")
    page.evaluate(NEVER_SETTLED)
    search(page, "re")
    search(page, "red")
    assert page.evaluate("history.length") == before + 1
    with page.expect_response("**/search/text"):
        page.get_by_label("What do the pictures show?").press("Enter")
    search(page, "blue")
    assert page.evaluate("history.length") == before + 2
    page.go_back()
    expect(page.locator("#main li.card .title").first).to_have_text("all red")
    assert line(page) == "red"


def test_a_sentence_that_was_left_at_once_is_a_question_too(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    page.locator("#main li.card").first.get_by_role("button", name="More like this").click()
    expect(page.locator("#status")).to_have_text("Pictures like all red.")
    page.go_back()
    expect(page.locator("#status")).to_have_text("4 pictures.")
    search(page, "blue")
    page.go_back()
    expect(page.locator("#main li.card .title").first).to_have_text("all red")
    assert line(page) == "red"


def test_a_sentence_whose_picture_was_looked_at_at_once_is_a_question_too(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    page.locator("#main li.card .picture").first.click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    search(page, "blue")
    page.go_back()
    expect(page.locator("#main li.card .title").first).to_have_text("all red")
    assert line(page) == "red"


def test_back_closes_what_is_shown_large(visit: Visit) -> None:
    page = visit.page
    search(page, "red")
    page.locator("#main li.card .picture").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.go_back()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("list", name="Results")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("list", name="Library")).to_be_visible()


def test_a_picture_from_a_file_is_gone_back_to(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    for colour in ("red", "blue"):
        chosen: FilePayload = {
            "name": f"my {colour}.png",
            "mimeType": "image/png",
            "buffer": png(two_coloured(colour, "white", 64, 48)),
        }
        page.get_by_label("Search with a picture").set_input_files(files=[chosen])
        expect(status).to_have_text(f"Pictures like my {colour}.png.")
    page.go_back()
    expect(status).to_have_text("Pictures like my red.png.")
    page.reload()  # no address can hold a file
    expect(page.get_by_role("list", name="Library")).to_be_visible()


def test_an_address_that_was_sent_shows_its_question(visit: Visit) -> None:
    page = visit.page
    image_id = search(page, "green")["results"][0]["image_id"]
    page.goto("about:blank")
    page.goto(f"{visit.address}#like={image_id}")
    expect(page.locator("#status")).to_have_text("Pictures like this one.")
    page.evaluate("location.hash = '#q=yellow'")
    expect(page.locator("#main li.card .title").first).to_have_text("all yellow")
    assert line(page) == "yellow"


def test_what_is_wrong_has_the_names_that_stand_on_the_page(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    search(page, "red")
    visit.open_options()
    for end, text in (("From", "2024"), ("to", "2023")):
        page.get_by_label(end, exact=True).fill(text)
        page.get_by_label(end, exact=True).press("Tab")
    expect(status).to_have_text("Date: no time is from 2024 on and until 2023.")
    page.get_by_label("From", exact=True).fill("spring")
    page.get_by_label("From", exact=True).press("Tab")
    expect(status).to_contain_text("From: write a date as 2024, 2024-05")
    for end in ("From", "to"):
        page.get_by_label(end, exact=True).fill("")
        page.get_by_label(end, exact=True).press("Tab")
    page.get_by_label("At least").fill("190")
    page.get_by_label("At least").press("Tab")
    expect(status).to_have_text("At least: write a percentage from 0 to 100, or choose “score”.")
    page.get_by_label("At least").fill("10")
    chosen = FilePayload(name="mine.png", mimeType="image/png", buffer=png(two_coloured("red", "red", 64, 48)))
    page.get_by_label("Search with a picture").set_input_files(files=[chosen])
    told = "How alike pictures are is no percentage: for “At least” choose “score”."
    expect(status).to_have_text(f"Pictures like mine.png. {told}")
