"""Two-stage detectors of Detectron2 as extractors: a config file and a weights file.

A folder holds both and config.json: {"kind": "detectron2", "config": "FILE.yaml", "weights": "FILE.pkl"}. A region's
feature is what the box predictor reads: the mean of the last stage (C4, 2048-d) or the box head's output (FPN, 1024-d).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.extractors.config import ExtractorUnavailable, config_of, digest_of_extractor, read_config
from models.extractors.two_stage import FirstStage, SecondStage, TwoStageConfig, TwoStageDetector, TwoStageNetwork
from models.safe_load.restricted_pickle import RefusedFile
from models.safe_load.weight_files import load_weights, read_weights

INSTALL = (
    "detectron2 is not installed. It is built from its source against the torch that is here: pip install"
    ' "setuptools<81" ninja, then pip install --no-build-isolation git+https://github.com/facebookresearch/detectron2'
)
# Constants that some releases save with the weights and others compute.
COMPUTED_CONSTANTS = ("cell_anchors", "pixel_mean", "pixel_std", "num_batches_tracked")


@dataclass(frozen=True, kw_only=True)
class Detectron2Config(TwoStageConfig):
    """The configuration of the extractor: everything but its weights."""

    config: str
    """Detectron2's own configuration, a YAML file in the folder (with its _BASE_ files)."""
    weights: str
    classes: tuple[str, ...] | None = None
    """Names in the order of the network's classes; None: those of the configuration's test set."""


class Detectron2FasterRcnn(TwoStageNetwork):
    """Detectron2's GeneralizedRCNN, whose parts are called separately."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        from detectron2.data.transforms import ResizeShortestEdge  # noqa: PLC0415  # heavy, and seldom installed
        from detectron2.modeling import build_model  # noqa: PLC0415
        from detectron2.modeling.roi_heads import Res5ROIHeads, StandardROIHeads  # noqa: PLC0415

        self.model = build_model(cfg)
        self.heads = self.model.roi_heads
        if type(self.heads) not in (Res5ROIHeads, StandardROIHeads):
            raise RefusedFile(f"the heads are {type(self.heads).__name__}; known are Res5ROIHeads and StandardROIHeads")
        self.c4 = isinstance(self.heads, Res5ROIHeads)
        self.resize = ResizeShortestEdge([cfg.INPUT.MIN_SIZE_TEST] * 2, cfg.INPUT.MAX_SIZE_TEST)
        self.colours = [0, 1, 2] if cfg.INPUT.FORMAT == "RGB" else [2, 1, 0]
        self.feature_dim = self.heads.box_predictor.cls_score.in_features

    def propose(self, picture: PIL.Image.Image) -> FirstStage:
        """Maps and proposals of an upright RGB picture."""
        raw = np.array(picture)[:, :, self.colours]
        pixels = torch.from_numpy(self.resize.get_transform(raw).apply_image(raw).astype(np.float32))
        images = self.model.preprocess_image([{"image": pixels.permute(2, 0, 1)}])
        maps = self.model.backbone(images.tensor)
        proposals, _ = self.model.proposal_generator(images, maps)
        return FirstStage((maps, proposals), tuple(images.image_sizes[0]), proposals[0].proposal_boxes.tensor)

    def box_features(self, first: FirstStage, boxes: Float[Tensor, "P 4"]) -> Float[Tensor, "P D"]:
        """Inputs of the box predictor."""
        from detectron2.structures import Boxes  # noqa: PLC0415

        maps, _ = first.maps
        if self.c4:
            cut = self.heads.pooler([maps[name] for name in self.heads.in_features], [Boxes(boxes)])
            last: Tensor = self.heads.res5(cut)
            return last.mean((2, 3))
        cut = self.heads.box_pooler([maps[name] for name in self.heads.box_in_features], [Boxes(boxes)])
        features: Tensor = self.heads.box_head(cut)
        return features

    def classify(self, first: FirstStage, features: Float[Tensor, "P D"]) -> SecondStage:
        """Class probabilities and corrections, without those of background, the network's last class."""
        _, proposals = first.maps
        predicted = self.heads.box_predictor(features)
        probabilities = self.heads.box_predictor.predict_probs(predicted, proposals)[0][:, :-1]
        refined = self.heads.box_predictor.predict_boxes(predicted, proposals)[0].view(len(features), -1, 4)
        return SecondStage(probabilities, refined.expand(-1, probabilities.shape[1], -1))


def load_detectron2(folder: Path, device: str = "cpu", **settings: Any) -> TwoStageDetector:
    """The extractor in `folder`; `settings` replace fields of its configuration.

    Raises ExtractorUnavailable without detectron2.
    """
    config = config_of(Detectron2Config, folder, {**read_config(folder), **settings})
    cfg = _read_cfg(folder / config.config, device)
    network = Detectron2FasterRcnn(cfg)
    load_detectron2_weights(network.model, read_weights(folder / config.weights))
    classes = config.classes or _known_classes(cfg)
    if len(classes) != cfg.MODEL.ROI_HEADS.NUM_CLASSES:
        raise RefusedFile(
            f'{folder}: {cfg.MODEL.ROI_HEADS.NUM_CLASSES} classes; name each in config.json under "classes"'
        )
    identity = {**asdict(config), "weights": None, "config": cfg.dump(), "classes": classes}
    detector = TwoStageDetector(network, tuple(classes), config, digest_of_extractor("detectron2", identity, network))
    return detector.eval().requires_grad_(False).to(device)


def load_detectron2_weights(model: nn.Module, stored: dict[str, Tensor]) -> None:
    """Load stored weights into a network; constants may be missing or surplus.

    Raises RefusedFile, which names every weight that does not fit.
    """
    expected = model.state_dict()
    weights = {name: tensor for name, tensor in stored.items() if name in expected or not _is_constant(name)}
    weights |= {name: tensor for name, tensor in expected.items() if name not in weights and _is_constant(name)}
    load_weights(model, weights, "the configuration's network")


def _is_constant(name: str) -> bool:
    return any(part in COMPUTED_CONSTANTS for part in name.split("."))


def _read_cfg(file: Path, device: str) -> Any:
    try:
        from detectron2.config import get_cfg  # noqa: PLC0415
    except ImportError as problem:
        raise ExtractorUnavailable(f"{INSTALL} ({problem})") from problem
    cfg = get_cfg()
    cfg.merge_from_file(str(file), allow_unsafe=False)  # a YAML file could otherwise run code
    cfg.MODEL.WEIGHTS = ""
    cfg.MODEL.DEVICE = device
    return cfg


def _known_classes(cfg: Any) -> Sequence[str]:
    """Class names of the first test set; empty if Detectron2 does not know it."""
    from detectron2.data import MetadataCatalog  # noqa: PLC0415

    names: Sequence[str] = (
        MetadataCatalog.get(cfg.DATASETS.TEST[0]).get("thing_classes", ()) if cfg.DATASETS.TEST else ()
    )
    return names
