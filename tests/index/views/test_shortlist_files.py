"""Indexes of shortlists beside their view: opened without training, and never trusted when they do not check."""

import json
import shutil
import threading
import zlib
from pathlib import Path

import faiss
import numpy as np
import pytest

from index.views import view as views
from index.views import view_manifest
from index.views.shortlist import Floats, Part, Shortlist, inverted_part
from index.views.shortlist_files import load_part, one_builder, save_part
from index.views.view import View
from tests.support.small_views import EMBED, build, check, images

IVF_FROM = 64


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of rows that indexes were built of, in the order of building."""
    trained: list[int] = []

    def noted(exact: Floats) -> Part:
        trained.append(len(exact))
        return inverted_part(exact)

    monkeypatch.setattr(views, "inverted_part", noted)
    return trained


def opened(folder: Path) -> View:
    """The view, with what is due built."""
    view = View(folder, IVF_FROM)
    view.build_index()
    return view


def searched(view: View) -> list[int]:
    """Rows of the images in the order of a search that looks at all."""
    count = view.snapshot().counts.images
    _, rows = view.snapshot().images.search(np.ones((1, EMBED), np.float32), count)
    return [int(row) for row in rows[0]]


def test_a_view_opened_again_is_not_trained_again(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    first = opened(tmp_path)
    assert trainings == [100]
    again = View(tmp_path, IVF_FROM)
    assert again.snapshot().images.parts[0].exact is not None
    assert not again.build_index()
    assert trainings == [100]
    assert sorted(searched(again)) == list(range(100))
    assert searched(again) == searched(first)


def test_opening_and_refreshing_train_nothing(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    view = View(tmp_path, IVF_FROM)
    build(tmp_path, 300, 3)
    view.refresh()
    check(view.snapshot(), 300, 3)  # every row, searched exactly
    assert not trainings


def test_many_new_rows_are_merged_into_a_new_index_that_is_stored_too(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    view = opened(tmp_path)
    build(tmp_path, 180, 3)
    view.refresh()
    assert [len(part) for part in view.snapshot().images.parts] == [100, 80]
    assert view.build_index()
    assert trainings == [100, 180]
    again = opened(tmp_path)
    assert trainings == [100, 180]
    assert [len(part) for part in again.snapshot().images.parts] == [180]
    assert sorted(searched(again)) == list(range(180))


def test_rows_newer_than_the_stored_index_are_added_to_it(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    opened(tmp_path)
    build(tmp_path, 105, 3)
    again = opened(tmp_path)
    assert trainings == [100]
    check_counts(again, 105)


def test_an_index_that_another_process_built_is_taken(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    view = View(tmp_path, IVF_FROM)
    opened(tmp_path)
    assert view.build_index()
    assert trainings == [100]
    assert [len(part) for part in view.snapshot().images.parts] == [100]
    check_counts(view, 100)


def check_counts(view: View, count: int) -> None:
    assert view.snapshot().counts.images == count
    assert sorted(searched(view)) == list(range(count))


def test_searches_and_refreshes_go_on_while_an_index_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    building, go = threading.Event(), threading.Event()

    def slowly(exact: Floats) -> Part:
        building.set()
        assert go.wait(30)
        return inverted_part(exact)

    monkeypatch.setattr(views, "inverted_part", slowly)
    build(tmp_path, 60, 3)
    view = View(tmp_path, IVF_FROM)
    assert not view.build_index()
    build(tmp_path, 64, 3)  # the size is crossed
    view.refresh()
    thread = threading.Thread(target=view.build_index)
    thread.start()
    assert building.wait(30)
    check(view.snapshot(), 64, 3)
    build(tmp_path, 70, 4)
    assert view.refresh()
    check(view.snapshot(), 70, 4)
    go.set()
    thread.join()
    assert [len(part) for part in view.snapshot().images.parts] == [64, 6]
    check_counts(view, 70)


def test_an_index_of_rows_that_were_cut_back_while_it_was_built_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = build(tmp_path, 100, 3)
    view = View(tmp_path, IVF_FROM)

    def meanwhile(exact: Floats) -> Part:
        writer.cut_back(70, 3)
        view.refresh()
        return inverted_part(exact)

    monkeypatch.setattr(views, "inverted_part", meanwhile)
    assert view.build_index()
    check(view.snapshot(), 70, 3)
    monkeypatch.setattr(views, "inverted_part", inverted_part)
    assert view.build_index()  # still due
    assert [len(part) for part in view.snapshot().images.parts] == [70]
    check_counts(view, 70)


def test_an_index_is_mapped_and_lives_on_when_it_is_replaced_or_removed(tmp_path: Path) -> None:
    build(tmp_path, 100, 3)
    view = opened(tmp_path)
    content = tmp_path / "shortlists" / "images.faiss"
    assert str(content) in Path("/proc/self/maps").read_text()
    before = searched(view)
    content.with_suffix(".new").write_bytes(bytes(content.stat().st_size))
    content.with_suffix(".new").replace(content)
    assert searched(view) == before
    content.unlink()
    assert searched(view) == before


@pytest.mark.parametrize("damage", ["cut", "changed", "no index", "no description", "empty description", "a list"])
def test_a_stored_index_that_does_not_check_is_built_anew(tmp_path: Path, trainings: list[int], damage: str) -> None:
    build(tmp_path, 100, 3)
    opened(tmp_path)
    index, description = (tmp_path / "shortlists" / f"images.{kind}" for kind in ("faiss", "json"))
    content = index.read_bytes()
    index.unlink()  # its pages are those of the view that is open
    match damage:
        case "cut":
            index.write_bytes(content[:-7])
        case "changed":
            index.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
        case "no index":
            pass
        case "no description":
            description.unlink()
        case "empty description":
            description.write_bytes(b"")
        case "a list":
            description.write_bytes(b"[]")
    check_counts(View(tmp_path, IVF_FROM), 100)
    assert trainings == [100]
    check_counts(opened(tmp_path), 100)
    assert trainings == [100, 100]
    check_counts(opened(tmp_path), 100)  # it was stored again
    assert trainings == [100, 100]


@pytest.mark.parametrize("change", [{"format": 1, "trained_on": 100}, {"dim": EMBED + 1}, {"rows": 101}])
def test_an_index_of_another_format_or_shape_is_built_anew(
    tmp_path: Path, trainings: list[int], change: dict[str, int]
) -> None:
    build(tmp_path, 100, 3)
    opened(tmp_path)
    description = tmp_path / "shortlists" / "images.json"
    description.write_text(json.dumps({**json.loads(description.read_bytes()), **change}))
    check_counts(opened(tmp_path), 100)
    assert trainings == [100, 100]
    assert json.loads(description.read_bytes())["format"] == 2


def test_what_faiss_cannot_read_is_built_anew(tmp_path: Path, trainings: list[int]) -> None:
    """An index that checks, as another version of FAISS may have written it."""
    build(tmp_path, 100, 3)
    opened(tmp_path)
    index, description = (tmp_path / "shortlists" / f"images.{kind}" for kind in ("faiss", "json"))
    index.unlink()
    index.write_bytes(b"what is it")
    about = json.loads(description.read_bytes())
    description.write_text(json.dumps({**about, "crc32": zlib.crc32(b"what is it")}))
    check_counts(opened(tmp_path), 100)
    assert trainings == [100, 100]


def test_an_index_of_rows_that_were_cut_back_is_not_used(tmp_path: Path, trainings: list[int]) -> None:
    writer = build(tmp_path, 100, 3)
    opened(tmp_path)
    writer.cut_back(70, 3)
    build(tmp_path, 90, 3)
    check_counts(opened(tmp_path), 90)
    assert trainings == [100, 90]


def test_one_process_builds_and_the_others_take_it_up(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    first, second = View(tmp_path, IVF_FROM), View(tmp_path, IVF_FROM)
    with one_builder(tmp_path / "shortlists") as building:
        assert building is not None
        assert not first.build_index()
        check_counts(first, 100)  # searched exactly meanwhile
    assert trainings == []
    assert first.build_index()
    assert second.build_index()
    assert trainings == [100]
    assert searched(first) == searched(second)


def test_who_builds_across_a_removal_has_no_right_to_before_the_folder_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voids = list[bool]()
    with one_builder(tmp_path / "shortlists") as building:
        assert building is not None
        assert not building.is_void
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: voids.append(building.is_void))
        views.remove_shortlists(tmp_path)
    assert voids == [True]


def test_who_lost_the_right_stores_nothing_and_trains_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, 100, 80)
    first, second = View(tmp_path, IVF_FROM), View(tmp_path, IVF_FROM)
    trained = list[int]()

    def built(exact: Floats) -> Part:
        trained.append(len(exact))
        if len(trained) == 1:
            views.remove_shortlists(tmp_path)
            assert second.build_index()
        return inverted_part(exact)

    monkeypatch.setattr(views, "inverted_part", built)
    stored = tmp_path / "shortlists" / "images.faiss"
    assert not first.build_index()
    assert trained == [100, 100, 80]
    assert stored.is_file(), "that of the second"


def test_indexes_live_on_when_rows_are_replaced(tmp_path: Path, trainings: list[int]) -> None:
    writer = build(tmp_path, 100, 80)
    view = opened(tmp_path)
    assert trainings == [100, 80]
    for place, row in enumerate((40, 7)):
        records, embeddings = images(100 + place, 101 + place)
        writer.replace_images([row], records, 100 * embeddings)
        assert view.refresh()
        for one in (view, opened(tmp_path)):
            assert one.snapshot().images.search(embeddings, 1)[1].item() == row
            assert all(shortlist.parts[0].exact is not None for shortlist in shortlists_of(one))
            assert one.snapshot().images.parts[0].stale == {40, row}
    assert trainings == [100, 80]


def test_a_row_that_is_replaced_while_an_index_is_built_is_compared_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = build(tmp_path, 100, 3)
    view = View(tmp_path, IVF_FROM)
    records, embeddings = images(100, 101)

    def built(exact: Floats) -> Part:
        part = inverted_part(exact)
        writer.replace_images([40], records, 100 * embeddings)
        view.refresh()
        return part

    monkeypatch.setattr(views, "inverted_part", built)
    assert view.build_index()
    for one in (view, View(tmp_path, IVF_FROM)):
        assert one.snapshot().images.parts[0].stale == {40}
        assert one.snapshot().images.search(embeddings, 1)[1].item() == 40


def test_views_are_loaded_afresh_once_many_rows_were_replaced(
    tmp_path: Path, trainings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_manifest, "MOST_REPLACED", 2)
    writer = build(tmp_path, 100, 3)
    view = opened(tmp_path)
    for row in (1, 2, 3):
        writer.replace_images([row], *images(row, row + 1))
    assert view.refresh()
    assert view.build_index()
    assert trainings == [100, 100]
    assert writer.counts() == view.snapshot().counts
    check_counts(view, 100)


def shortlists_of(view: View) -> tuple[Shortlist, Shortlist]:
    """The shortlists over images and over captions."""
    return view.snapshot().images, view.snapshot().captions


def test_a_disk_that_takes_nothing_stops_no_view(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build(tmp_path, 100, 3)
    (tmp_path / "shortlists").write_bytes(b"in the way")
    view = opened(tmp_path)
    assert view.snapshot().images.parts[0].exact is not None
    assert not view.build_index()  # not again and again
    check_counts(view, 100)
    assert "is not stored" in caplog.text


def test_an_index_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("Error: No space left on device")

    monkeypatch.setattr(faiss, "write_index", full)
    with pytest.raises(OSError, match="cannot be written: Error: No space left"):
        save_part(tmp_path, "images", inverted_part(np.eye(80, 8, dtype=np.float32)), "first")
    assert list(tmp_path.iterdir()) == []


def test_small_views_store_nothing(tmp_path: Path) -> None:
    build(tmp_path, 20, 3)
    view = View(tmp_path)
    assert not view.build_index()
    check(view.snapshot(), 20, 3)
    assert not (tmp_path / "shortlists").exists()


def test_an_index_of_another_width_or_generation_is_none(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
    save_part(tmp_path, "images", inverted_part(rows), "first")
    assert load_part(tmp_path, "images", generation="first", exact=rows) is not None
    assert load_part(tmp_path, "images", generation="second", exact=rows) is None
    assert load_part(tmp_path, "images", generation="first", exact=rows[:, :4]) is None
    assert load_part(tmp_path, "images", generation="first", exact=rows[:79]) is None
    assert load_part(tmp_path, "captions", generation="first", exact=rows) is None


def test_an_index_of_rows_that_are_not_replaced_yet_is_none(tmp_path: Path) -> None:
    """As where a copy of the view was put back, and not of its indexes."""
    rows = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
    save_part(tmp_path, "images", inverted_part(rows), "first", num_replaced=2)
    assert load_part(tmp_path, "images", generation="first", exact=rows, replaced=[5]) is None
    part = load_part(tmp_path, "images", generation="first", exact=rows, replaced=[5, 6, 7, 90])
    assert part is not None
    assert part.stale == {7}
