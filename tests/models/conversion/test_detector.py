"""A detector with concepts out of its parts."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.conversion.authors_options import ConversionError
from models.conversion.detector import (
    assemble_detector,
    concept_config,
    convert_detector,
    mean_picture_network,
    read_classifier,
    read_picture_network,
    read_sentence_map,
)
from models.extractors.backbones.base import BACKBONE_FILE, HEAD_FILE
from models.extractors.backbones.registry import build_backbone
from models.extractors.coco_classes import COCO_CLASSES
from models.extractors.faster_rcnn.concepts import CLASS_SENTENCE
from models.extractors.faster_rcnn.config import DetectorConfig
from models.extractors.faster_rcnn.extractor import BOX_PARTS, FasterRcnn, load_detector, save_detector
from models.extractors.faster_rcnn.yolox import YoloxNano
from models.extractors.imagenet_classes import IMAGENET_CLASSES
from models.text.bert_encoder import BertConfig, BertEncoder

WIDTH = 8
CONFIG = DetectorConfig(labels=COCO_CLASSES, side=96.0, neck_width=16, head_width=16)


class CountedSentences(BertEncoder):
    """An encoder without weights: a sentence's vector is made of its length and its first letters."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.config = BertConfig(num_pieces=0, num_positions=0, num_layers=0, width=WIDTH, hidden_width=0)

    def embed(self, sentences: Sequence[str], batch: int = 256) -> Tensor:
        rows = [[len(sentence), *sentence.encode()[13 : 12 + WIDTH].ljust(WIDTH - 1)] for sentence in sentences]
        return torch.nn.functional.normalize(torch.tensor(rows, dtype=torch.float32), dim=1)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plain detector, YOLOX-nano's weights and a classifier, all random."""
    folder = tmp_path_factory.mktemp("parts")
    torch.manual_seed(0)
    save_detector(FasterRcnn(CONFIG), folder / "plain")
    save_file(YoloxNano(80).state_dict(), folder / "yolox.safetensors")
    save_file(
        {"classifier.weight": torch.randn(1000, 1280), "classifier.bias": torch.randn(1000)},
        folder / "head.safetensors",
    )
    return folder


@pytest.fixture(autouse=True)
def no_real_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.conversion.detector.load_bert_encoder", lambda folder: CountedSentences())


def convert(parts: Path, out: Path, **changes: Path) -> str:
    given: dict[str, Any] = {"one_stage": parts / "yolox.safetensors", "classifier": parts / "head.safetensors"}
    file = parts / "plain" / "model.safetensors"
    config = replace(concept_config(file), min_side=0.1)
    return convert_detector(file, config, out, **{**given, **changes}, sentence_encoder=parts / "any")


def test_all_parts_are_in_the_new_folder(parts: Path, tmp_path: Path) -> None:
    digest = convert(parts, tmp_path / "new")
    detector = load_detector(tmp_path / "new")
    assert detector.digest == digest
    assert detector.config.concept_dim == WIDTH
    assert (detector.config.side, detector.config.num_proposals) == (CONFIG.side, 400)
    assert (detector.config.feature, detector.config.min_side) == ("map-mean", 0.1)
    state, plain = detector.state_dict(), load_file(parts / "plain" / "model.safetensors")
    assert all(torch.equal(state[name], tensor.float()) for name, tensor in plain.items())
    head = load_file(parts / "head.safetensors")
    torch.testing.assert_close(state["concepts.classifier.weight"], head["classifier.weight"], rtol=1e-3, atol=1e-3)
    names = [*COCO_CLASSES, *IMAGENET_CLASSES]
    for number in (0, 79, 80, 1079):
        expected = CountedSentences().embed([CLASS_SENTENCE.format(names[number])])[0]
        torch.testing.assert_close(state["concepts.class_vectors"][number], expected, rtol=1e-3, atol=1e-3)
    picture = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), np.uint8))
    regions = detector.extract([picture])
    assert regions.features.shape == (1, 36, 1280 + WIDTH)
    assert regions.features.isfinite().all()


def test_concepts_can_be_added_to_a_detector_that_has_them(parts: Path, tmp_path: Path) -> None:
    first = convert(parts, tmp_path / "new")
    file = tmp_path / "new" / "model.safetensors"
    again = convert_detector(
        file,
        concept_config(file),
        tmp_path / "again",
        one_stage=parts / "yolox.safetensors",
        classifier=parts / "head.safetensors",
        sentence_encoder=parts / "any",
    )
    assert again == first


def test_what_does_not_fit_is_named(parts: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.json").write_text(json.dumps({}))
    with pytest.raises(FileExistsError, match="already"):
        convert(parts, tmp_path / "taken")
    save_file(
        {"classifier.weight": torch.zeros(5, 1280), "classifier.bias": torch.zeros(5)}, tmp_path / "five.safetensors"
    )
    with pytest.raises(ConversionError, match=r"concepts\.classifier\.weight is \(5, 1280\)"):
        convert(parts, tmp_path / "new", classifier=tmp_path / "five.safetensors")
    with pytest.raises(ConversionError, match="backbone"):
        assemble_detector(
            {},
            CONFIG,
            one_stage=YoloxNano(80).state_dict(),
            classifier=read_classifier(parts / "head.safetensors", CONFIG.backbone),
            encoder=CountedSentences(),
        )
    with pytest.raises(ConversionError, match=r"config\.json"):
        concept_config(parts / "yolox.safetensors")
    with pytest.raises(ValueError, match="no ImageNet classifier"):
        read_classifier(parts / "yolox.safetensors", "mobilenet-v2")


def test_features_are_in_the_space_of_concepts_where_a_map_is_given(parts: Path, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    maps = {
        f"{layer}.{kind}": torch.randn(WIDTH, *size, generator=generator) / 30
        for layer in ("of_picture", "of_region")
        for kind, size in (("weight", (1280,)), ("bias", ()))
    }
    save_file(maps, tmp_path / "map.safetensors")
    convert(parts, tmp_path / "plain")
    convert(parts, tmp_path / "mapped", sentence_map=tmp_path / "map.safetensors")
    plain, mapped = (load_detector(tmp_path / name) for name in ("plain", "mapped"))
    assert mapped.feature_dim == 2 * WIDTH
    assert mapped.digest != plain.digest
    pixels = np.random.default_rng(0).integers(0, 256, (80, 96, 3), dtype=np.uint8)
    before, after = (each.extract([PIL.Image.fromarray(pixels)]) for each in (plain, mapped))
    assert torch.equal(after.boxes, before.boxes)
    assert torch.equal(after.features[..., WIDTH:], before.features[..., 1280:])
    for region in after.mask[0].nonzero()[:, 0].tolist():
        layer = "of_picture" if region == 0 else "of_region"
        weight, bias = (maps[f"{layer}.{kind}"].half().float() for kind in ("weight", "bias"))
        expected = weight @ before.features[0, region, :1280] + bias
        torch.testing.assert_close(after.features[0, region, :WIDTH], expected, rtol=1e-4, atol=1e-4)
    assert not after.features[~after.mask].any()


def tuned_network(folder: Path, backbone: str = "mobilenet-v2", seed: int = 1) -> Path:
    """A folder as a tuning leaves it, with random weights."""
    folder.mkdir()
    generator = torch.Generator().manual_seed(seed)
    weights = {"weight": (WIDTH, 1280), "bias": (WIDTH,)}
    head = {f"project.{kind}": torch.randn(size, generator=generator) for kind, size in weights.items()}
    build_backbone(backbone).save(folder / BACKBONE_FILE)
    save_file(head, folder / HEAD_FILE)
    return folder


def with_picture_network(parts: Path, folder: Path, **fields: Any) -> tuple[FasterRcnn, FasterRcnn]:
    """A detector with a sentence map, and the same with a second network for whole pictures."""
    generator = torch.Generator().manual_seed(0)
    weights = {"weight": (WIDTH, 1280), "bias": (WIDTH,)}
    maps = {
        f"{layer}.{kind}": torch.randn(size, generator=generator) / 30
        for layer in ("of_picture", "of_region")
        for kind, size in weights.items()
    }
    save_file(maps, folder / "map.safetensors")
    convert(parts, folder / "mapped", sentence_map=folder / "map.safetensors")
    file = folder / "mapped" / "model.safetensors"
    config = replace(concept_config(file), picture_backbone="mobilenet-v2", picture_side=64, **fields)
    convert_detector(file, config, folder / "both", picture_networks=[tuned_network(folder / "tuned")])
    one, both = (load_detector(folder / name) for name in ("mapped", "both"))
    return one, both


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_whole_picture_is_described_by_two_networks(mirrored: bool, parts: Path, tmp_path: Path) -> None:
    plain, detector = with_picture_network(parts, tmp_path, picture_share=0.3, picture_mirrored=mirrored)
    assert detector.digest != plain.digest
    pixels = np.random.default_rng(0).integers(0, 256, (80, 96, 3), dtype=np.uint8)
    picture = PIL.Image.fromarray(pixels)
    before, after = (each.extract([picture]) for each in (plain, detector))
    assert torch.equal(after.boxes, before.boxes)
    assert torch.equal(after.features[:, 1:], before.features[:, 1:])
    assert torch.equal(after.features[..., WIDTH:], before.features[..., WIDTH:])

    small = torch.from_numpy(np.array(picture.resize((64, 64), PIL.Image.Resampling.BILINEAR, reducing_gap=3.0)))
    network, told = detector.picture_network, torch.zeros(WIDTH)
    for seen in [small, small.flip(1)] if mirrored else [small]:
        features = network.backbone.features(network.backbone.normalise(seen.permute(2, 0, 1)[None]))
        vector = network.project.weight @ features[0].mean((1, 2)) + network.project.bias
        told += vector / vector.norm()
    own = before.features[0, 0, :WIDTH]
    mixed = 0.7 * own / own.norm() + 0.3 * told / told.norm()
    torch.testing.assert_close(after.features[0, 0, :WIDTH], mixed / mixed.norm(), rtol=1e-4, atol=1e-5)


def test_parts_that_are_not_named_stay(parts: Path, tmp_path: Path) -> None:
    plain, detector = with_picture_network(parts, tmp_path)
    kept = detector.state_dict()
    assert all(torch.equal(kept[name], tensor) for name, tensor in plain.state_dict().items())
    assert {name.partition(".")[0] for name in kept.keys() - plain.state_dict().keys()} == {"picture_network"}


def test_of_several_tunings_the_mean_is_taken(tmp_path: Path) -> None:
    folders = [tuned_network(tmp_path / str(seed), seed=seed) for seed in range(3)]
    each, mean = [read_picture_network(folder) for folder in folders], mean_picture_network(folders)
    assert mean.keys() == each[0].keys()
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, sum(one[name] for one in each) / 3)
    other = tuned_network(tmp_path / "other", "efficientnet-lite2")
    with pytest.raises(ConversionError, match="are not of one network"):
        mean_picture_network([folders[0], other])


def test_a_tuning_that_has_not_ended_is_refused(tmp_path: Path) -> None:
    (tuned_network(tmp_path / "tuned") / HEAD_FILE).unlink()
    with pytest.raises(ConversionError, match=r"holds no head\.safetensors"):
        read_picture_network(tmp_path / "tuned")


def test_weights_of_a_byte_are_near_those_of_two(parts: Path, tmp_path: Path) -> None:
    convert(parts, tmp_path / "two")
    file = tmp_path / "two" / "model.safetensors"
    convert_detector(file, concept_config(file), tmp_path / "one", in_bytes=True)
    assert (tmp_path / "one" / "model.safetensors").stat().st_size < 0.8 * file.stat().st_size
    two, one = (load_detector(tmp_path / name).state_dict() for name in ("two", "one"))
    assert two.keys() == one.keys()
    for name, exact in two.items():
        if exact.dim() == 1 or name.startswith(BOX_PARTS):
            assert torch.equal(one[name], exact)
        else:
            largest = exact.flatten(1).abs().amax(1)
            error = (one[name] - exact).flatten(1).square().mean(1).sqrt()
            assert (error <= largest / 127 / 2 + 1e-4).all(), name


def test_the_map_of_a_tuning_stands_for_both(parts: Path, tmp_path: Path) -> None:
    save_file(
        {"project.weight": torch.ones(WIDTH, 1280), "project.bias": torch.ones(WIDTH)}, tmp_path / "head.safetensors"
    )
    maps = read_sentence_map(tmp_path / "head.safetensors")
    assert set(maps) == {f"{layer}.{kind}" for layer in ("of_picture", "of_region") for kind in ("weight", "bias")}
    with pytest.raises(ConversionError, match="holds no map"):
        read_sentence_map(parts / "yolox.safetensors")


def test_a_sentence_map_without_concepts_is_refused() -> None:
    with pytest.raises(ValueError, match="concept_dim"):
        DetectorConfig(labels=COCO_CLASSES, sentence_map=True)


def test_a_network_for_whole_pictures_needs_their_vectors() -> None:
    with pytest.raises(ValueError, match="sentence_map"):
        DetectorConfig(labels=COCO_CLASSES, concept_dim=8, picture_backbone="mobilenet-v2")
    with pytest.raises(ValueError, match="picture_share"):
        DetectorConfig(labels=COCO_CLASSES, picture_share=1.5)
