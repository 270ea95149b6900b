"""A service that is away, slow, or wants a key: the page says so, and goes on once it can."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from service.processes.startup_answers import answered_while_loading
from service.serve import base_url, listening_socket
from service.settings import Settings
from tests.support.running_server import running_server

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.browser import HeldRequests, Visit, cards, query, search, send_captioned

pytestmark = pytest.mark.browser

COLOURS = ["red", "green", "blue"]
AWAY = "The service does not answer. Try again"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("page")) as url:
        send_captioned(url, COLOURS)
        yield url


KEEP_WHAT_IS_TOLD = """
() => {
  const status = document.querySelector("#status");
  window.told = [];
  new MutationObserver(() => window.told.push(status.textContent)).observe(status, { childList: true, subtree: true });
}
"""  # each stands for little longer than expect's pauses


def take_away(page: Page, *paths: str) -> None:
    """Break off every request to these paths."""
    for path in paths:
        page.route(f"**{path}", lambda route: route.abort())


def ask(page: Page, sentence: str) -> None:
    query(page).fill(sentence)


def test_old_results_do_not_stand_below_a_question_that_got_no_answer(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    search(page, "red")
    take_away(page, "/search/text", "/livez")
    ask(page, "blue")
    expect(status).to_have_text(AWAY)
    expect(cards(page)).to_have_count(0)
    expect(page.locator("#words button")).to_have_count(0)
    page.unroute("**/search/text")
    page.get_by_role("button", name="Try again").click()
    expect(cards(page).first).to_contain_text("all blue")


def test_what_was_asked_is_asked_again_once_the_service_is_back(visit: Visit) -> None:
    page = visit.page
    expect(cards(page)).to_have_count(len(COLOURS))
    take_away(page, "/search/text")
    ask(page, "blue")
    expect(page.locator("#status")).to_have_text(AWAY)
    page.locator("#status button").focus()  # which goes
    page.unroute("**/search/text")
    expect(cards(page).first).to_contain_text("all blue")
    expect(page.locator("#main")).to_be_focused()


def test_a_slow_answer_is_told_of(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    search(page, "red")
    held = HeldRequests(page, "**/search/text")
    ask(page, "blue")
    expect(status).to_have_text("Searching…")
    expect(page.locator("#main")).to_have_class("late")  # what stands there is dimmed
    held.let_go()
    expect(status).to_have_text("3 pictures.")
    expect(page.locator("#main")).not_to_have_class("late")


def test_a_search_that_has_its_answer_is_not_said_to_go_on(visit: Visit) -> None:
    page, status = visit.page, visit.page.locator("#status")
    models = page.get_by_label("Model").locator("option")
    expect(models).to_have_text(["fake"])  # or the request that is held could be one that the reload breaks off
    held = HeldRequests(page, "**/models")
    page.reload()  # which goes on until the models are known
    search(page, "red")
    expect(status).to_have_text("3 pictures.")
    page.wait_for_timeout(1000)  # twice the time after which a wait is told of
    expect(status).to_have_text("3 pictures.", timeout=1)
    expect(page.locator("#main")).not_to_have_class("late", timeout=1)
    held.let_go()
    expect(models).to_have_text(["fake"])
    expect(status).to_have_text("3 pictures.")


@pytest.mark.parametrize("path", ["/models", "/session"])
def test_models_that_could_not_be_asked_for_are_asked_for_again(visit: Visit, path: str) -> None:
    page = visit.page
    take_away(page, path, "/livez")
    page.reload()
    expect(page.locator("#status")).to_have_text(AWAY)
    page.unroute(f"**{path}")
    search(page, "red")
    expect(page.get_by_label("Model").locator("option")).to_have_text(["fake"])


def test_a_dialog_that_asks_for_a_key_is_cancelled_once(browser: Browser, tmp_path: Path) -> None:
    key, stored = create_key("browser", Permission.READ, time.time())
    change_keys(tmp_path / "keys.json", lambda keys: [stored])
    with running_server(tmp_path) as address:
        visit = Visit(browser, address)
        page, dialog = visit.page, visit.page.get_by_role("dialog")
        expect(dialog).to_contain_text("This service wants a key")
        dialog.get_by_role("button", name="Cancel").click()
        expect(page.locator("#status")).to_have_text("This service wants a key.")
        expect(dialog).to_be_hidden()
        ask(page, "red")  # a question asks for it again
        expect(dialog).to_contain_text("This service wants a key")
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_be_hidden()
        ask(page, "")
        dialog.get_by_label("API key").fill(key)
        dialog.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="No pictures yet")).to_be_visible()
        expect(page.get_by_label("Model").locator("option")).to_have_text(["fake"])
        visit.close()


def test_what_is_waited_for_since_before_keeps_nothing_from_being_asked_again(visit: Visit) -> None:
    page, asked = visit.page, list[str]()

    def refuse_once(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(status=503, json={"detail": "loading"}, headers={"Retry-After": "1"})
        else:
            route.continue_()

    held = HeldRequests(page, "**/models")
    page.reload()
    page.route("**/search/text", refuse_once)
    ask(page, "red")
    expect(page.get_by_role("list", name="Results")).to_be_visible()
    assert len(asked) == 2
    assert held.routes
    held.let_go()


def test_a_service_that_names_a_time_is_asked_again_then(visit: Visit) -> None:
    page, asked = visit.page, list[str]()

    def refuse_twice(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) < 3:
            told = f"finding regions anew: {len(asked)} of 20 pictures"
            route.fulfill(status=503, json={"detail": told}, headers={"Retry-After": "1"})
        else:
            route.continue_()

    page.route("**/search/text", refuse_twice)
    page.evaluate(KEEP_WHAT_IS_TOLD)
    ask(page, "red")
    expect(page.get_by_role("list", name="Results")).to_be_visible()
    told = page.evaluate("told")
    assert [any(f"anew: {n} of 20 pictures" in one for one in told) for n in (1, 2, 3)] == [True, True, False]
    assert len(asked) == 3


def test_a_service_that_hangs_is_told_of_and_asked_again_once_it_answers(visit: Visit) -> None:
    page = visit.page
    page.clock.install()
    search(page, "red")
    held = HeldRequests(page, "**/search/text")
    page.route("**/livez", lambda route: route.abort())
    ask(page, "blue")
    page.clock.fast_forward(1000)
    expect(page.locator("#status")).to_have_text("Searching…")
    assert held.first()
    page.clock.fast_forward(16_000)
    expect(page.locator("#status")).to_have_text(AWAY)
    expect(cards(page)).to_have_count(0)
    page.unroute("**/search/text")
    page.unroute("**/livez")
    page.clock.fast_forward(3000)
    expect(cards(page).first).to_contain_text("all blue")
    HeldRequests(page, "**/search/image")
    page.route("**/livez", lambda route: route.abort())
    cards(page).first.get_by_role("button", name="More like this").click()
    page.clock.fast_forward(16_000)
    expect(page.locator("#status")).to_have_text(AWAY)


def test_the_page_of_a_service_that_loads_comes_by_itself_with_its_question(browser: Browser) -> None:
    with listening_socket("127.0.0.1", 0) as listening, answered_while_loading(listening, Settings()):
        visit = Visit(browser, f"{base_url(listening)}/#q=red")
        page = visit.page
        expect(page.get_by_text("is loading its models")).to_be_visible()
        page.route("**/*", lambda route: route.fulfill(body="<title>here</title>", content_type="text/html"))
        expect(page).to_have_title("here")
        assert page.url.endswith("/#q=red")
        visit.close()


def test_pictures_that_the_service_has_yet_to_make_are_shown_once_it_has(visit: Visit) -> None:
    page, left = visit.page, {"GET": len(COLOURS), "HEAD": 4}

    def prepare(route: Route) -> None:
        method = route.request.method
        left[method] -= 1
        if left[method] >= 0:
            route.fulfill(status=503, headers={"Retry-After": "1"}, body="")
        else:
            route.continue_()

    page.route("**/thumbnail", prepare)
    page.reload()
    expect(cards(page)).to_have_count(len(COLOURS))
    for shown in cards(page).locator("img").all():
        expect(shown).not_to_have_js_property("naturalWidth", 0, timeout=30_000)
    assert max(left.values()) < 0


@pytest.mark.parametrize("lost", ["/page/page.js", "/page/*"])
def test_a_page_whose_parts_cannot_be_loaded_says_why_that_may_be(visit: Visit, lost: str) -> None:
    page = visit.page
    expect(page.locator("#unstarted")).to_have_count(0)
    take_away(page, lost)
    page.reload()
    expect(page.get_by_text("This page has not started.")).to_be_visible()
    expect(page.get_by_text("REGARD_ALLOWED_HOSTS")).to_be_visible()
