"""The API over an empty library, for the tests that begin with no other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.library import Library
from tests.support.web_app import Api, served


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """The web side over a library of its own, whose folder is `tmp_path`."""
    with served(Library(tmp_path)) as api:
        yield api
