"""Debian's chromium, driven by playwright: pages that reach nothing but the service they are of."""

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, Request, Route, expect, sync_playwright

from tests.support import patient
from tests.support.library import two_coloured
from tests.support.processes import wait_until
from tests.support.web_app import png

SERIOUS = {"serious", "critical"}

DELETE = re.compile(r"^Delete\b")  # the button's name; that of "Undo" tells what "was deleted"

LOOKED_AT_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"  # the page's tab

TIMEOUT_MS = 120_000  # so that on a busy machine, too, only what never comes is missed

# What is typed does not rest by itself, as it does after three seconds, which a busy machine may take for two letters.
NEVER_SETTLED = """
() => {
  const set = window.setTimeout;
  window.setTimeout = (work, pause, ...given) => (pause === 3000 ? 0 : set(work, pause, ...given));
}
"""

expect.set_options(timeout=TIMEOUT_MS)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window, until the block ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A fresh context at a service, and what went wrong in it: requests to elsewhere, faults of the page."""

    def __init__(self, browser: Browser, address: str, options_open: bool = False, **options: Any) -> None:
        """`options` are those of a context, such as its width; `options_open`: those of the page are shown."""
        self.address = address
        self.elsewhere: list[str] = []
        self.faults: list[str] = []
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(TIMEOUT_MS)
        self.context.route("**/*", self._refuse_elsewhere)
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        self.page.on("console", self._note)
        self.page.goto(address)
        if options_open:
            self.open_options()

    def open_options(self) -> None:
        """Show the page's options, which stay so until they are folded away."""
        options = self.page.get_by_role("button", name="Options")
        expect(options).to_have_attribute("aria-expanded", "false")
        options.click()

    def _refuse_elsewhere(self, route: Route) -> None:
        if urlsplit(route.request.url).netloc == urlsplit(self.address).netloc:
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()

    def _note(self, message: Any) -> None:
        if "Content Security Policy" in message.text:
            self.faults.append(message.text)

    def close(self) -> None:
        """End it; AssertionError where something went wrong meanwhile."""
        self.context.close()
        assert self.elsewhere == []
        assert self.faults == []


class HeldRequests:
    """The requests of a page that match a pattern, each of which waits until the test lets it go."""

    def __init__(
        self, page: Page, pattern: str | re.Pattern[str], wanted: Callable[[Request], bool] = lambda _: True
    ) -> None:
        """`wanted` says which of those that match are held."""
        self._page, self._pattern, self._wanted = page, pattern, wanted
        self.routes: list[Route] = []
        page.route(pattern, self._hold)

    def _hold(self, route: Route) -> None:
        if self._wanted(route.request):
            self.routes.append(route)
        else:
            route.fallback()

    def first(self, wanted: Callable[[Request], bool] = lambda _: True) -> Route:
        """The first that is as wanted, once it is held: playwright tells of a request before it can be."""
        for _ in range(TIMEOUT_MS // 20):
            found = next((route for route in self.routes if wanted(route.request)), None)
            if found is not None:
                return found
            self._page.wait_for_timeout(20)
        raise AssertionError(f"no request of {self._pattern} in {TIMEOUT_MS} ms")

    def let_go(self) -> None:
        """Send what is held, and hold nothing that comes from now on."""
        self._page.unroute(self._pattern, self._hold)
        for route in self.routes:
            with suppress(Error):  # the page has given it up
                route.continue_()


def accessibility_faults(page: Page) -> list[str]:
    """Serious faults that axe-core finds, as `rule: element`, once no late answer dims the page."""
    expect(page.locator("#main.late")).to_have_count(0)
    found = Axe().run(page)
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in found.response["violations"]
        if rule["impact"] in SERIOUS
        for node in rule["nodes"]
    ]


def search(page: Page, sentence: str) -> dict[str, Any]:
    """The answer to what is typed, once its pictures are shown: others than those that were there before."""
    page.evaluate("document.querySelectorAll('#main > *').forEach((one) => one.setAttribute('data-before', ''))")
    with page.expect_response("**/search/text") as answered:
        query(page).fill(sentence)
    answer: dict[str, Any] = answered.value.json()
    first = answer["results"][0]["image_id"]
    page.locator(f"#main > :not([data-before]) li.card[data-image='{first}']").first.wait_for()
    return answer


def query(page: Page) -> Locator:
    """The line that a sentence is written in."""
    return page.get_by_label("What do the pictures show?")


def cards(page: Page) -> Locator:
    """The pictures shown."""
    return page.locator("#main li.card")


def open_large(page: Page, title: str) -> Locator:
    """Press the picture of this title; the dialog that shows it."""
    page.locator("#main li.card", has_text=title).locator(".picture").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", level=2)).to_have_text(title)
    return dialog


def drop(page: Page, target: str, *files: tuple[str, str, bytes], kinds: Sequence[str] = ("dragover", "drop")) -> None:
    """Drop files of (name, type, content) on an element; with `kinds` only some of that happens to it."""
    page.evaluate(
        """([target, files, kinds]) => {
          const transfer = new DataTransfer();
          for (const [name, type, content] of files)
            transfer.items.add(new File([Uint8Array.from(atob(content), (one) => one.charCodeAt(0))], name, { type }));
          for (const kind of kinds)
            document.querySelector(target).dispatchEvent(
              new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }""",
        [target, [(name, kind, base64.b64encode(content).decode()) for name, kind, content in files], list(kinds)],
    )


def asked_by(request: Request) -> dict[str, Any]:
    """The JSON that a request sends; AssertionError where it sends none."""
    sent: dict[str, Any] | None = request.post_data_json
    assert sent is not None
    return sent


def send(address: str, name: str, content: bytes, about: dict[str, Any] | None = None) -> None:
    """Ingest one file and wait until it can be found."""
    _send_all(address, [(name, content, about)])


def send_captioned(address: str, colours: Iterable[str]) -> None:
    """Ingest a picture of each colour beside white, with the caption `all COLOUR`."""
    drawn = {colour: png(two_coloured(colour, "white", 64, 48)) for colour in colours}
    _send_all(address, [(f"{colour}.png", file, {"captions": [f"all {colour}"]}) for colour, file in drawn.items()])


def _send_all(address: str, files: Iterable[tuple[str, bytes, dict[str, Any] | None]]) -> None:
    """Ingest files one after the other, with what is said about each, and wait until all can be found."""
    with patient.client(base_url=address) as http:
        receipts = []
        for name, content, about in files:
            form = {"manifest": json.dumps({name: about})} if about else {}
            answer = http.post("/ingest", files={"images": (name, content)}, data=form)
            receipts.append(answer.raise_for_status().json())

        def is_done(url: str) -> bool:
            return bool(http.get(url).json()["state"] == "done")

        for receipt in receipts:
            wait_until(partial(is_done, receipt["status_url"]))
