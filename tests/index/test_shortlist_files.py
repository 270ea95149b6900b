"""Trained shortlists beside their view: opened without training, and never trusted when they do not check."""

from pathlib import Path

import numpy as np
import pytest

from index import shortlist
from index.shortlist_files import load_part, save_part
from index.view import View
from tests.support.small_views import EMBED, build, check

IVF_FROM = 64


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of rows that inverted lists were trained on, in the order of the trainings."""
    trained: list[int] = []
    train = shortlist.inverted_part

    def noted(rows: shortlist.Floats) -> shortlist.Part:
        trained.append(len(rows))
        return train(rows)

    monkeypatch.setattr(shortlist, "inverted_part", noted)
    return trained


def searched(view: View) -> list[int]:
    """Rows of the images in the order of a search that looks at all."""
    count = view.snapshot().counts.images
    _, rows = view.snapshot().images.search(np.ones((1, EMBED), np.float32), count)
    return [int(row) for row in rows[0]]


def test_a_view_opened_again_is_not_trained_again(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    first = View(tmp_path, IVF_FROM)
    assert trainings == [100]
    again = View(tmp_path, IVF_FROM)
    assert trainings == [100]
    assert sorted(searched(again)) == list(range(100))
    assert searched(again) == searched(first)


def test_what_was_trained_and_extended_later_is_stored_too(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    view = View(tmp_path, IVF_FROM)
    build(tmp_path, 180, 3)
    view.refresh()
    assert trainings == [100]  # grown, not trained anew
    again = View(tmp_path, IVF_FROM)
    assert trainings == [100]
    assert len(again.snapshot().images.parts[0]) == 180
    assert sorted(searched(again)) == list(range(180))


def test_rows_newer_than_the_stored_index_are_added_to_it(tmp_path: Path, trainings: list[int]) -> None:
    build(tmp_path, 100, 3)
    View(tmp_path, IVF_FROM)
    build(tmp_path, 105, 3)
    again = View(tmp_path, IVF_FROM)
    assert trainings == [100]
    check_counts(again, 105)


def check_counts(view: View, count: int) -> None:
    assert view.snapshot().counts.images == count
    assert sorted(searched(view)) == list(range(count))


@pytest.mark.parametrize("damage", ["cut", "changed", "no index", "no description", "empty description", "a list"])
def test_a_stored_index_that_does_not_check_is_built_anew(tmp_path: Path, trainings: list[int], damage: str) -> None:
    build(tmp_path, 100, 3)
    View(tmp_path, IVF_FROM)
    index, description = (tmp_path / "shortlists" / f"images.{kind}" for kind in ("faiss", "json"))
    content = index.read_bytes()
    match damage:
        case "cut":
            index.write_bytes(content[:-7])
        case "changed":
            index.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
        case "no index":
            index.unlink()
        case "no description":
            description.unlink()
        case "empty description":
            description.write_bytes(b"")
        case "a list":
            description.write_bytes(b"[]")
    check_counts(View(tmp_path, IVF_FROM), 100)
    assert trainings == [100, 100]
    check_counts(View(tmp_path, IVF_FROM), 100)  # it was stored again
    assert trainings == [100, 100]


def test_an_index_of_rows_that_were_cut_back_is_not_used(tmp_path: Path, trainings: list[int]) -> None:
    writer = build(tmp_path, 100, 3)
    View(tmp_path, IVF_FROM)
    writer.cut_back(70, 3)
    build(tmp_path, 90, 3)
    check_counts(View(tmp_path, IVF_FROM), 90)
    assert trainings == [100, 90]


def test_a_disk_that_takes_nothing_stops_no_view(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build(tmp_path, 100, 3)
    (tmp_path / "shortlists").write_bytes(b"in the way")
    check_counts(View(tmp_path, IVF_FROM), 100)
    assert "is not stored" in caplog.text


def test_small_views_store_nothing(tmp_path: Path) -> None:
    build(tmp_path, 20, 3)
    check(View(tmp_path).snapshot(), 20, 3)
    assert not (tmp_path / "shortlists").exists()


def test_an_index_of_another_width_or_generation_is_none(tmp_path: Path) -> None:
    part = shortlist.inverted_part(np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32))
    save_part(tmp_path, "images", part, "first")
    assert load_part(tmp_path, "images", generation="first", dim=8, most_rows=80) is not None
    assert load_part(tmp_path, "images", generation="second", dim=8, most_rows=80) is None
    assert load_part(tmp_path, "images", generation="first", dim=4, most_rows=80) is None
    assert load_part(tmp_path, "images", generation="first", dim=8, most_rows=79) is None
    assert load_part(tmp_path, "captions", generation="first", dim=8, most_rows=80) is None
