"""The page of a service that asks for keys: signing in and out, and what a key that may only read is offered."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from tests.support.library import two_coloured
from tests.support.running_server import running_server
from tests.support.web_app import png

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.browser import DELETE, LOOKED_AT_AGAIN, HeldRequests, Visit, accessibility_faults, drop, query

pytestmark = pytest.mark.browser


RED = ("red.png", "image/png", png(two_coloured("red", "red", 64, 48)))


def give_key(dialog: Locator, key: str) -> None:
    dialog.get_by_label("API key").fill(key)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()


def look_again(page: Page) -> None:
    """Return to the page's tab, until its library is refreshed."""
    with page.expect_response("**/images?*"):
        page.evaluate(LOOKED_AT_AGAIN)
    expect(page.locator("#main")).not_to_have_attribute("aria-busy", "true")


def broken(key: str) -> str:
    """The key as a mail program breaks it."""
    return f" {key[:20]} {key[20:]} "


@contextmanager
def signed_in(browser: Browser, folder: Path) -> Iterator[tuple[Visit, str]]:
    """The page of an empty library, to which somebody gave a key that may write; and that key."""
    key, stored = create_key("browser", Permission.WRITE, time.time())
    change_keys(folder / "keys.json", lambda keys: [stored])
    with running_server(folder) as address:
        visit = Visit(browser, address)
        give_key(visit.page.get_by_role("dialog"), key)
        expect(visit.page.get_by_role("heading", name="No pictures yet")).to_be_visible()
        yield visit, key
        visit.close()


def test_a_key_is_asked_for_and_kept_out_of_addresses(browser: Browser, tmp_path: Path) -> None:
    key, stored = create_key("browser", Permission.WRITE, time.time())
    change_keys(tmp_path / "keys.json", lambda keys: [stored])
    with running_server(tmp_path) as address:
        visit = Visit(browser, address)
        asked = list[str]()
        visit.page.on("request", lambda request: asked.append(request.url))
        dialog = visit.page.get_by_role("dialog")
        expect(dialog.get_by_label("API key")).to_be_focused()
        visit.page.keyboard.type("rgd_wrong")
        expect(dialog.get_by_label("API key")).to_have_value("rgd_wrong")
        dialog.get_by_role("button", name="Sign in").click()
        expect(dialog.get_by_role("alert")).not_to_be_empty()
        expect(dialog.get_by_label("API key")).to_have_accessible_description(dialog.get_by_role("alert").inner_text())
        give_key(dialog, broken(key))
        expect(visit.page.get_by_role("heading", name="No pictures yet")).to_be_visible()
        question = query(visit.page)
        expect(question).to_be_focused()
        visit.page.keyboard.type("red")  # which the line takes, without a click into it
        expect(question).to_have_value("red")
        question.fill("")
        drop(visit.page, "[data-drop=add]", RED)
        expect(visit.page.locator("#add").get_by_role("status")).to_have_text("Done: 1 of 1 can be found.")
        shown = visit.page.locator("#main li.card img")
        expect(shown).to_have_count(1)
        assert visit.page.evaluate("document.querySelector('#main li.card img').decode().then(() => true)")
        assert not [url for url in asked if key in url]
        source = shown.get_attribute("src")
        visit.context.clear_cookies()  # as where another tab signed out
        visit.page.reload()
        expect(shown).to_have_count(1)
        assert (
            visit.page.evaluate("(url) => fetch(url, {cache: 'reload'}).then((answer) => answer.status)", source) == 200
        )
        visit.page.get_by_role("button", name="Key…").click()
        dialog.get_by_role("button", name="Sign out").click()
        expect(dialog.get_by_role("heading", name="This service wants a key", exact=True)).to_be_visible()
        expect(dialog).not_to_contain_text("This service wants a key.")  # once is enough
        expect(dialog).to_contain_text("Whoever runs the service makes one with regard keys create.")
        assert visit.page.evaluate("(url) => fetch(url).then((answer) => answer.status)", source) == 401
        expect(dialog.get_by_role("button", name="Sign out")).to_have_count(0)
        visit.close()


def test_a_tab_that_may_only_look_says_so_until_it_is_given_the_key(browser: Browser, tmp_path: Path) -> None:
    with signed_in(browser, tmp_path) as (visit, key):
        expect(visit.page.locator("#viewing")).to_be_hidden()
        tab = visit.context.new_page()  # which has the cookie alone
        tab.goto(visit.address)
        told, dialog = tab.get_by_text("Viewing only; enter your key if it allows more"), tab.get_by_role("dialog")
        expect(told).to_be_visible()
        tab.get_by_role("button", name="Key…").click()
        fields = dialog.locator("input").evaluate_all("all => all.map((one) => one.autocomplete)")
        assert fields == ["username", "current-password"]  # as password managers want them
        assert accessibility_faults(tab) == []
        give_key(dialog, key)
        expect(told).to_be_hidden()
        assert key not in tab.evaluate("JSON.stringify([localStorage, document.cookie, location.href])")


def test_a_key_is_taken_where_the_browser_keeps_nothing(browser: Browser, tmp_path: Path) -> None:
    with signed_in(browser, tmp_path) as (visit, key):
        visit.page.add_init_script("Object.defineProperty(window, 'sessionStorage', {get() { throw Error() }})")
        visit.context.clear_cookies()
        visit.page.reload()
        give_key(visit.page.get_by_role("dialog"), key)
        expect(visit.page.get_by_role("heading", name="No pictures yet")).to_be_visible()


def test_a_key_that_may_only_read_is_offered_no_changes(browser: Browser, tmp_path: Path) -> None:
    keys = {one: create_key(one, one, time.time()) for one in (Permission.READ, Permission.WRITE)}
    change_keys(tmp_path / "keys.json", lambda known: [stored for _, stored in keys.values()])
    with running_server(tmp_path) as address:
        visit = Visit(browser, address)
        page, dialog = visit.page, visit.page.get_by_role("dialog")
        add = page.get_by_role("button", name="Add pictures")

        def sign_in(permission: Permission) -> None:
            give_key(dialog, keys[permission][0])

        sign_in(Permission.READ)
        expect(page.get_by_role("heading", name="No pictures yet")).to_be_visible()
        expect(add).to_have_count(0)
        other = page.get_by_role("button", name="Key…")
        expect(other).to_have_attribute("title", "Signed in as read, which may only view pictures")
        assert accessibility_faults(page) == []
        drop(page, "main", RED, kinds=["dragover"])
        expect(page.get_by_text("Search with this picture")).to_be_visible()
        expect(page.get_by_text("Add to the library")).to_be_hidden()
        drop(page, "#drop", RED)
        expect(page.locator("#status")).to_contain_text("Pictures like red.png.")
        other.click()
        expect(dialog).to_contain_text("Signed in as read, which may only view pictures")
        sign_in(Permission.WRITE)
        expect(add).to_have_count(1)
        expect(other).to_have_attribute("title", "Signed in as write, which may view, add and change pictures")
        page.goto(address)
        deleted = page.get_by_text("Deleted pictures", exact=True)
        deleted.click()
        other.click()
        sign_in(Permission.READ)
        expect(deleted).to_be_hidden()
        asked = list[str]()
        page.on("request", lambda request: asked.append(request.url))
        look_again(page)
        page.evaluate("fetch('/livez')")  # so that what was asked before is known
        assert not [one for one in asked if "deleted=" in one], "a list that needs another key was asked for"
        expect(dialog).to_have_count(0)
        visit.close()


def test_deleted_pictures_are_shown_to_whoever_may_bring_them_back(browser: Browser, tmp_path: Path) -> None:
    with signed_in(browser, tmp_path) as (visit, _):
        page = visit.page
        drop(page, "[data-drop=add]", RED)
        page.locator("#main li.card").get_by_role("button", name=DELETE).click()
        expect(page.locator("#main li.card")).to_contain_text("was deleted")
        page.get_by_text("Deleted pictures", exact=True).click()
        page.locator(".deleted li").scroll_into_view_if_needed()  # had once it comes into sight
        expect(page.locator(".deleted li img")).to_have_js_property("naturalWidth", 64)


def test_pictures_come_back_where_another_tab_signed_out(browser: Browser, tmp_path: Path) -> None:
    with signed_in(browser, tmp_path) as (visit, key):
        page, shown, dialog = visit.page, visit.page.locator("#main li.card img"), visit.page.get_by_role("dialog")
        drop(page, "[data-drop=add]", RED)
        expect(page.locator("#add").get_by_role("status")).to_have_text("Done: 1 of 1 can be found.")
        look_again(page)  # and wait, here and below, since a list that comes later shows the picture as it was
        for is_kept in (True, False):
            if not is_kept:
                page.evaluate("sessionStorage.clear()")
            visit.context.clear_cookies()
            shown.evaluate("(one, round) => (one.src += round)", f"?{is_kept}")  # as one that was not loaded before
            if not is_kept:
                give_key(dialog, key)
            expect(shown).to_have_js_property("naturalWidth", 64)
            look_again(page)


def test_what_is_refused_once_somebody_signed_in_is_asked_again(browser: Browser, tmp_path: Path) -> None:
    with signed_in(browser, tmp_path) as (visit, key):
        page, dialog = visit.page, visit.page.get_by_role("dialog")
        page.evaluate("sessionStorage.setItem('regard-key', 'rgd_old')")
        held = HeldRequests(page, "**/ingest", lambda request: "rgd_old" in str(request.headers))
        drop(page, "[data-drop=add]", RED)
        held.first()
        page.get_by_role("button", name="Key…").click()
        give_key(dialog, key)
        held.first().fulfill(status=401, json={})
        expect(page.locator("#add").get_by_role("status")).to_have_text("Done: 1 of 1 can be found.")


def test_who_signed_in_before_it_was_known_who_looks_is_not_asked_again(browser: Browser, tmp_path: Path) -> None:
    with signed_in(browser, tmp_path) as (visit, key):
        page, dialog = visit.page, visit.page.get_by_role("dialog")
        page.evaluate("sessionStorage.clear()")
        visit.context.clear_cookies()
        held = HeldRequests(page, "**/session", lambda one: one.method == "GET" and "authorization" not in one.headers)
        page.reload()
        nobody = held.first().fetch()
        query(page).fill("red")
        give_key(dialog, key)
        held.first().fulfill(response=nobody)
        expect(page.get_by_label("Model").locator("option")).to_have_text(["fake"])
        expect(dialog).to_have_count(0)
