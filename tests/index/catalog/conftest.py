"""An empty catalog for each test."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog


@pytest.fixture(name="catalog")
def an_empty_catalog(tmp_path: Path) -> Iterator[Catalog]:
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        yield catalog
