"""Other people's captioned pictures, in the pairs that their own programs make of them."""

from pathlib import Path

import numpy as np
import pytest

from models.datasets.scan_precomp import PUBLISHED_FEATURES, read_precomp, read_precomp_ids


def precomp(folder: Path, split: str, features: np.ndarray, num_captions: int) -> Path:
    """A folder in SCAN's layout whose captions are numbered."""
    np.save(folder / f"{split}_ims.npy", features)
    (folder / f"{split}_caps.txt").write_text("".join(f" caption {n} \n" for n in range(num_captions)))
    (folder / f"{split}_ids.txt").write_text("".join(f"{7 * n}\n" for n in range(len(features))))
    return folder


def features(num: int) -> np.ndarray:
    return np.random.default_rng(0).random((num, 2, 3), dtype=np.float32)


def test_five_captions_belong_to_a_row_which_stays_on_disk(tmp_path: Path) -> None:
    data = read_precomp(precomp(tmp_path, "test", features(3), 15), "test")
    assert isinstance(data.features, np.memmap)
    assert [list(texts) for texts in data.captions][1] == [f"caption {n}" for n in range(5, 10)]
    assert np.array_equal(data.regions([1]).vectors.numpy(), features(3)[[1]])
    assert data.regions([0, 2]).mask.all()
    assert data.extractor_digest == PUBLISHED_FEATURES
    assert read_precomp_ids(tmp_path, "test") == ("0", "7", "14")


def test_as_many_rows_as_captions_are_pairs(tmp_path: Path) -> None:
    data = read_precomp(precomp(tmp_path, "train", features(10), 10), "train")
    assert data.rows.tolist() == list(range(10))
    assert [list(texts) for texts in data.captions] == [[f"caption {n}"] for n in range(10)]


def test_rows_stored_five_times_are_one_picture(tmp_path: Path) -> None:
    data = read_precomp(precomp(tmp_path, "test", features(2).repeat(5, 0), 10), "test")
    assert data.rows.tolist() == [0, 5]
    assert [len(texts) for texts in data.captions] == [5, 5]
    assert np.array_equal(data.regions([0, 1]).vectors.numpy(), features(2))
    assert read_precomp_ids(tmp_path, "test") == ("0", "35")


@pytest.mark.parametrize(("rows", "each", "used"), [(1014, 5, 1000), (5070, 1, 5000), (3, 5, 3)])
def test_dev_is_cut_to_its_first_5000_captions(rows: int, each: int, used: int, tmp_path: Path) -> None:
    data = read_precomp(precomp(tmp_path, "dev", features(rows), rows * each), "dev")
    assert len(data) == used
    assert len(data.sentences()[0]) == min(rows * each, 5000)
    assert len(read_precomp(precomp(tmp_path, "test", features(rows), rows * each), "test")) == rows


@pytest.mark.parametrize(("rows", "num_captions"), [(3, 14), (3, 16), (5, 4), (15, 3)])
def test_captions_that_fit_neither_way_are_refused(rows: int, num_captions: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{num_captions} captions are neither one nor five for each of {rows} rows"):
        read_precomp(precomp(tmp_path, "test", features(rows), num_captions), "test")


def test_arrays_of_whole_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"test_ims\.npy has shape \(3, 4\)"):
        read_precomp(precomp(tmp_path, "test", np.zeros((3, 4)), 15), "test")


def test_ids_that_are_too_few_are_refused(tmp_path: Path) -> None:
    precomp(tmp_path, "test", features(3), 15)
    (tmp_path / "test_ids.txt").write_text("1\n2\n")
    with pytest.raises(ValueError, match="2 ids for 3 rows"):
        read_precomp_ids(tmp_path, "test")
