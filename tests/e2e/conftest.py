"""Tests that start real processes: marked so, and run after all others. A browser for those of the page."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
def visit(browser: "Browser", address: str) -> "Iterator[Visit]":
    """The page of the module's fixture `address`, in a fresh context."""
    from tests.e2e.browser import Visit  # noqa: PLC0415 - see above

    begun = Visit(browser, address)
    yield begun
    begun.close()
