"""Libraries that many tests in here search in, and replicas that they write to."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from models.matching.calibration import Calibration
from tests.support.directories import Directory
from tests.support.library import Library
from tests.support.shards import LocalReplica, replica_of
from tests.support.split_collection import LINE, NUM, TEST, fill


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with closing(Library(tmp_path_factory.mktemp("whole"))) as library:
        fill(library, list(range(NUM)))
        library.matcher.calibration = Calibration(text=LINE, image=LINE, text_match=TEST, image_match=TEST)
        yield library


@pytest.fixture
def halves(whole: Library, tmp_path: Path) -> Iterator[list[list[LocalReplica]]]:
    """Two shards with two replicas each."""
    with ExitStack() as stack:
        shards = []
        for shard in range(2):
            library = stack.enter_context(closing(Library(tmp_path / str(shard))))
            fill(library, [number for number in range(NUM) if number % 2 == shard])
            shards.append([stack.enter_context(closing(replica_of(f"{shard}-{n}", library))) for n in range(2)])
        yield shards


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Directory]]:
    """The two replicas of a shard."""
    directories: list[Directory] = []
    with ExitStack() as stack:
        for name in "ab":
            (tmp_path / name).mkdir()
            directories.append(stack.enter_context(closing(Directory(tmp_path / name, directories))))
        yield directories
