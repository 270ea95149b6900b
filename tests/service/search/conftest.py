"""Libraries that tests of searching ask."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.library import Library, sixty_four


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A library of 64 pictures, which no test changes."""
    library = sixty_four(tmp_path_factory.mktemp("full"))
    yield library
    library.close()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    """An empty library, which a test fills."""
    with closing(Library(tmp_path)) as library:
        yield library
