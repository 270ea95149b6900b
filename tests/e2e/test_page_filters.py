"""The page narrows what it finds: tags and ranges of them, a cut-off, dates; and asks with pictures in every way."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import patient
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import FilePayload, Page, Route, expect

from tests.e2e.browser import NEVER_SETTLED, HeldRequests, Visit, accessibility_faults, cards, query, search, send

pytestmark = pytest.mark.browser

OPTIONS_OPEN = True
YEARS = {"red": 2021, "blue": 2022, "green": 2023, "yellow": 2024}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        for colour, year in YEARS.items():
            about = {"tags": {"year": year, "place": "Oslo" if year < 2023 else "Rome"}, "taken_at": f"{year}-05-01"}
            send(url, f"{colour}.png", png(two_coloured(colour, "white", 320, 240)), about)
        yield url


def titles(page: Page) -> list[str]:
    """Names of the pictures shown, in their order."""
    return [title.removesuffix(".png") for title in page.locator("#main li.card .title").all_inner_texts()]


def add_tag(page: Page, condition: str) -> None:
    """Ask for a tag as a person does."""
    page.get_by_label("Tag", exact=True).fill(condition)
    page.get_by_label("Tag", exact=True).press("Enter")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["year: 2022..2023"], {"blue", "green"}),
        (["year: 2023.."], {"green", "yellow"}),
        (["year: ..2021"], {"red"}),
        (["year>=2022", "year<=2022"], {"blue"}),
        (["year: 2021", "year: 2024"], {"red", "yellow"}),
        (["place: Oslo", "year: 2022.."], {"blue"}),
    ],
)
def test_tags_and_ranges_of_tags_filter_the_library(visit: Visit, conditions: list[str], expected: set[str]) -> None:
    expect(cards(visit.page)).to_have_count(len(YEARS))
    for condition in conditions:
        add_tag(visit.page, condition)
    expect(cards(visit.page)).to_have_count(len(expected))
    assert set(titles(visit.page)) == expected


def test_a_condition_is_taken_away_and_a_wrong_one_is_explained(visit: Visit) -> None:
    page = visit.page
    add_tag(page, "year: 2022..2023")
    expect(page.get_by_role("button", name="Take away: year: 2022..2023")).to_be_visible()
    search(page, "green")
    assert set(titles(page)) == {"blue", "green"}
    add_tag(page, "year: 2021")
    alert = page.locator("#options").get_by_role("alert")
    expect(alert).to_have_text("“year” cannot have both a value and a range: take one away.")
    add_tag(page, "year: 2020..")
    expect(alert).to_have_text("“year” has such an end already: take that away first.")
    add_tag(page, "2031")
    expect(alert).to_contain_text("name: 2020..2024")
    expect(page.locator("#options [aria-invalid=true]")).to_have_count(1)
    assert accessibility_faults(page) == []
    page.get_by_label("Tag", exact=True).fill("")
    page.get_by_role("button", name="Take away: year: 2022..2023").press("Enter")
    expect(cards(page)).to_have_count(len(YEARS))
    expect(alert).to_be_hidden()
    expect(page.locator("#options [aria-invalid]")).to_have_count(0)
    expect(page.get_by_label("Tag", exact=True)).to_be_focused()


def test_a_cut_off_leaves_out_what_matches_less(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    page.get_by_label("Look at").select_option("pictures alone")  # what text finds has no score
    scores = [hit["score"] for hit in search(page, "yellow")["results"]]
    assert scores[0] > scores[1]
    page.get_by_label("Percent or score").select_option("score")
    page.get_by_label("At least").fill(str((scores[0] + scores[1]) / 2))
    page.get_by_label("At least").press("Enter")
    expect(cards(page)).to_have_count(1)
    expect(status).to_contain_text("“At least” leaves 3 more out.")
    assert titles(page) == ["yellow"]
    page.get_by_label("At least").fill(str(scores[0] + 1))
    page.get_by_label("At least").press("Tab")
    expect(status).to_contain_text("Nothing reaches “At least”, which leaves 4 out.")
    page.get_by_label("Percent or score").select_option("% likely")
    expect(status).to_contain_text("calibrat")  # this model has none, and the answer says so


def test_a_score_that_was_written_for_likeness_is_no_cut_off_of_likeness_and_words(visit: Visit) -> None:
    page, status, least = visit.page, visit.page.locator("#status"), visit.page.get_by_label("At least")
    cards(page).first.get_by_role("button", name="More like this").click()
    expect(status).to_contain_text("Pictures like")
    page.get_by_label("Percent or score").select_option("score")
    least.fill("1.5")  # which no cosine reaches
    least.press("Enter")
    expect(status).to_contain_text("Nothing reaches “At least”, which leaves 3 out.")
    words = page.get_by_label("What they should show besides")
    words.fill("yellow")
    words.press("Enter")
    expect(status).to_contain_text("“At least” was a score of another kind, and was taken away.")
    expect(cards(page)).to_have_count(len(YEARS) - 1)
    expect(least).to_have_value("")
    least.fill("-3")  # one of these scores stays as long as there are words
    least.press("Enter")
    expect(status).to_have_text(re.compile("that show “yellow”(?!.*of another kind)"))
    words.fill("blue")
    words.press("Enter")
    expect(status).to_contain_text("blue")
    expect(least).to_have_value("-3")
    for _ in range(3):
        page.go_back()
    expect(least).to_have_value("1.5")
    expect(status).to_contain_text("Nothing reaches “At least”, which leaves 3 out.")
    query(page).press_sequentially("red", delay=300)  # answered letter by letter
    expect(page).to_have_url(re.compile("q=red"))
    expect(page.locator("#main")).not_to_have_attribute("aria-busy", "true")
    expect(page.get_by_role("list", name="Results")).to_be_visible()
    expect(status).to_contain_text("of another kind")


def test_an_option_that_is_none_ends_what_was_asked_before(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    expect(cards(page)).to_have_count(len(YEARS))
    held = HeldRequests(page, "**/search/text")
    query(page).fill("yellow")
    expect(status).to_have_text("Searching…")
    page.get_by_label("At least").fill("150")
    page.get_by_label("At least").press("Enter")
    expect(status).to_contain_text("At least")
    held.let_go()
    page.wait_for_timeout(500)
    expect(status).to_contain_text("At least")
    library = page.get_by_role("list", name="Library")
    expect(library.locator("li.card")).to_have_count(len(YEARS))  # which was shown before
    library.get_by_role("button", name="More like this").first.click()
    expect(page.locator("#main .asked ~ div").get_by_role("list", name="Library")).to_be_visible()


def test_what_is_typed_into_options_is_answered_as_soon_as_it_is_complete(visit: Visit) -> None:
    page = visit.page
    page.evaluate(NEVER_SETTLED)
    search(page, "blue")
    expect(cards(page)).to_have_count(len(YEARS))
    page.get_by_label("From").press_sequentially("2022")
    expect(cards(page)).to_have_count(3)
    page.get_by_label("From").press_sequentially("-01")
    expect(page).to_have_url(re.compile("from=2022-01"))
    page.get_by_label("From").press("Enter")
    page.go_back()  # what was typed is one step
    expect(cards(page)).to_have_count(len(YEARS))


def test_results_stand_by_date_for_sentences_pictures_and_the_library(visit: Visit) -> None:
    page = visit.page
    newest_first = list(reversed(YEARS))
    best = search(page, "blue")["results"][0]["filename"]
    assert best == "blue.png"
    page.get_by_label("Sort by").select_option("date")
    expect(cards(page).first).to_contain_text("yellow")
    assert titles(page) == newest_first
    page.get_by_role("button", name="More like this: red.png").click()
    expect(page.locator("#status")).to_have_text("Pictures like red.png.")
    assert titles(page) == newest_first[:-1]
    add_tag(page, "place:rome")  # what was asked last is asked again; the tag is the one that is offered
    expect(page.get_by_role("button", name="Take away: place: Rome")).to_be_visible()
    expect(page.locator("#status")).to_have_text("Pictures like red.png.")
    expect(cards(page)).to_have_count(2)
    page.get_by_role("button", name="Library").click()
    expect(page.get_by_role("list", name="Library").locator("li.card")).to_have_count(2)
    expect(page.locator("#status")).to_have_text("2 pictures pass the filter.")


def test_an_address_has_the_options_of_its_question(visit: Visit) -> None:
    page = visit.page
    search(page, "blue")
    page.get_by_label("From").fill("2022")
    page.get_by_label("From").press("Enter")
    page.get_by_label("Sort by").select_option("date")
    add_tag(page, "year<=2023")
    expect(cards(page)).to_have_count(2)
    sent = page.url
    page.go_back()  # each option is a step
    expect(page.get_by_role("button", name="Take away: year: ..2023")).to_have_count(0)
    expect(cards(page)).to_have_count(3)
    page.go_back()
    expect(page.get_by_label("Sort by")).to_have_value("relevance")
    page.go_back()  # to the question without options
    expect(cards(page)).to_have_count(len(YEARS))
    assert page.get_by_label("From").input_value() == ""
    for _ in range(3):
        page.go_forward()
    expect(cards(page)).to_have_count(2)
    page.get_by_role("button", name="More like this: blue.png").click()
    expect(page.locator("#status")).to_have_text("Pictures like blue.png.")
    page.get_by_role("button", name="Take away: year: ..2023").click()
    expect(cards(page)).to_have_count(2)  # green and yellow
    page.go_back()
    expect(cards(page)).to_have_count(1)
    page.go_back()
    expect(page.get_by_role("button", name="Take away: year: ..2023")).to_be_visible()
    expect(cards(page)).to_have_text([re.compile("green"), re.compile("blue")])
    page.goto("about:blank")
    page.goto(sent)
    expect(cards(page)).to_have_count(2)
    assert titles(page) == ["green", "blue"]
    assert page.get_by_label("From").input_value() == "2022"
    assert page.get_by_label("Sort by").input_value() == "date"
    page.goto(visit.address)  # says nothing of options
    expect(cards(page)).to_have_count(len(YEARS))
    assert page.get_by_label("From").input_value() == ""


def test_the_name_of_the_page_leads_to_the_whole_library_and_says_in_which_order(visit: Visit) -> None:
    page = visit.page
    usual = page.get_by_label("Sort by").locator("option").first
    expect(usual).to_have_text("last added")
    search(page, "blue")
    expect(usual).to_have_text("relevance")
    page.get_by_label("From").fill("5/6/2022")
    page.get_by_label("From").press("Enter")
    expect(page.locator("#options")).to_contain_text(re.compile("read as from (June 5,|5 June) 2022"))
    page.get_by_role("link", name="Regard").click()
    expect(cards(page)).to_have_count(len(YEARS))
    expect(page.get_by_label("From")).to_have_value("")
    expect(usual).to_have_text("last added")
    expect(page.locator("#options")).not_to_contain_text("read as")


def test_a_name_with_a_colon_and_a_model_that_is_not_there_come_by_an_address_too(visit: Visit) -> None:
    page = visit.page
    page.goto("about:blank")
    page.goto(f"{visit.address}#q=red&tag.exif%3Ayear=2024&model=absent")
    expect(page.locator("#status")).to_contain_text("absent")
    expect(page.get_by_role("button", name="Take away: exif:year: 2024")).to_be_visible()
    page.get_by_label("Model").select_option("fake")
    expect(page.locator("#status")).to_have_text("Nothing was found that passes the filter.")
    page.get_by_role("button", name="Take away: exif:year: 2024").click()
    expect(cards(page)).to_have_count(len(YEARS))
    assert page.url.endswith("#q=red")


PASTE = """
(content) => {
  const clipboardData = new DataTransfer();
  const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
  clipboardData.items.add(new File([bytes], "image.png", { type: "image/png" }));
  document.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}
"""


def test_a_pasted_picture_and_a_chosen_one_are_searched_with(visit: Visit) -> None:
    page = visit.page
    page.evaluate(PASTE, base64.b64encode(png(two_coloured("green", "white", 64, 48))).decode())
    expect(page.locator("#status")).to_have_text("Pictures like image.png.")
    assert titles(page)[0] == "green"
    chosen = FilePayload(name="mine.png", mimeType="image/png", buffer=png(two_coloured("red", "white", 64, 48)))
    page.get_by_label("Search with a picture").set_input_files(files=[chosen])
    expect(page.locator("#status")).to_have_text("Pictures like mine.png.")
    assert titles(page)[0] == "red"
    assert page.get_by_label("Search with a picture").evaluate("one => one.files.length") == 0  # it can be chosen again


def test_two_models_are_compared_for_a_picture_too(visit: Visit) -> None:
    def two_models(route: Route) -> None:
        answer = route.fetch().json()
        answer["models"].append({**answer["models"][0], "name": "other", "default": False})
        route.fulfill(json=answer)

    def one_for_both(route: Route) -> None:
        body = route.request.post_data_buffer or b""
        other = b"\r\n\r\nother\r\n" in body
        answer = route.fetch(post_data=body.replace(b"\r\n\r\nother\r\n", b"\r\n\r\nfake\r\n")).json()
        route.fulfill(json={**answer, "model": "other"} if other else answer)

    page = visit.page
    page.route("**/models", two_models)
    page.route("**/search/image", one_for_both)
    page.reload()
    page.get_by_label("beside").select_option("other")
    page.get_by_role("button", name="More like this: red.png").click()
    expect(page.get_by_role("region", name="fake").locator("li.card")).to_have_count(len(YEARS) - 1)
    expect(page.get_by_role("region", name="other").locator(".moved").first).to_have_text("1. the same place")


def test_the_strongest_region_bears_its_label(visit: Visit) -> None:
    page = visit.page
    why = search(page, "green")["results"][0]["explanation"]
    cards(page).first.locator(".picture").click()
    dialog = page.get_by_role("dialog")
    name = dialog.locator(".overlay .name")
    expect(name).to_be_empty()
    dialog.get_by_role("button", name="green", exact=True).hover()
    place = [token["text"] for token in why["words"]].index("green")
    shares = why["shares"][place]
    expect(name).to_have_text(why["regions"][shares.index(max(shares))]["label"])
    added = [sum(column) for column in zip(*why["shares"], strict=True)]
    dialog.locator("button.region").first.focus()
    expect(name).to_have_text(why["regions"][added.index(max(added))]["label"])


def test_a_folder_is_taken_in_with_its_albums_and_the_library_is_paged(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    folder = tmp_path / "Summer"
    (folder / "beach").mkdir(parents=True)
    two_coloured("cyan", "black", 64, 48).save(folder / "one.png")
    two_coloured("magenta", "black", 64, 48).save(folder / "beach" / "one.png")
    (folder / "notes.txt").write_text("no picture")
    page.get_by_role("button", name="Add pictures").click()
    page.get_by_label("A folder…").set_input_files(folder)
    panel = page.locator("#add")
    expect(panel.get_by_role("status")).to_have_text("Done: 2 of 3 can be found, 1 left out.")
    expect(panel.locator("li", has_text="notes.txt")).to_contain_text("is no picture")
    stored = {one["filename"]: one for one in patient.get(f"{visit.address}/images").json()["images"]}
    assert stored["one.png"]["tags"]["album"] == "Summer"
    assert stored["beach/one.png"]["tags"]["album"] == "beach"
    page.route("**/images?*", lambda route: route.continue_(url=route.request.url.replace("limit=48", "limit=4")))
    page.reload()
    expect(cards(page)).to_have_count(4)
    page.get_by_role("button", name="Show more").click()
    expect(cards(page)).to_have_count(len(YEARS) + 2)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    assert len(set(cards(page).evaluate_all("all => all.map((one) => one.dataset.image)"))) == len(YEARS) + 2
    for one in (stored["one.png"], stored["beach/one.png"]):
        patient.delete(f"{visit.address}/images/{one['image_id']}").raise_for_status()


@pytest.mark.parametrize("question", ["", "red"])
def test_a_date_that_is_none_is_told_by_the_name_of_its_field(visit: Visit, question: str) -> None:
    page, status = visit.page, visit.page.locator("#status")
    expect(cards(page)).to_have_count(len(YEARS))
    if question:
        search(page, question)
    page.get_by_label("From").fill("March")
    page.get_by_label("From").press("Enter")
    expect(status).to_have_text(
        "From: write a date as 2024, 2024-05, 2024-05-06, 06.05.2024, 6 May 2024 or 2024-05-06 10:00."
    )
    expect(status.locator(".fault")).to_be_visible()
    expect(page.get_by_label("From")).to_have_accessible_description(status.inner_text())
    expect(page.get_by_label("From")).to_have_attribute("aria-invalid", "true")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # looked at again
    expect(cards(page)).to_have_count(len(YEARS))  # those of before
    page.get_by_label("From").fill("1. May 2022")
    page.get_by_label("From").press("Enter")
    nearest = "The 3 nearest pictures, which may not show this."
    expect(status).to_have_text(nearest if question else "3 pictures pass the filter.")
    expect(page.get_by_label("From")).to_have_accessible_description("The earliest date")
    page.get_by_label("From").fill("2022")
    page.get_by_label("to", exact=True).fill("2021")
    page.get_by_label("to", exact=True).press("Enter")
    expect(status).to_have_text("Date: no time is from 2022 on and until 2021.")


def test_a_tag_of_a_picture_asks_for_those_that_have_it(visit: Visit) -> None:
    page, chips = visit.page, visit.page.get_by_role("group", name="Conditions", exact=True)
    expect(cards(page)).to_have_count(len(YEARS))
    cards(page).filter(has_text="red").get_by_role("button", name="place: Oslo", exact=True).click()
    expect(cards(page)).to_have_count(2)
    assert set(titles(page)) == {"red", "blue"}
    expect(chips).to_have_text("place: Oslo ×")
    assert accessibility_faults(page) == []
    cards(page).filter(has_text="blue").locator(".picture").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="place: Oslo", exact=True).click()  # asked for already
    expect(dialog).to_be_hidden()
    assert "picture=" not in page.url
    cards(page).filter(has_text="blue").locator(".picture").click()
    dialog.get_by_role("button", name="year: 2022", exact=True).click()
    expect(dialog).to_be_hidden()
    expect(cards(page)).to_have_count(1)
    page.go_back()
    expect(cards(page)).to_have_count(2)


def test_a_value_alone_is_a_condition_where_one_tag_has_it(visit: Visit) -> None:
    page = visit.page
    expect(page.locator("#tags option[value='place: Oslo']")).to_have_count(1)
    add_tag(page, "oslo")
    expect(page.get_by_role("button", name="Take away: place: Oslo", exact=True)).to_be_visible()
    expect(cards(page)).to_have_count(2)
    add_tag(page, "Paris")
    expect(page.locator("#tag-fault")).to_have_text("Write name: value, or name: 2020..2024 for a range.")
