"""torchvision's Faster R-CNN on ResNet-50 with a feature pyramid (version 2), trained on COCO, as an extractor.

A region's feature is the 1024-d output of the box head. A folder needs config.json only: {"kind": "torchvision"};
with "weights": "FILE" it loads that state dict instead of torchvision's download.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor
from torchvision.models.detection import FasterRCNN, FasterRCNN_ResNet50_FPN_V2_Weights, fasterrcnn_resnet50_fpn_v2

from models.extractors.config import ExtractorUnavailable, check_ranges, config_of, digest_of_extractor, read_config
from models.extractors.two_stage import FirstStage, SecondStage, TwoStageConfig, TwoStageDetector, TwoStageNetwork
from models.safe_load.weight_files import load_weights, read_weights

COCO_WEIGHTS = FasterRCNN_ResNet50_FPN_V2_Weights.COCO_V1


@dataclass(frozen=True, kw_only=True)
class TorchvisionConfig(TwoStageConfig):
    """The configuration of the extractor: everything but its weights."""

    weights: str | None = None
    """A file in the folder, written by torch.save; None: torchvision's own weights."""
    short_side: int = 800
    """Pixels of the resized picture, or fewer if its long side would exceed `long_side`."""
    long_side: int = 1333

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid number."""
        super().__post_init__()
        check_ranges(self, ["short_side", "long_side"])


class TorchvisionFasterRcnn(TwoStageNetwork):
    """torchvision's model, whose parts are called separately."""

    feature_dim = 1024

    def __init__(self, model: FasterRCNN) -> None:
        super().__init__()
        self.model = model

    def propose(self, picture: PIL.Image.Image) -> FirstStage:
        """Maps and proposals of an upright RGB picture."""
        device = next(self.parameters()).device
        pixels = torch.from_numpy(np.array(picture)).to(device).permute(2, 0, 1).float() / 255
        images, _ = self.model.transform([pixels])
        maps = self.model.backbone(images.tensors)
        proposals, _ = self.model.rpn(images, maps)
        return FirstStage(maps, images.image_sizes[0], proposals[0])

    def box_features(self, first: FirstStage, boxes: Float[Tensor, "P 4"]) -> Float[Tensor, "P D"]:
        """Outputs of the box head."""
        heads = self.model.roi_heads
        features: Tensor = heads.box_head(heads.box_roi_pool(first.maps, [boxes], [first.size]))
        return features

    def classify(self, first: FirstStage, features: Float[Tensor, "P D"]) -> SecondStage:
        """Class probabilities and corrections, without those of background, the network's first class."""
        heads = self.model.roi_heads
        logits, deltas = heads.box_predictor(features)
        return SecondStage(logits.softmax(1)[:, 1:], heads.box_coder.decode(deltas, [first.proposals])[:, 1:])


def download_weights() -> Mapping[str, Tensor]:
    """torchvision's weights, from its cache or the network."""
    state: Mapping[str, Tensor] = COCO_WEIGHTS.get_state_dict(progress=False, check_hash=True)
    return state


def load_torchvision(
    folder: Path, device: str = "cpu", download: Callable[[], Mapping[str, Tensor]] = download_weights, **settings: Any
) -> TwoStageDetector:
    """The extractor in `folder`; `settings` replace fields of its configuration.

    Raises ExtractorUnavailable if the weights can be neither read nor downloaded.
    """
    config = config_of(TorchvisionConfig, folder, {**read_config(folder), **settings})
    network = TorchvisionFasterRcnn(
        fasterrcnn_resnet50_fpn_v2(
            weights=None, weights_backbone=None, min_size=config.short_side, max_size=config.long_side
        )
    )
    weights = read_weights(folder / config.weights) if config.weights else _fetch(download)
    load_weights(network.model, weights, "fasterrcnn_resnet50_fpn_v2")
    digest = digest_of_extractor("torchvision", {**asdict(config), "weights": None}, network)
    detector = TwoStageDetector(network, tuple(COCO_WEIGHTS.meta["categories"][1:]), config, digest)
    return detector.eval().requires_grad_(False).to(device)


def _fetch(download: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
    try:
        return download()
    except OSError as problem:
        raise ExtractorUnavailable(
            f"torchvision could not download its weights ({problem}). Where there is a network, load"
            f" torchvision.models.detection's {COCO_WEIGHTS} once, or fetch {COCO_WEIGHTS.url}; then put the file into"
            ' the extractor\'s folder and name it in config.json: "weights": "FILE"'
        ) from problem
