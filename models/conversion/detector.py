"""Assembly of a detector with concepts from its parts: Faster R-CNN, YOLOX-nano, an ImageNet classifier, MiniLM."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.conversion.authors_options import ConversionError
from models.conversion.yolox_onnx import read_yolox
from models.extractors.backbones.base import BACKBONE_FILE, HEAD_FILE
from models.extractors.backbones.registry import find_architecture
from models.extractors.config import CONFIG_FILE, config_of, read_config
from models.extractors.faster_rcnn.concepts import CLASS_SENTENCE
from models.extractors.faster_rcnn.config import DetectorConfig
from models.extractors.faster_rcnn.extractor import FasterRcnn, load_detector, read_detector_weights, save_detector
from models.extractors.imagenet_classes import IMAGENET_CLASSES
from models.safe_load.weight_files import read_safetensors, weight_mismatches
from models.text.bert_encoder import BertEncoder, load_bert_encoder

# Settings of a detector with concepts that differ from a plain detector's.
CONCEPT_SETTINGS: Mapping[str, Any] = {"num_proposals": 400, "any_overlap": 0.45, "feature": "map-mean"}
CLASSIFIER_KEY_PREFIX = "classifier."
MAP_LAYERS = ("of_picture", "of_region")
TUNED_MAP = "project"  # the name of the single map in the output of tuning against sentence vectors


def concept_config(file: Path) -> DetectorConfig:
    """The configuration beside a detector's weights `file`, with the settings that concepts change.

    `concept_dim` is not set yet: the sentence encoder decides it. Raises ConversionError if there is no config.json.
    """
    if not (file.parent / CONFIG_FILE).is_file():
        raise ConversionError(f"there is no {CONFIG_FILE} beside {file}")
    return replace(config_of(DetectorConfig, file.parent, read_config(file.parent)), **CONCEPT_SETTINGS)


def convert_detector(
    file: Path,
    config: DetectorConfig,
    out: Path,
    *,
    one_stage: Path | None = None,
    classifier: Path | None = None,
    sentence_encoder: Path | None = None,
    sentence_map: Path | None = None,
    picture_networks: Sequence[Path] = (),
    in_bytes: bool = False,
) -> str:
    """Write the detector with the weights `file`, that configuration and concepts to `out`; returns its digest.

    `one_stage` is YOLOX-nano (ONNX or safetensors), `classifier` an ImageNet classifier over the means of the
    detector's last map (the head.safetensors that `regard train backbone --sentence-encoder` writes, or the published
    weights of the backbone), `sentence_encoder` MiniLM's folder, `sentence_map` a file for `read_sentence_map` that
    maps features to MiniLM's space, and `picture_networks` the folders of further such tunings, the mean of whose
    backbones describes whole pictures. Parts that are None stay as the detector has them. With `in_bytes` a weight of
    the larger layers takes a byte. Raises ConversionError or ValueError for what does not fit.
    """
    if (out / CONFIG_FILE).exists():
        raise FileExistsError(f"{out} holds a detector already")
    detector = assemble_detector(
        _weights_of(file),
        config,
        one_stage=None if one_stage is None else read_yolox(one_stage).state_dict(),
        classifier=None if classifier is None else read_classifier(classifier, config.backbone),
        encoder=None if sentence_encoder is None else load_bert_encoder(sentence_encoder),
        sentence_map=None if sentence_map is None else read_sentence_map(sentence_map),
        picture_network=mean_picture_network(picture_networks) if picture_networks else None,
    )
    save_detector(detector, out, in_bytes)
    return load_detector(out).digest


def _weights_of(file: Path) -> dict[str, Tensor]:
    shapes = FasterRcnn(config_of(DetectorConfig, file.parent, read_config(file.parent))).state_dict()
    return read_detector_weights(file, shapes)


def assemble_detector(
    detector: Mapping[str, Tensor],
    config: DetectorConfig,
    *,
    one_stage: Mapping[str, Tensor] | None = None,
    classifier: tuple[Tensor, Tensor] | None = None,
    encoder: BertEncoder | None = None,
    sentence_map: Mapping[str, Tensor] | None = None,
    picture_network: Mapping[str, Tensor] | None = None,
) -> FasterRcnn:
    """The detector of these parts, ready to be saved, with that configuration except what the parts decide.

    `detector` are the weights that it starts from: of a plain detector (backbone, neck, proposer, heads), or one with
    further parts. `one_stage` are YOLOX-nano's, `classifier` the ImageNet classifier's weights and biases,
    `sentence_map` those of a `SentenceMap`, `picture_network` those of a `PictureNetwork`. Raises ConversionError for
    weights that do not fit.
    """
    state = dict(detector)
    if one_stage is not None:
        state |= {f"one_stage.{name}": tensor for name, tensor in one_stage.items()}
    if classifier is not None:
        state |= {"concepts.classifier.weight": classifier[0], "concepts.classifier.bias": classifier[1]}
    if encoder is not None:
        names = [CLASS_SENTENCE.format(name) for name in (*config.labels, *IMAGENET_CLASSES)]
        state["concepts.class_vectors"] = encoder.embed(names)
    if sentence_map is not None:
        state |= {f"sentence_map.{name}": tensor for name, tensor in sentence_map.items()}
    if picture_network is not None:
        state |= {f"picture_network.{name}": tensor for name, tensor in picture_network.items()}
    vectors = state.get("concepts.class_vectors")
    config = replace(
        config,
        concept_dim=0 if vectors is None else vectors.shape[1],
        sentence_map=any(name.startswith("sentence_map.") for name in state),
    )
    assembled = FasterRcnn(config)
    shapes = [{name: tuple(tensor.shape) for name, tensor in each.items()} for each in (state, assembled.state_dict())]
    if wrong := weight_mismatches(*shapes):
        raise ConversionError(f"the weights are not those of one detector: {'; '.join(wrong)}")
    assembled.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return assembled.eval().requires_grad_(False)


def mean_picture_network(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several tunings of the same published network, such as from different seeds.

    The mean ranks better than each of them, at the cost of one (Wortsman et al., "Model soups", ICML 2022).
    Raises ConversionError if they are not of one network.
    """
    first, *others = (read_picture_network(folder) for folder in folders)
    shapes = {name: tuple(tensor.shape) for name, tensor in first.items()}
    for folder, other in zip(folders[1:], others, strict=True):
        if wrong := weight_mismatches({name: tuple(tensor.shape) for name, tensor in other.items()}, shapes):
            raise ConversionError(f"{folder} and {folders[0]} are not of one network: {'; '.join(wrong)}")
    return {name: torch.stack([tensor, *(other[name] for other in others)]).mean(0) for name, tensor in first.items()}


def read_picture_network(folder: Path) -> dict[str, Tensor]:
    """The weights of a `PictureNetwork` in the folder of a tuning. Raises ConversionError if a file is missing.

    From head.safetensors the map of whole pictures, or the only one, is read.
    """
    for name in (BACKBONE_FILE, HEAD_FILE):
        if not (folder / name).is_file():
            raise ConversionError(f"{folder} holds no {name}: it is not the folder of a finished tuning")
    of_picture = f"{MAP_LAYERS[0]}."
    maps = {
        name.removeprefix(of_picture): tensor
        for name, tensor in read_sentence_map(folder / HEAD_FILE).items()
        if name.startswith(of_picture)
    }
    return {
        **{f"backbone.features.{name}": tensor for name, tensor in read_safetensors(folder / BACKBONE_FILE).items()},
        **{f"project.{name}": tensor for name, tensor in maps.items()},
    }


def read_classifier(file: Path, backbone: str) -> tuple[Tensor, Tensor]:
    """Weights [1000, 1280] and biases [1000] of an ImageNet classifier. Raises ValueError if `file` holds none."""
    if file.suffix == ".safetensors":
        state = read_safetensors(file)
        if {f"{CLASSIFIER_KEY_PREFIX}weight", f"{CLASSIFIER_KEY_PREFIX}bias"} <= state.keys():
            return state[f"{CLASSIFIER_KEY_PREFIX}weight"], state[f"{CLASSIFIER_KEY_PREFIX}bias"]
    return find_architecture(backbone).read_classifier(file)


def read_sentence_map(file: Path) -> dict[str, Tensor]:
    """The weights of a `SentenceMap` in `file`. Raises ConversionError if it holds none.

    The head.safetensors of `regard train backbone --sentence-encoder` has only a map of whole pictures, which is then
    used for regions too.
    """
    state = read_safetensors(file)
    maps = {name: tensor for name, tensor in state.items() if name.startswith(MAP_LAYERS)}
    if not maps:
        maps = {
            f"{layer}.{kind}": state[f"{TUNED_MAP}.{kind}"].clone()
            for layer in MAP_LAYERS
            for kind in ("weight", "bias")
            if f"{TUNED_MAP}.{kind}" in state
        }
    if not maps:
        raise ConversionError(f"{file} holds no map of features to sentence vectors")
    return maps
