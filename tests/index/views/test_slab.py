"""Records of one size: what was appended comes back, damage is named, other processes may look on."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.files import TEMPORARY
from index.views.slab import ALIGNMENT, TAIL, Corrupt, LayoutMismatch, Slab
from tests.support.slab_records import LAYOUT, Records, records, same


def damage(slab: Slab, row: int, content: bytes = b"\xff") -> None:
    with (slab.folder / "records.bin").open("r+b") as file:
        file.seek(row * slab.dtype.itemsize)
        file.write(content)


def test_records_come_back_in_any_order_and_more_than_once(tmp_path: Path) -> None:
    slab, given_records = Slab.open(tmp_path / "new" / "slab", LAYOUT, write=True), records(9)
    slab.append(0, given_records)
    rows = np.array([7, 0, 7, 8, 3])
    same(slab.read(rows), {name: array[rows] for name, array in given_records.items()})
    same(Slab.open(slab.folder, LAYOUT, write=False).read([]), records(0))
    np.testing.assert_array_equal(slab.read(range(2, 6))["label"], given_records["label"][2:6])
    assert len(slab) == 9


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)), max_size=8))
def test_the_last_append_wins_from_its_row_on(
    tmp_path_factory: pytest.TempPathFactory, appends: list[tuple[int, int]]
) -> None:
    slab = Slab.open(tmp_path_factory.mktemp("slab"), LAYOUT, write=True)
    reader = Slab.open(slab.folder, LAYOUT, write=False)
    expected = records(0)
    for seed, (start, count) in enumerate(appends):
        at, new = min(start, len(expected["label"])), records(count, seed)
        slab.append(at, new)
        expected = {name: np.concatenate([array[:at], new[name]]) for name, array in expected.items()}
        committed = len(expected["label"])
        for side in (slab, reader):
            same(side.read(range(committed)), expected)
            assert side.valid_prefix(committed) == committed


def test_records_can_be_looked_at_where_they_lie(tmp_path: Path) -> None:
    slab, given_records = Slab.open(tmp_path, LAYOUT, write=True), records(4)
    assert {len(array) for array in slab.in_place(0).values()} == {0}
    slab.append(0, given_records)
    found = slab.in_place(3)
    same({name: array[:3] for name, array in found.items()}, {name: array[:3] for name, array in given_records.items()})
    for name, array in found.items():
        assert not array.flags.writeable
        assert array.ctypes.data % ALIGNMENT == 0
        assert array.strides[0] == slab.dtype.itemsize
        assert np.shares_memory(array, slab.in_place(4)[name]), "nothing is copied"
    with pytest.raises(IndexError, match="has 4 rows, asked for 5"):
        slab.in_place(5)


def test_reading_fills_the_buffers_given_and_only_those(tmp_path: Path) -> None:
    slab, given_records = Slab.open(tmp_path, LAYOUT, write=True), records(4)
    slab.append(0, given_records)
    buffer = np.full((6, 3, 5), 7, np.float32)
    found = slab.read([2, 1], out={"features": buffer})
    assert found.keys() == {"features"}
    assert np.shares_memory(found["features"], buffer)
    np.testing.assert_array_equal(found["features"], given_records["features"][[2, 1]])
    assert (buffer[2:] == 7).all()
    assert slab.read([0], fields=["mask"]).keys() == {"mask"}


def test_a_copy_read_stays_as_it_was(tmp_path: Path) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    slab.append(0, records(2, seed=1))
    before = slab.read([0, 1])
    slab.append(0, records(2, seed=2))
    same(before, records(2, seed=1))


def test_records_start_at_multiples_of_64_bytes(tmp_path: Path) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    assert slab.dtype.itemsize % ALIGNMENT == 0
    assert all(offset % ALIGNMENT == 0 for _, offset, *_ in slab.dtype.fields.values())  # type: ignore[union-attr]


@pytest.mark.parametrize("rows", [[3], [-1], [0, 5, 1]])
def test_rows_that_are_not_there_are_refused(tmp_path: Path, rows: list[int]) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    slab.append(0, records(3))
    with pytest.raises(IndexError, match=r"rows 0 \.\. 2"):
        slab.read(rows)


def test_a_gap_is_refused(tmp_path: Path) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    slab.append(0, records(3))
    with pytest.raises(Corrupt, match="3 records where 4"):
        slab.append(4, records(1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": np.zeros(2, int)}, "different lengths"),
        ({"mask": np.zeros((3, 4), bool)}, "mask: a record is"),
        ({"other": np.zeros(3)}, "takes the fields"),
    ],
)
def test_records_of_another_shape_are_refused_and_nothing_is_written(
    tmp_path: Path, change: Records, words: str
) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    with pytest.raises(ValueError, match=words):
        slab.append(0, records(3) | change)
    assert len(slab) == 0


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize(
    "other",
    [LAYOUT | {"mask": ((4,), "?")}, LAYOUT | {"label": ((), "i4")}, {"label": ((), "i8")}, LAYOUT | {"x": ((), "i4")}],
)
def test_another_layout_is_refused(tmp_path: Path, other: dict[str, tuple[tuple[int, ...], str]], write: bool) -> None:
    Slab.open(tmp_path, LAYOUT, write=True)
    with pytest.raises(LayoutMismatch, match="holds records of"):
        Slab.open(tmp_path, other, write=write)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"format": 1}', b'{"format": 1, "layout": {"mask": 3}}', b"\xff" * 80]
)
def test_a_damaged_header_is_said_and_made_anew_by_the_writer(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    Slab.open(tmp_path, LAYOUT, write=True).append(0, records(3))
    whole = (tmp_path / "header.json").read_bytes()
    (tmp_path / "header.json").write_bytes(content)
    with pytest.raises(Corrupt, match=r"header\.json is damaged"):
        Slab.open(tmp_path, LAYOUT, write=False)
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    assert slab.valid_prefix(3) == 3
    assert (tmp_path / "header.json").read_bytes() == whole
    assert "it is made anew" in caplog.text


def test_a_reader_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Slab.open(tmp_path / "none", LAYOUT, write=False)
    assert not (tmp_path / "none").exists()


def test_a_killed_writers_temporary_files_are_cleaned(tmp_path: Path) -> None:
    (tmp_path / ("header.json" + TEMPORARY)).write_bytes(b'{"form')
    Slab.open(tmp_path, LAYOUT, write=True).append(0, records(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["header.json", "records.bin"]


@pytest.mark.parametrize("place", [0, 30, 64, 128, 129, 192])
def test_one_changed_byte_is_found_and_its_row_named(tmp_path: Path, place: int) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    slab.append(0, records(3))
    found = slab.folder.joinpath("records.bin").read_bytes()[slab.dtype.itemsize + place]
    with (slab.folder / "records.bin").open("r+b") as file:
        file.seek(slab.dtype.itemsize + place)
        file.write(bytes([found ^ 1]))
    for row in (0, 2):
        slab.check(row)
    with pytest.raises(Corrupt, match="row 1 "):
        slab.check(1)


def test_what_is_left_of_a_damaged_tail(tmp_path: Path) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    slab.append(0, records(20))
    size = slab.dtype.itemsize
    assert (slab.valid_prefix(20), slab.valid_prefix(7), slab.valid_prefix(0)) == (20, 7, 0)
    damage(slab, 17, bytes(3 * size))  # zeros to the end, as file systems leave after a power cut
    assert slab.valid_prefix(20) == 17
    damage(slab, 12)
    assert slab.valid_prefix(20) == 12
    with (slab.folder / "records.bin").open("r+b") as file:
        file.truncate(5 * size + size // 2)
    reader = Slab.open(tmp_path, LAYOUT, write=False)
    assert (len(reader), reader.valid_prefix(20)) == (5, 5)
    with pytest.raises(Corrupt, match="row 5 is missing"):
        reader.check(5)


def test_a_long_damaged_tail_is_followed_to_its_start(tmp_path: Path) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    count = 3 * TAIL
    slab.append(0, records(count))
    damage(slab, 10, bytes((count - 10) * slab.dtype.itemsize))
    assert slab.valid_prefix(count) == 10


def test_a_torn_record_is_overwritten(tmp_path: Path) -> None:
    slab = Slab.open(tmp_path, LAYOUT, write=True)
    slab.append(0, records(3, seed=1))
    with (slab.folder / "records.bin").open("r+b") as file:
        file.truncate(2 * slab.dtype.itemsize + 50)
    slab.append(2, records(2, seed=2))
    assert slab.valid_prefix(4) == len(slab) == 4
    np.testing.assert_array_equal(slab.read(range(2, 4))["label"], records(2, seed=2)["label"])


READER = """
import sys, pathlib
from index.views.slab import Slab
slab = Slab.open(pathlib.Path(sys.argv[1]), {"label": ((), "i8")}, write=False)
for line in sys.stdin:
    print(int(slab.read(range(int(line)))["label"].sum()), flush=True)
"""


def test_a_reader_in_another_process_sees_the_file_grow(tmp_path: Path) -> None:
    slab = Slab.open(tmp_path, {"label": ((), "i8")}, write=True)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for count in (1, 2, 3, 300, 40):
            slab.append(0, {"label": np.arange(count)})
            reader.stdin.write(f"{count}\n")
            reader.stdin.flush()
            assert int(reader.stdout.readline()) == sum(range(count))
        reader.stdin.close()
        assert reader.wait() == 0
