"""Assembly of a detector with concepts from its parts: Faster R-CNN, YOLOX-nano, an ImageNet classifier, MiniLM."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from models.conversion.authors_options import ConversionError
from models.conversion.yolox_onnx import read_yolox
from models.extractors.backbones.registry import find_architecture
from models.extractors.concepts import CLASS_SENTENCE
from models.extractors.config import CONFIG_FILE, read_config
from models.extractors.faster_rcnn import DetectorConfig, FasterRcnn, load_detector, save_detector
from models.extractors.imagenet_classes import IMAGENET_CLASSES
from models.safe_load.weight_files import weight_mismatches
from models.text.bert_encoder import BertEncoder, load_bert_encoder

# With concepts, instead of a plain detector's.
CONCEPT_SETTINGS: Mapping[str, Any] = {"num_proposals": 400, "any_overlap": 0.45, "feature": "map-mean"}
CLASSIFIER_KEY_PREFIX = "classifier."
ADDED_PARTS = ("one_stage.", "concepts.", "sentence_map.")
MAP_LAYERS = ("of_picture", "of_region")
TUNED_MAP = "project"  # the name of the one map in what a tuning against sentence vectors leaves


def concept_config(file: Path) -> DetectorConfig:
    """The configuration of a detector's weights `file`, config.json beside it, with what concepts change.

    ConversionError where there is none. `concept_dim` is not set yet: it is that of the sentence encoder.
    """
    if not (file.parent / CONFIG_FILE).is_file():
        raise ConversionError(f"there is no {CONFIG_FILE} beside {file}")
    return replace(DetectorConfig.from_json(read_config(file.parent)), **CONCEPT_SETTINGS)


def convert_detector(
    file: Path,
    config: DetectorConfig,
    out: Path,
    *,
    one_stage: Path,
    classifier: Path,
    sentence_encoder: Path,
    sentence_map: Path | None = None,
) -> str:
    """Write to `out` the detector whose weights are `file`, with that configuration and with concepts; its digest.

    `one_stage` is YOLOX-nano (ONNX or safetensors), `classifier` an ImageNet classifier over the means of the
    detector's last map (the head.safetensors that `regard train backbone --sentence-encoder` writes, or the published
    weights of the backbone), `sentence_encoder` MiniLM's folder, and `sentence_map` a file as `read_sentence_map` reads
    it, by which features are then in MiniLM's space. ConversionError or ValueError names what does not fit.
    """
    if (out / CONFIG_FILE).exists():
        raise FileExistsError(f"{out} holds a detector already")
    detector = assemble_detector(
        load_file(file),
        config,
        one_stage=read_yolox(one_stage).state_dict(),
        classifier=read_classifier(classifier, config.backbone),
        encoder=load_bert_encoder(sentence_encoder),
        sentence_map=None if sentence_map is None else read_sentence_map(sentence_map),
    )
    save_detector(detector, out)
    return load_detector(out).digest


def assemble_detector(
    faster_rcnn: Mapping[str, Tensor],
    config: DetectorConfig,
    *,
    one_stage: Mapping[str, Tensor],
    classifier: tuple[Tensor, Tensor],
    encoder: BertEncoder,
    sentence_map: Mapping[str, Tensor] | None = None,
) -> FasterRcnn:
    """The detector of these parts, ready to be saved, with that configuration but for the width of concepts.

    `faster_rcnn` are the weights of a plain detector (backbone, neck, proposer, heads), `one_stage` YOLOX-nano's,
    `classifier` the ImageNet classifier's weights and biases, `sentence_map` those of a `SentenceMap`.
    ConversionError names weights that do not fit.
    """
    config = replace(config, concept_dim=encoder.config.width, sentence_map=sentence_map is not None)
    detector = FasterRcnn(config)
    weight, bias = classifier
    names = [CLASS_SENTENCE.format(name) for name in (*config.labels, *IMAGENET_CLASSES)]
    state = {
        **{name: tensor for name, tensor in faster_rcnn.items() if not name.startswith(ADDED_PARTS)},
        **{f"one_stage.{name}": tensor for name, tensor in one_stage.items()},
        "concepts.classifier.weight": weight,
        "concepts.classifier.bias": bias,
        "concepts.class_vectors": encoder.embed(names),
        **{f"sentence_map.{name}": tensor for name, tensor in (sentence_map or {}).items()},
    }
    shapes = [{name: tuple(tensor.shape) for name, tensor in each.items()} for each in (state, detector.state_dict())]
    if wrong := weight_mismatches(*shapes):
        raise ConversionError(f"the weights are not those of one detector: {'; '.join(wrong)}")
    detector.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return detector.eval().requires_grad_(False)


def read_classifier(file: Path, backbone: str) -> tuple[Tensor, Tensor]:
    """Weights [1000, 1280] and biases [1000] of an ImageNet classifier; ValueError where `file` holds none."""
    if file.suffix == ".safetensors":
        state = load_file(file)
        if {f"{CLASSIFIER_KEY_PREFIX}weight", f"{CLASSIFIER_KEY_PREFIX}bias"} <= state.keys():
            return state[f"{CLASSIFIER_KEY_PREFIX}weight"], state[f"{CLASSIFIER_KEY_PREFIX}bias"]
    return find_architecture(backbone).read_classifier(file)


def read_sentence_map(file: Path) -> dict[str, Tensor]:
    """The weights of a `SentenceMap` in `file`; ConversionError where it holds none.

    The head.safetensors of `regard train backbone --sentence-encoder` has one map, of whole pictures, which then stands
    for that of regions too.
    """
    state = load_file(file)
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
