"""The store that most tests of the worker begin with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.worker_store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    made = Store(tmp_path)
    yield made
    made.catalog.close()
