"""Tests that start real processes: marked so, and run after all others."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests first: what they find is found without waiting for processes."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("e2e")
    items.sort(key=lambda item: here in item.path.parents)
