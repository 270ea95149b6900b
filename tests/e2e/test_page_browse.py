"""The years and albums of the library."""

from collections.abc import Iterator

import pytest

from tests.support import patient
from tests.support.fakes import COLOURS
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Browser, expect

from tests.e2e.browser import LOOKED_AT_AGAIN, Visit, query, search, send

pytestmark = pytest.mark.browser

DATES = ("2024-05-06", "2024-05-31", "2024-01-02", "2023-07-08", None)
ALBUMS = ("10 days", "9 days", "9 days", "Dogs", None)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        for colour, date, album in zip(COLOURS, DATES, ALBUMS, strict=False):
            known = {"taken_at": date and f"{date}T00:00:00Z", "tags": {"album": album} if album else {}}
            send(url, f"{colour}.png", png(two_coloured(colour, colour)), {k: v for k, v in known.items() if v})
        yield url


def test_years_months_and_albums_narrow_the_library(visit: Visit) -> None:
    page = visit.page
    cards = page.locator("#main li.card")
    expect(cards).to_have_count(len(DATES))
    page.get_by_text("Years and albums").click()

    def buttons(name: str) -> list[str]:
        return page.get_by_role("group", name=name, exact=True).get_by_role("button").all_text_contents()

    year = page.get_by_role("button", name="2024 (3)")
    expect(year).to_be_visible()
    assert (buttons("Years"), buttons("Months")) == (["2024 (3)", "2023 (1)"], [])
    assert buttons("Albums") == ["9 days (2)", "10 days (1)", "Dogs (1)"]  # 9 before 10
    expect(page.get_by_role("group", name="Years")).to_contain_text("1 without a date")
    year.click()
    expect(cards).to_have_count(3)
    expect(page.get_by_role("button", name="May (2)")).to_be_visible()
    expect(year).to_be_focused()
    page.get_by_role("button", name="January (1)").click()
    expect(cards).to_have_count(1)
    assert buttons("Months") == ["May (2)", "January (1)"]
    page.go_back()
    expect(cards).to_have_count(3)
    page.get_by_role("button", name="9 days (2)").click()
    expect(cards).to_have_count(2)  # of that year and that album
    page.locator("#home").click()
    expect(cards).to_have_count(len(DATES))


@pytest.mark.parametrize("width", [390, 1280])
def test_a_chosen_year_is_a_button_that_removes_it(browser: Browser, address: str, width: int) -> None:
    visit = Visit(browser, address, viewport={"width": width, "height": 844}, has_touch=width < 400)
    page = visit.page
    cards, panel = page.locator("#main li.card"), page.locator("#panel")
    options, chip = page.get_by_role("button", name="Options"), page.get_by_role("button", name="Take away: 2024")
    page.get_by_text("Years and albums").click()
    page.get_by_role("button", name="2024 (3)").click()
    expect(chip).to_have_text("2024 ×")
    search(page, "red")
    expect(cards).to_have_count(3)
    page.reload()
    expect(cards).to_have_count(3)
    expect(panel).to_be_visible(visible=width > 400)  # on a telephone it would hide the answer
    expect(chip).to_have_count(int(width < 400))  # beside the fields it would be said twice
    if width > 400:
        options.click()
    chip.click()
    expect(cards).to_have_count(len(DATES))
    expect(chip).to_have_count(0)
    expect(options).to_be_focused()
    expect(query(page)).to_have_value("red")
    page.go_back()
    expect(cards).to_have_count(3)
    visit.close()


def test_the_focus_stays_on_an_album_whose_number_changes_and_goes_to_the_heading_of_one_that_is_gone(
    visit: Visit,
) -> None:
    page = visit.page
    page.get_by_text("Years and albums").click()
    page.get_by_role("button", name="Dogs (1)").focus()
    send(visit.address, "dog.png", png(two_coloured("red", "cyan")), {"tags": {"album": "Dogs"}})
    page.evaluate(LOOKED_AT_AGAIN)
    expect(page.get_by_role("button", name="Dogs (2)")).to_be_focused()
    images = patient.get(f"{visit.address}/images").json()["images"]
    for image in images:
        if image["tags"].get("album") == "Dogs":
            patient.delete(f"{visit.address}/images/{image['image_id']}")
    page.evaluate(LOOKED_AT_AGAIN)
    expect(page.get_by_role("group", name="Albums")).not_to_contain_text("Dogs")
    expect(page.locator("summary", has_text="Years and albums")).to_be_focused()
