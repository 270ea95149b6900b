"""What is kept of a version is read once, answers for that version alone, and is never older than what is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.search.version_cache import VersionCache


class Reads:
    """Gives every key but 0 its negative, and notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __call__(self, keys: list[int]) -> dict[int, int]:
        self.asked.append(keys)
        return {key: -key for key in keys if key}


def test_what_is_kept_is_not_read_again() -> None:
    cache, read = VersionCache[int, int](10), Reads()
    assert cache.get_or_read(1, [1, 2], read) == {1: -1, 2: -2}
    assert cache.get_or_read(1, [2, 3], read) == {2: -2, 3: -3}
    assert cache.get_or_read(1, [3, 1], read) == {3: -3, 1: -1}
    assert read.asked == [[1, 2], [3]]


def test_a_single_value_is_read_once_a_version() -> None:
    cache, values = VersionCache[str, int](10), iter([5, 6])
    found = [cache.get_or_read_one(version, "only", lambda: next(values)) for version in (1, 1, 2, 2)]
    assert found == [5, 5, 6, 6]


def test_what_is_not_there_is_asked_for_again() -> None:
    cache, read = VersionCache[int, int](10), Reads()
    assert cache.get_or_read(1, [0], read) == {}
    assert cache.get_or_read(1, [0], read) == {}
    assert read.asked == [[0], [0]]


def test_a_newer_version_is_read_anew() -> None:
    cache, read = VersionCache[int, int](10), Reads()
    for version in (1, 2, 1, 2):
        cache.get_or_read(version, [5], read)
    assert len(read.asked) == 2  # what is kept may be newer than what is asked for


def test_an_older_version_replaces_nothing() -> None:
    cache, read = VersionCache[int, int](10), Reads()
    cache.get_or_read(2, [5], read)
    cache.get_or_read(1, [6], read)
    cache.get_or_read(2, [6], read)
    assert read.asked == [[5], [6], [6]]


def test_the_entries_used_last_are_kept() -> None:
    cache, read = VersionCache[int, int](2), Reads()
    for key in (1, 2, 1, 3, 1, 2):
        cache.get_or_read(1, [key], read)
    assert read.asked == [[1], [2], [3], [2]]


def test_sizes_are_counted() -> None:
    cache, read = VersionCache[int, int](10, abs), Reads()
    for key in (4, 5, 6, 4, 20, 6):
        cache.get_or_read(1, [key], read)
    assert read.asked == [[4], [5], [6], [4], [20], [6]]  # 4 and 5 went for 6; 20, which has no room, took all along
    cache.get_or_read(1, [6], read)
    assert len(read.asked) == 6


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(1, 5), max_size=4)), max_size=30), st.integers(1, 4))
def test_a_value_is_never_older_than_the_version_asked_for(questions: list[tuple[int, list[int]]], most: int) -> None:
    cache, now = VersionCache[int, int](most), [0]
    for version, keys in questions:
        now.append(max(now[-1], version))
        found = cache.get_or_read(version, keys, lambda missing: dict.fromkeys(missing, now[-1]))
        assert set(found) == set(keys)
        assert all(version <= value <= now[-1] for value in found.values())


def test_a_fault_in_reading_keeps_nothing() -> None:
    cache, read = VersionCache[int, int](10), Reads()

    def fail(keys: list[int]) -> dict[int, int]:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        cache.get_or_read(1, [1], fail)
    assert cache.get_or_read(1, [1], read) == {1: -1}
