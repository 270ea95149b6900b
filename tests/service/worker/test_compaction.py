"""Compaction overwrites what is left of erased pictures, and nothing of the others."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index import files
from index.catalog.database import connection
from index.catalog.filters import Filter
from index.catalog.text.search import TextSearch
from index.lock import Locked
from index.records import PictureChange
from index.views import ragged as ragged_slabs
from index.views import view as views
from index.views.ragged import RaggedSlab
from index.views.shortlist import Floats, Part, inverted_part
from index.views.slab import Corrupt, Slab
from index.views.view import View
from service.errors import UserError
from service.storage.verification import find_damage
from service.worker.maintenance import compaction
from service.worker.maintenance.compaction import compact_data_dir
from tests.support.fakes import COLOURS
from tests.support.pictures import encoded
from tests.support.slab_records import LAYOUT, records
from tests.support.small_views import embedding_of
from tests.support.worker_store import NOW, Store, noise

NUM = 6
GRACE_S = 50.0
NAMES = [name for name in COLOURS if any(COLOURS[name])]  # words that a model finds something in


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Six pictures in a view; the second and the last deleted long ago, the fifth a moment ago."""
    made = Store(tmp_path)
    ids = [
        made.accept(encoded(noise(seed), "PNG"), captions=[NAMES[seed], f"{NAMES[seed]} white"]) for seed in range(NUM)
    ]
    made.drain()
    for number, when in ((1, 100), (NUM - 1, 100), (4, 10)):
        made.catalog.delete(ids[number], NOW - when)
    made.catalog.change(ids[0], PictureChange(captions=["blue cyan"]))
    made.drain()
    yield made
    made.catalog.close()


def compact(store: Store) -> tuple[int, int]:
    result = compact_data_dir(store.folder, GRACE_S, clock=lambda: NOW)
    return result.records, result.view_rows


@pytest.mark.parametrize("punching", [True, False])
def test_what_is_erased_is_zeros_and_the_rest_as_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch, punching: bool
) -> None:
    if not punching:
        monkeypatch.setattr(files, "punch_hole", lambda *_: False)
    kept, view_folder = [0, 2, 3, 4], store.folder / "views" / "fake-matcher"
    with closing(store.slab()) as slab, closing(View(view_folder)) as view:
        before = slab.read(kept)
        seen = view.snapshot().read_images(kept)
        words = {slot: view.snapshot().read_captions([slot])[0] for slot in (4, 5, 12)}
    size = (store.folder / "regions" / "records.bin").stat().st_size
    assert compact(store) == (2, 2 + 6)  # two pictures; their four captions, and the two taken from the first one
    assert (store.folder / "regions" / "records.bin").stat().st_size == size
    with closing(store.slab()) as slab, closing(View(view_folder)) as view:
        for row in range(NUM):
            slab.check(row)
        gone = slab.read([1, NUM - 1])
        assert not any(array.any() for array in gone.values())
        for name, array in slab.read(kept).items():
            np.testing.assert_array_equal(array, before[name])
        snapshot = view.snapshot()
        assert snapshot.counts == (NUM, 13)
        for name, array in snapshot.read_images(kept).items():
            np.testing.assert_array_equal(array, seen[name])
        assert not snapshot.read_images([1])["vectors"].any()
        assert not embedding_of(snapshot, 1).any()
        assert not snapshot.read_captions([0])[0].any()
        for slot, vectors in words.items():
            np.testing.assert_array_equal(snapshot.read_captions([slot])[0], vectors)
    assert list(find_damage(store.folder)) == []
    assert compact(store) == (0, 0)


def test_it_says_so_where_files_may_not_be_removed_yet(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "REMOVAL_PATIENCE_S", 0.0)
    with store.originals.adding(), pytest.raises(UserError, match="run this command again"):
        compact(store)
    assert compact(store) == (2, 2 + 6)


def test_the_worker_goes_on_after_it(store: Store) -> None:
    compact(store)
    added = store.accept(encoded(noise(50), "PNG"), captions=["new"])
    store.drain()
    assert store.image(added).slot == NUM
    assert store.catalog.visible().tolist() == [True, False, True, True, False, False, True]
    assert list(find_damage(store.folder)) == []


def test_no_text_of_what_was_erased_is_left_in_the_catalogs_files(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(TextSearch, "rebuild")  # which nobody could change the catalog beside
    secret = store.accept(encoded(noise(60), "PNG"), captions=["a very private sentence"])
    store.drain()
    store.catalog.delete(secret, NOW - 100)
    compact(store)
    for path in store.folder.glob("catalog.sqlite*"):
        assert b"very private" not in path.read_bytes()


def test_no_index_keeps_the_code_of_an_erased_picture(store: Store) -> None:
    folder = store.folder / "views" / "fake-matcher"
    with closing(View(folder, ivf_from=1)) as view:
        assert view.build_index()
    assert list(folder.rglob("*.faiss"))
    assert compact(store) == (2, 2 + 6)
    assert list(folder.rglob("*.faiss")) == []


def test_an_index_that_is_built_across_a_compaction_keeps_no_code_either(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, build, compacted = store.folder / "views" / "fake-matcher", inverted_part, list[tuple[int, int]]()

    def slow(exact: Floats) -> Part:
        part = build(exact)
        if not compacted:
            compacted.append(compact(store))
        return part

    monkeypatch.setattr(views, "inverted_part", slow)
    with closing(View(folder, ivf_from=1)) as view:
        assert not view.build_index()
        assert list(folder.rglob("*.faiss")) == []
        assert view.build_index()  # of the rows as they are now
        (part,) = view.snapshot().images.parts
        part.index.make_direct_map()
        assert compacted == [(2, 2 + 6)]
        assert not part.vectors()[1].any()
        np.testing.assert_allclose(part.index.reconstruct(1), 0, atol=0.01)  # a byte a number


def test_a_compaction_after_a_killed_one_leaves_no_code_and_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.folder / "views" / "fake-matcher"
    with closing(View(folder, ivf_from=1)) as view:
        assert view.build_index()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compaction, "remove_shortlists", killed)
        with pytest.raises(KeyboardInterrupt):
            compact(store)
    with monkeypatch.context() as patch:
        patch.setattr(Slab, "overwrite", killed)
        with pytest.raises(KeyboardInterrupt):
            compact(store)
    assert list(folder.rglob("*.faiss")) == []
    assert list(find_damage(store.folder)) != []
    assert compact(store) == (0, 6)
    assert list(find_damage(store.folder)) == []
    with closing(View(folder, ivf_from=1)) as view:
        assert view.build_index()
    compact(store)  # as if the one before had been killed once rows were overwritten
    assert list(folder.rglob("*.faiss")) == []


def test_an_index_of_words_that_is_damaged_is_made_anew(store: Store) -> None:
    def found() -> list[str]:
        return [match.image.image_id for match in store.catalog.texts.matches("white", 9, Filter())]

    before = found()
    with closing(sqlite3.connect(store.folder / "catalog.sqlite")) as database, database:
        for number, block in database.execute("SELECT id, block FROM texts_data").fetchall():
            changed = block.replace(b"white", b"whine")
            database.execute("UPDATE texts_data SET block = ? WHERE id = ?", [changed, number])
    assert "the index of words is damaged" in next(find_damage(store.folder))
    compact(store)
    assert list(find_damage(store.folder)) == []
    assert found() == before != []


def test_it_says_so_where_a_view_cannot_be_read_and_goes_on_with_the_others(store: Store) -> None:
    damaged = store.folder / "views" / "a damaged one"
    damaged.mkdir()
    (damaged / "manifest.json").write_bytes(bytes(100))
    half_removed = store.folder / "views" / "half a view"  # as a kill leaves one
    half_removed.mkdir()
    shutil.copy(store.folder / "views" / "fake-matcher" / "manifest.json", half_removed)
    secret = store.accept(encoded(noise(60), "PNG"), captions=["a very private sentence"])
    store.drain()
    store.catalog.delete(secret, NOW - 100)
    with pytest.raises(UserError, match=r"a damaged one cannot be read.*half a view.* missing"):
        compact(store)
    for path in store.folder.glob("catalog.sqlite*"):
        assert b"very private" not in path.read_bytes()
    shutil.rmtree(damaged)
    shutil.rmtree(half_removed)
    assert compact(store) == (0, 0), "all else was done"


def test_it_says_so_where_another_program_keeps_the_log(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.2)
    with closing(sqlite3.connect(store.folder / "catalog.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM images").fetchone()
        with pytest.raises(UserError, match="log cannot be emptied"):
            compact(store)
    assert compact(store) == (0, 0)
    assert (store.folder / "catalog.sqlite-wal").stat().st_size == 0


def test_it_does_not_run_beside_a_worker(store: Store) -> None:
    with store.worker(), pytest.raises(Locked, match="already written by"):
        compact(store)


@pytest.mark.kernel
def test_a_hole_takes_no_room_where_the_file_system_can(tmp_path: Path) -> None:
    layout = {"features": ((64, 1024), "f2")}
    with closing(Slab.open(tmp_path / "slab", layout, write=True)) as slab:
        slab.append(0, {"features": np.ones((4, 64, 1024), np.float16)})
        path = tmp_path / "slab" / "records.bin"
        before = path.stat().st_blocks
        assert slab.blank([1, 2]) == 2
        with path.open("r+b") as file:
            if not files.punch_hole(file.fileno(), 0, 0) and path.stat().st_blocks == before:
                pytest.skip("this file system has no holes")
        assert path.stat().st_blocks < before * 0.6
        assert slab.blank([0, 1, 2]) == 1


def test_rows_of_both_kinds_of_slab_are_blanked_once(tmp_path: Path) -> None:
    with closing(Slab.open(tmp_path / "slab", LAYOUT, write=True)) as slab:
        slab.append(0, records(5))
        assert (slab.blank([4, 0]), slab.blank([0, 4]), slab.blank([])) == (2, 0, 0)
        assert slab.valid_prefix(5) == 5
    with closing(RaggedSlab(tmp_path / "ragged", 3, write=True)) as ragged:
        ragged.append(0, [np.full((length, 3), 1 + length) for length in (0, 2, 5)])
        assert (ragged.blank([0, 1]), ragged.blank([1])) == (1, 0)
        assert [array.tolist() for array in ragged.read([1, 2])] == [[[0.0] * 3] * 2, [[6.0] * 3] * 5]
        assert ragged.valid_prefix(3) == 3


def test_a_blanking_that_was_killed_is_ended_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(RaggedSlab(tmp_path / "ragged", 3, write=True)) as ragged:
        ragged.append(0, [np.full((length, 3), 1 + length) for length in (1, 2, 5)])
        with monkeypatch.context() as patch:
            patch.setattr(ragged_slabs, "reach", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                ragged.blank([0, 1])
        assert ragged.valid_prefix(3) == 0
        assert (ragged.blank([1, 0]), ragged.blank([0, 1])) == (2, 0)
        assert ragged.valid_prefix(3) == 3
        assert [array.any() for array in ragged.read([0, 1, 2])] == [False, False, True]


def test_words_behind_a_damaged_place_are_not_overwritten(tmp_path: Path) -> None:
    with closing(RaggedSlab(tmp_path, 3, write=True)) as ragged:
        ragged.append(0, [np.ones((2, 3)), np.ones((2, 3))])
        with (tmp_path / "records.bin").open("r+b") as file:
            file.write(np.int64(64).tobytes())
        with pytest.raises(Corrupt, match="row 0"):
            ragged.blank([0])
        ragged.check(1)
