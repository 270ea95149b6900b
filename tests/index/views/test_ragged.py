"""Arrays of differing length: what was appended comes back, damage is named."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.views.ragged import RaggedSlab
from index.views.slab import Corrupt, DamagedRow, LayoutMismatch

WIDTH = 6
Half = npt.NDArray[np.float16]


def arrays(lengths: list[int], seed: int = 0) -> list[Half]:
    """Arrays of these lengths that no two seeds share."""
    random = np.random.default_rng(seed)
    return [random.normal(size=(length, WIDTH)).astype(np.float16) for length in lengths]


def same(found: list[Half], expected: list[Half]) -> None:
    assert [array.shape for array in found] == [array.shape for array in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float16
        np.testing.assert_array_equal(one, other)


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 20), max_size=5)), max_size=8))
def test_the_last_append_wins_from_its_row_on(
    tmp_path_factory: pytest.TempPathFactory, appends: list[tuple[int, list[int]]]
) -> None:
    slab = RaggedSlab(tmp_path_factory.mktemp("ragged"), WIDTH, write=True)
    reader = RaggedSlab(slab.folder, WIDTH, write=False)
    expected: list[Half] = []
    for seed, (start, lengths) in enumerate(appends):
        at, new = min(start, len(expected)), arrays(lengths, seed)
        slab.append(at, new)
        expected = expected[:at] + new
        for side in (slab, reader):
            same(side.read(range(len(expected))), expected)
            assert side.valid_prefix(len(expected)) == len(expected)


def test_rows_come_in_any_order_and_are_copies(tmp_path: Path) -> None:
    slab, words = RaggedSlab(tmp_path, WIDTH, write=True), arrays([4, 1, 9, 30])
    slab.append(0, words)
    found = slab.read([3, 0, 3])
    same(found, [words[3], words[0], words[3]])
    found[0][:] = 0
    same(slab.read([3]), [words[3]])
    for rows in ([4], [-1]):
        with pytest.raises(IndexError):
            slab.read(rows)


def test_arrays_of_another_width_are_refused(tmp_path: Path) -> None:
    slab = RaggedSlab(tmp_path, WIDTH, write=True)
    with pytest.raises(ValueError, match=r"takes arrays \[n, 6\]"):
        slab.append(0, [np.zeros((3, WIDTH + 1))])
    with pytest.raises(Corrupt, match="0 records where 1"):
        slab.append(1, arrays([3]))
    assert len(slab) == 0
    with pytest.raises(LayoutMismatch):
        RaggedSlab(tmp_path, WIDTH + 1, write=True)


def test_what_is_left_of_a_damaged_tail(tmp_path: Path) -> None:
    slab, words = RaggedSlab(tmp_path, WIDTH, write=True), arrays([8] * 10)
    slab.append(0, words)
    record = 128  # 8 rows of 6 halves are 96 bytes
    with (tmp_path / "words.bin").open("r+b") as file:
        file.seek(7 * record)
        file.write(bytes(3 * record))
    assert slab.valid_prefix(10) == 7
    with pytest.raises(Corrupt, match="words of row 8"):
        slab.check(8)
    cut(tmp_path / "words.bin", 4 * record + 10)
    reader = RaggedSlab(tmp_path, WIDTH, write=False)
    assert reader.valid_prefix(10) == 4
    with pytest.raises(Corrupt, match="past the end"):
        reader.check(4)
    cut(tmp_path / "records.bin", 64)
    assert len(slab) == 0
    assert slab.valid_prefix(10) == 0


def test_words_lost_behind_a_count_are_written_again(tmp_path: Path) -> None:
    slab = RaggedSlab(tmp_path, WIDTH, write=True)
    slab.append(0, arrays([3, 5, 2], seed=1))
    cut(tmp_path / "words.bin", 70)
    left = slab.valid_prefix(3)
    assert left == 1
    again = arrays([4, 4], seed=2)
    slab.append(left, again)
    same(slab.read([0, 1, 2]), [arrays([3, 5, 2], seed=1)[0], *again])


def test_a_row_is_not_written_behind_a_damaged_one_and_no_row_of_pictures_is_blamed(tmp_path: Path) -> None:
    slab = RaggedSlab(tmp_path, WIDTH, write=True)
    slab.append(0, arrays([3, 5]))
    with (tmp_path / "records.bin").open("r+b") as file:
        file.seek(-64, 2)
        file.write(b"damaged!")
    with pytest.raises(Corrupt, match="row 1 does not match") as found:
        slab.append(2, arrays([4]))
    assert not isinstance(found.value, DamagedRow)
