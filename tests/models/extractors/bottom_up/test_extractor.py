"""The whole extraction against the Caffe code's method in loops, over weights saved as the public files are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from models.extractors.bottom_up.extractor import BottomUpExtractor, load_bottom_up, prepare_pixels, read_class_names
from models.safe_load.restricted_pickle import RefusedFile
from tests.support import caffe_reference as caffe
from tests.support import caffe_weights
from tests.support.no_pictures import check_no_pictures

SIZE = caffe_weights.Size()
OBJECTS = ("yolk", "goal", "bathroom", "tree,trees", "sky", "wall, walls")
ATTRIBUTES = ("nike", "open,opened", "red")


def noise(width: int, height: int, seed: int = 0) -> PIL.Image.Image:
    """A picture with structure at a coarse scale."""
    coarse = np.random.default_rng(seed).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    return PIL.Image.fromarray(coarse).resize((width, height))


def folder(at: Path, state: caffe.State, **settings: Any) -> Path:
    """An extractor's folder as a user makes it."""
    at.mkdir(exist_ok=True)
    (at / "objects_vocab.txt").write_text("\n".join(OBJECTS), encoding="utf-8")
    (at / "attributes_vocab.txt").write_text("\n".join(ATTRIBUTES), encoding="utf-8")
    torch.save({"model": state}, at / "weights.pth")
    config = {"kind": "bottom-up", "weights": "weights.pth", "width": SIZE.width, "blocks": SIZE.blocks, **settings}
    (at / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return at


@pytest.fixture(scope="module")
def extractor(tmp_path_factory: pytest.TempPathFactory) -> BottomUpExtractor:
    state = caffe_weights.random_weights(SIZE)
    return load_bottom_up(folder(tmp_path_factory.mktemp("both") / "milvlg", state, max_boxes=12, min_boxes=12))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "limits"),
    [
        *(((21, 120), limits) for limits in [(12, 12), (2, 9), (300, 300)]),
        ((300, 17), (300, 300)),
        ((50, 500), (12, 12)),
    ],
)
def test_regions_are_those_of_the_published_code_in_loops(
    size: tuple[int, int], limits: tuple[int, int], tmp_path: Path
) -> None:
    state = caffe_weights.random_weights(SIZE, seed=size[0])
    at = folder(tmp_path / "e", state, min_boxes=limits[0], max_boxes=limits[1])
    extractor = load_bottom_up(at).double()
    picture = noise(*size)
    regions, attributes = extractor.extract_with_attributes([picture])
    said = caffe.Caffe(state, SIZE.blocks).extract(picture, *limits)
    said.sort(key=lambda region: -region["confidence"])  # type: ignore[operator]
    assert regions.mask[0].tolist() == [True] * len(said) + [False] * (limits[1] - len(said))
    assert len(said) > 1
    for row, region in enumerate(said):
        torch.testing.assert_close(regions.boxes[0, row].tolist(), region["box"], rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(regions.features[0, row], region["feature"], rtol=1e-5, atol=1e-4)
        assert float(regions.confidence[0, row]) == pytest.approx(region["confidence"], rel=1e-4)
        assert int(regions.labels[0, row]) == region["label"]
        assert int(attributes.labels[0, row]) == region["attribute"]
        assert float(attributes.confidence[0, row]) == pytest.approx(region["attribute confidence"], rel=1e-4)


@pytest.mark.slow
def test_both_public_layouts_give_the_same_detections(tmp_path: Path) -> None:
    state = caffe_weights.random_weights(SIZE)
    states = {"milvlg": state, "airsplay": caffe_weights.as_airsplay(state)}
    first, second = (
        load_bottom_up(folder(tmp_path / name, each)).double().extract_with_attributes([noise(200, 60), noise(90, 70)])
        for name, each in states.items()
    )
    for one, other in zip(first, second, strict=True):
        for name, tensor in one.tensors().items():
            torch.testing.assert_close(other.tensors()[name], tensor, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(1, 1), (3000, 2), (2, 1000), (15, 15), (40, 30)])
def test_any_picture_gets_regions_within_it(extractor: BottomUpExtractor, size: tuple[int, int]) -> None:
    picture = noise(*size)
    regions = extractor.extract([picture])
    assert regions.features.shape == (1, 12, 128)
    count = int(regions.mask.sum())
    assert 1 <= count <= 12
    assert regions.mask[0, :count].all()
    boxes = regions.boxes[0, :count]
    assert (boxes >= 0).all()
    assert (boxes < torch.tensor([*size, *size])).all()
    assert (regions.confidence[0, :count].diff() <= 0).all()
    for rows in (regions.features, regions.boxes, regions.labels, regions.confidence):
        assert not rows[0, count:].any()
        assert rows.isfinite().all()


def test_no_pictures_have_no_regions(extractor: BottomUpExtractor) -> None:
    check_no_pictures(extractor.extract)
    assert len(extractor.extract_with_attributes([])[1]) == 0


def test_pictures_are_looked_at_as_opencv_resizes_them() -> None:
    for size in ((37, 20), (700, 650), (900, 31)):
        picture = noise(*size)
        pixels, scale, zoom = prepare_pixels(picture, torch.zeros(1, dtype=torch.float64))
        centred = np.asarray(picture)[:, :, ::-1] - np.array([102.9801, 115.9465, 122.7717])
        expected = torch.from_numpy(caffe.resize(centred, scale)).permute(2, 0, 1)
        torch.testing.assert_close(pixels[0], expected)
        assert zoom.tolist() == [scale] * 4
        short, long = sorted(pixels.shape[2:])
        assert short == 600 or long == 1000


def test_of_synonyms_the_first_names_the_class(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("playground\ntree,trees\nwall, walls", encoding="utf-8")
    assert read_class_names(tmp_path / "names.txt") == ("playground", "tree", "wall")


def test_a_digest_names_weights_names_and_settings(tmp_path: Path) -> None:
    at = folder(tmp_path / "e", caffe_weights.random_weights(SIZE))
    digest = load_bottom_up(at).digest
    (at / "weights.pth").rename(at / "renamed.pth")
    assert load_bottom_up(at, weights="renamed.pth").digest == digest
    assert load_bottom_up(at, weights="renamed.pth", max_boxes=40).digest != digest
    (at / "attributes_vocab.txt").write_text("\n".join(("blue", *ATTRIBUTES[1:])), encoding="utf-8")
    assert load_bottom_up(at, weights="renamed.pth").digest != digest
    assert load_bottom_up(folder(tmp_path / "f", caffe_weights.random_weights(SIZE, 1))).digest != digest


def test_names_that_are_too_few_are_refused(tmp_path: Path) -> None:
    at = folder(tmp_path / "e", caffe_weights.random_weights(SIZE))
    (at / "objects_vocab.txt").write_text("one\ntwo", encoding="utf-8")
    with pytest.raises(RefusedFile, match=r"cls_score\.weight is \(7, 128\), not \(3, 128\)"):
        load_bottom_up(at)


@pytest.mark.gpu
def test_a_gpu_finds_what_the_cpu_finds(tmp_path: Path) -> None:
    at = folder(tmp_path / "e", caffe_weights.random_weights(SIZE))
    cpu, gpu = (load_bottom_up(at, device).double().extract([noise(200, 60)]) for device in ("cpu", "cuda"))
    for name, tensor in cpu.tensors().items():
        torch.testing.assert_close(gpu.tensors()[name].cpu(), tensor, rtol=1e-5, atol=1e-5)
