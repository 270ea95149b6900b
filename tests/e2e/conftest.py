"""Tests that start real processes: marked so, and run after all others. A browser for those of the page."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.running_server import running_server

if TYPE_CHECKING:  # other tests do without the browser's packages
    from playwright.sync_api import Browser

    from tests.e2e.browser import Visit


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests first: what they find is found without waiting for processes."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("e2e")
    items.sort(key=lambda item: here in item.path.parents)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A browser for the tests of a module."""
    from tests.e2e.browser import chromium  # noqa: PLC0415 - see above

    with chromium() as started:
        yield started


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A service of each test's own, with a captioned picture of each of the module's COLOURS."""
    from tests.e2e.browser import send_captioned  # noqa: PLC0415 - see above

    with running_server(tmp_path) as url:
        send_captioned(url, request.module.COLOURS)
        yield url


@pytest.fixture
def browser_context_args() -> dict[str, Any]:
    """Options of the context that `visit` opens: none, where a module has no others."""
    return {}


@pytest.fixture
def visit(
    request: pytest.FixtureRequest, browser: "Browser", address: str, browser_context_args: dict[str, Any]
) -> "Iterator[Visit]":
    """The page of the fixture `address`, this one or the module's own, in a fresh context; with its options shown
    where the module says OPTIONS_OPEN."""
    from tests.e2e.browser import Visit  # noqa: PLC0415 - see above

    begun = Visit(browser, address, getattr(request.module, "OPTIONS_OPEN", False), **browser_context_args)
    yield begun
    begun.close()


@pytest.fixture
def all_shown(request: pytest.FixtureRequest, visit: "Visit") -> None:
    """Wait until the page shows a picture of each of the module's COLOURS."""
    from playwright.sync_api import expect  # noqa: PLC0415 - see above

    expect(visit.page.locator("#main li.card")).to_have_count(len(request.module.COLOURS))
