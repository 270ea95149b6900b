"""Features of many pictures, made once."""

import errno
import os
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from models.datasets import feature_store
from models.datasets.feature_store import extract_features, open_features, pictures_at_once
from models.datasets.npy_files import create_array, grow_array
from models.extractors.base import Detections
from models.pictures import ORIENTATION
from tests.support.fakes import COLOURS, FakeExtractor


@pytest.fixture
def photographs(tmp_path: Path) -> dict[str, Path]:
    files = {}
    for name, colour in COLOURS.items():
        files[name] = tmp_path / f"{name}.png"
        PIL.Image.new("RGB", (16, 12), tuple(255 * part for part in colour)).save(files[name])
    return files


def test_arrays_hold_what_the_extractor_said(photographs: dict[str, Path], tmp_path: Path) -> None:
    extractor = FakeExtractor()
    assert list(extract_features(extractor, photographs, tmp_path / "out", batch=3)) == [3, 6, 8]
    features = open_features(tmp_path / "out")
    expected = extractor.extract([PIL.Image.open(path).convert("RGB") for path in photographs.values()])
    assert features.ids == tuple(photographs)
    assert features.digest == extractor.digest
    for name, tensor in expected.tensors().items():
        array = getattr(features, name)
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-3)
    few = features.regions(slice(2, 5))
    assert few.vectors.dtype == torch.float32
    assert torch.equal(few.vectors, expected.features[2:5].half().float())
    assert torch.equal(few.mask, expected.mask[2:5])
    assert len(features.regions()) == 8
    with pytest.raises(ValueError, match="read-only"):
        features.features[0] = 0


def test_a_killed_extraction_goes_on_and_repeats_nothing(photographs: dict[str, Path], tmp_path: Path) -> None:
    for _ in extract_features(FakeExtractor(), photographs, tmp_path / "cut", batch=3):
        break  # as a kill after the first batch leaves it
    with pytest.raises(ValueError, match="3 of 8"):
        open_features(tmp_path / "cut")
    assert list(extract_features(FakeExtractor(), photographs, tmp_path / "cut", batch=3)) == [6, 8]
    for _ in extract_features(FakeExtractor(), photographs, tmp_path / "whole", batch=3):
        pass
    cut, whole = open_features(tmp_path / "cut"), open_features(tmp_path / "whole")
    assert np.array_equal(cut.features, whole.features)
    assert np.array_equal(cut.boxes, whole.boxes)


def test_another_extractor_or_other_photographs_are_refused(photographs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    list(extract_features(FakeExtractor(), photographs, out))
    with pytest.raises(ValueError, match="made by extractor fake-extractor, not another"):
        next(extract_features(FakeExtractor("another"), photographs, out))
    del photographs["red"]
    with pytest.raises(ValueError, match="other photographs, of which 1 are not among these, as red: give them too"):
        next(extract_features(FakeExtractor(), photographs, out))


def test_a_picture_that_is_gone_before_it_was_looked_at_is_left_out(
    photographs: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for _ in extract_features(FakeExtractor(), photographs, out, batch=3):
        break  # as a kill after the first batch leaves it
    names = list(photographs)
    del photographs[names[5]]
    assert list(extract_features(FakeExtractor(), photographs, out, batch=3)) == [6, 7]
    found = open_features(out)
    assert found.ids == tuple(photographs)
    expected = FakeExtractor().extract([PIL.Image.open(photographs[name]) for name in found.ids])
    np.testing.assert_allclose(found.features, expected.features.numpy(), rtol=1e-3)


def test_boxes_are_in_pixels_of_the_whole_upright_picture(tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[ORIENTATION] = 6
    PIL.Image.new("RGB", (2000, 3000)).save(tmp_path / "a.jpg", exif=exif)  # is wide
    PIL.Image.new("RGB", (16, 12)).save(tmp_path / "b.png")
    list(extract_features(FakeExtractor(), {name: tmp_path / name for name in ("a.jpg", "b.png")}, tmp_path / "out"))
    found = open_features(tmp_path / "out")
    assert [found.picture_size(row) for row in (0, 1)] == [pytest.approx((3000, 2000)), (16, 12)]
    left, right = found.boxes[:, [1, 2]].tolist()[0]
    assert left == pytest.approx([0, 0, 1500, 2000], abs=2)
    assert right == pytest.approx([1500, 0, 3000, 2000], abs=2)


def test_more_photographs_are_added_behind_those_of_before(photographs: dict[str, Path], tmp_path: Path) -> None:
    out, names = tmp_path / "out", list(photographs)
    for _ in extract_features(FakeExtractor(), {name: photographs[name] for name in names[3:6]}, out, batch=2):
        break  # so that the earlier run is not whole either
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    list(extract_features(FakeExtractor(), {name: photographs[name] for name in names[3:6]}, out, batch=2))
    held = open_features(out)
    old = {name: getattr(held, name).copy() for name in Detections.__dataclass_fields__}
    for path, content in before.items():
        (out / path).write_bytes(content)
    for _ in extract_features(FakeExtractor(), photographs, out, batch=3):
        break  # as a kill after the first batch leaves it
    with pytest.raises(ValueError, match="5 of 8"):
        open_features(out)
    assert list(extract_features(FakeExtractor(), photographs, out, batch=3)) == [8]
    grown = open_features(out)
    assert grown.ids == (*names[3:6], *names[:3], *names[6:])
    expected = FakeExtractor().extract([PIL.Image.open(photographs[name]) for name in grown.ids]).tensors()
    for name, array in old.items():
        assert np.array_equal(getattr(grown, name)[:3], array), name
        np.testing.assert_allclose(getattr(grown, name), expected[name].numpy(), rtol=1e-3)


def test_a_processor_is_given_fewer_pictures_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = FakeExtractor()
    assert pictures_at_once(extractor) == 32
    extractor.register_parameter("weight", torch.nn.Parameter(torch.zeros(1)))
    for threads, expected in ((1, 4), (2, 8), (64, 32)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert pictures_at_once(extractor) == expected


def test_a_folder_that_began_to_grow_is_read_as_before(photographs: dict[str, Path], tmp_path: Path) -> None:
    out, few = tmp_path / "out", dict(list(photographs.items())[:3])
    list(extract_features(FakeExtractor(), few, out))
    held = open_features(out).features.copy()
    for name in ("features", "boxes"):  # as a kill leaves it
        grow_array(out / f"{name}.npy", 8)
    assert np.array_equal(open_features(out).features, held)
    list(extract_features(FakeExtractor(), photographs, out))
    assert open_features(out).features.shape[0] == 8


def test_names_may_hold_any_mark_but_a_line_break(photographs: dict[str, Path], tmp_path: Path) -> None:
    odd = {f"a{mark}b.png": photographs["red"] for mark in ("\u2028", "\x85", "\x0b", " ", "\t")}
    list(extract_features(FakeExtractor(), odd, tmp_path / "odd"))
    assert open_features(tmp_path / "odd").ids == tuple(odd)
    list(extract_features(FakeExtractor(), odd, tmp_path / "odd"))
    for mark in "\n\r":
        with pytest.raises(ValueError, match="has a line break in its name"):
            next(extract_features(FakeExtractor(), {f"a{mark}b": photographs["red"]}, tmp_path / "broken"))
    assert not (tmp_path / "broken").exists()


def test_a_disk_without_room_leaves_no_arrays(
    photographs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[Path]()

    def full_for_the_third(path: Path, shape: tuple[int, ...], dtype: str) -> None:
        if len(made) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        create_array(path, shape, dtype)
        made.append(path)

    monkeypatch.setattr(feature_store, "create_array", full_for_the_third)
    with pytest.raises(OSError, match="No space left"):
        next(extract_features(FakeExtractor(), photographs, tmp_path / "out"))
    assert len(made) == 2
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("content", ["", "{}", "[]", "7", '{"digest": "a", "labels": null, "done": 1}'])
def test_a_damaged_manifest_is_named(photographs: dict[str, Path], tmp_path: Path, content: str) -> None:
    list(extract_features(FakeExtractor(), photographs, tmp_path / "out"))
    (tmp_path / "out" / "manifest.json").write_text(content)
    with pytest.raises(ValueError, match=r"out/manifest\.json is no manifest of features"):
        open_features(tmp_path / "out")


def test_an_array_with_fewer_rows_than_names_is_named(photographs: dict[str, Path], tmp_path: Path) -> None:
    list(extract_features(FakeExtractor(), photographs, tmp_path / "out"))
    whole = np.load(tmp_path / "out" / "features.npy")
    np.save(tmp_path / "out" / "features.npy", whole[:-2])
    with pytest.raises(ValueError, match=r"out/features\.npy has 6 rows, where ids\.txt names 8 pictures"):
        open_features(tmp_path / "out")


def test_arrays_of_other_regions_are_named(photographs: dict[str, Path], tmp_path: Path) -> None:
    list(extract_features(FakeExtractor(), photographs, tmp_path))
    whole = {name: np.load(tmp_path / f"{name}.npy") for name in ("features", "mask")}
    others = ("mask", whole["mask"][:, 1:]), ("mask", whole["mask"].astype("u1")), ("features", whole["mask"])
    for name, array in others:
        np.save(tmp_path / f"{name}.npy", array)
        with pytest.raises(ValueError, match=rf"{name} \(8, .* are not of the same regions: put back"):
            open_features(tmp_path)
        np.save(tmp_path / f"{name}.npy", whole[name])
