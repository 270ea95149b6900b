"""Faster R-CNN on a small backbone: from pixels to boxes, classes and one feature vector per region.

With `concept_dim` the boxes of a one-stage detector are added, and a feature ends with a concept vector.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import PIL.Image
import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import FeaturePyramidNetwork

from models.extractors.backbones.base import STRIDE, Backbone, Maps
from models.extractors.backbones.registry import build_backbone
from models.extractors.base import PICTURE, REGION, Detections, Extractor
from models.extractors.config import CONFIG_FILE, config_of, read_config
from models.extractors.faster_rcnn.concepts import ConceptHead
from models.extractors.faster_rcnn.config import DetectorConfig
from models.extractors.faster_rcnn.heads import build_proposer, build_region_heads
from models.extractors.faster_rcnn.joint_selection import JointRegions, select_joint_regions
from models.extractors.faster_rcnn.picture_network import PictureNetwork, shared_vector
from models.extractors.faster_rcnn.region_features import mean_inside_boxes, region_features
from models.extractors.faster_rcnn.sentence_map import SentenceMap
from models.extractors.faster_rcnn.yolox import OneStageBoxes, YoloxNano, canvas_size, letterbox
from models.extractors.imagenet_classes import IMAGENET_CLASSES
from models.extractors.region_selection import SelectedRegions, select_regions
from models.extractors.resize import fit_size, stack_resized
from models.quantised_rows import dequantise_all, quantise_rows
from models.safe_load.weight_files import load_weights, read_safetensors
from models.single_threads import single_threads
from models.whole_files import write_tensors, write_whole

WEIGHTS_FILE = "model.safetensors"
# Prefixes of weights that find and refine boxes: one byte per weight would shift boxes and save little.
BOX_PARTS = ("neck.", "proposer.", "heads.", "one_stage.")


class RefinedProposals(NamedTuple):
    """The P proposals of one picture, corrected by the box head."""

    boxes: Float[Tensor, "P 4"]
    """In pixels of the resized picture."""
    probabilities: Float[Tensor, "P C"]
    """Of the classes, background first."""


class FasterRcnn(Extractor):
    """Region proposals, class head and box head on a feature pyramid over the backbone's maps."""

    def __init__(self, config: DetectorConfig, backbone: Backbone | None = None) -> None:
        super().__init__()
        self.config = config
        self.feature_dim = config.feature_dim
        self.num_regions = config.num_regions
        self.labels = (*config.labels, PICTURE)
        self.digest = "untrained"
        self.backbone = backbone or build_backbone(config.backbone)
        self.neck = FeaturePyramidNetwork(list(self.backbone.channels.values()), config.neck_width)
        self.proposer = build_proposer(config.neck_width, config.num_proposals)
        self.heads = build_region_heads(config.neck_width, config.head_width, 1 + len(config.labels))
        if config.concept_dim:
            self.labels = (*config.labels, *IMAGENET_CLASSES, REGION, PICTURE)
            self.one_stage = YoloxNano(len(config.labels))
            self.concepts = ConceptHead(len(config.labels), config.concept_dim)
        if config.sentence_map:
            self.sentence_map = SentenceMap(config.concept_dim)
        if config.picture_backbone:
            self.picture_network = PictureNetwork(config.picture_backbone, config.concept_dim, config.picture_mirrored)

    def losses(
        self, pixels: UInt8[Tensor, "K 3 H W"], targets: list[dict[str, Tensor]]
    ) -> dict[str, Float[Tensor, ""]]:
        """Losses of proposals, classes and boxes in training mode.

        `targets` are torchvision's: for each picture "boxes" in pixels and "labels", of which 0 would be background.
        """
        pyramid = self.neck(self._maps(pixels)._asdict())
        images = _images(pixels)
        proposals, proposal_losses = self.proposer(images, pyramid, targets)
        _, head_losses = self.heads(pyramid, proposals, images.image_sizes, targets)
        return {**proposal_losses, **head_losses}

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """Regions of upright RGB pictures.

        On a GPU, pictures that are resized to one size share a pass, so that none is padded. On a CPU, each has its own
        pass, in parallel in as many threads as PyTorch's operators would use: the maps of eight pictures do not fit its
        caches, and threads that share a layer wait for each other. For a single picture, the networks run in parallel.
        """
        if next(self.parameters()).is_cuda:
            return self._extract_in_batches(pictures)
        threads = torch.get_num_threads()
        if len(pictures) == 1:
            return self._extract_same_size(list(pictures), threads)
        if threads == 1:
            return self.joined([self._extract_same_size([picture]) for picture in pictures])
        return self.joined(single_threads(threads).map(lambda picture: self._extract_same_size([picture]), pictures))

    def _extract_in_batches(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        same_size: dict[tuple[int, ...], list[int]] = {}
        for number, picture in enumerate(pictures):
            same_size.setdefault(self._sizes(picture), []).append(number)
        passes = [
            numbers[start : start + self.config.batch]
            for numbers in same_size.values()
            for start in range(0, len(numbers), self.config.batch)
        ]
        detections = self.joined(
            [self._extract_same_size([pictures[number] for number in numbers]) for numbers in passes]
        )
        order = torch.tensor([number for numbers in passes for number in numbers]).argsort()
        return detections[order.to(detections.mask.device)]

    def _sizes(self, picture: PIL.Image.Image) -> tuple[int, ...]:
        """Width and height of a picture at both scales and, with concepts, of the one-stage detector's canvas."""
        side = self.config.side
        sizes = (*fit_size(*picture.size, side, STRIDE), *fit_size(*picture.size, side / 2, STRIDE))
        return (*sizes, *canvas_size(*picture.size, self.config.one_stage_side)) if self.config.concept_dim else sizes

    @torch.no_grad()
    def _extract_same_size(self, pictures: list[PIL.Image.Image], threads: int = 1) -> Detections:
        """The regions of pictures that are resized to one size, by networks in parallel in `threads` threads."""
        sizes = self._sizes(pictures[0])
        pixels, half = (self._pixels(pictures, size) for size in (sizes[:2], sizes[2:4]))
        full_maps, half_maps, one_stage, whole = _results(
            [
                partial(self._maps, pixels),
                partial(self._maps, half),
                partial(self._find_in_one_stage, pictures),
                partial(self._describe_whole, pictures),
            ],
            threads,
        )
        scales = (full_maps, half_maps)
        if self.config.concept_dim:
            joint = self._find_joint_regions(one_stage, full_maps, pixels)
            detections = self._describe_with_concepts(scales, joint, whole)
        else:
            regions = self._find_regions(full_maps, pixels)
            detections = Detections(features=self._features(scales, regions), **regions.tensors())
        zoom = [[picture.width / sizes[0], picture.height / sizes[1]] * 2 for picture in pictures]
        return replace(detections, boxes=detections.boxes * detections.boxes.new_tensor(zoom)[:, None])

    def _pixels(self, pictures: list[PIL.Image.Image], size: tuple[int, ...]) -> UInt8[Tensor, "K 3 H W"]:
        width, height = size
        return stack_resized(pictures, (width, height)).to(next(self.parameters()).device)

    def _maps(self, pixels: UInt8[Tensor, "K 3 H W"]) -> Maps:
        """The backbone's maps. Unless they are trained, a GPU computes them in half precision, channels last."""
        inputs = self.backbone.normalise(pixels)
        if self.training or not pixels.is_cuda:
            maps: Maps = self.backbone(inputs)
            return maps
        with _half_precision_on_gpu(pixels):
            maps = self.backbone(inputs.contiguous(memory_format=torch.channels_last))
        return Maps(*(each.to(inputs.dtype) for each in maps))

    def _features(
        self, scales: tuple[Maps, Maps], regions: SelectedRegions | JointRegions, wide: Tensor | None = None
    ) -> Float[Tensor, "K R 1280"]:
        config = self.config
        return region_features(
            self.backbone, config.feature, config.cells, scales, regions.boxes, regions.mask, config.surroundings, wide
        )

    def _find_regions(self, maps: Maps, pixels: UInt8[Tensor, "K 3 H W"]) -> SelectedRegions:
        """The regions of resized pictures, boxes in their pixels."""
        size = _images(pixels).image_sizes[0]
        return SelectedRegions.cat(
            [
                select_regions(boxes, probabilities[:, 1:], size, self.config)
                for boxes, probabilities in self._refine_proposals(maps, pixels)
            ]
        )

    def _refine_proposals(self, maps: Maps, pixels: UInt8[Tensor, "K 3 H W"]) -> list[RefinedProposals]:
        """The proposals of each resized picture."""
        pyramid = self.neck(maps._asdict())
        images = _images(pixels)
        proposals, _ = self.proposer(images, pyramid)
        pooled = self.heads.box_roi_pool(pyramid, proposals, images.image_sizes)
        logits, corrections = self.heads.box_predictor(self.heads.box_head(pooled))
        refined = self.heads.box_coder.decode(corrections[:, :4], proposals)[:, 0]
        counts = [len(boxes) for boxes in proposals]
        return list(map(RefinedProposals, refined.split(counts), logits.softmax(1).split(counts)))

    def _find_in_one_stage(self, pictures: list[PIL.Image.Image]) -> list[OneStageBoxes]:
        """The boxes of the one-stage detector, if there is one, as fractions of the pictures' sides."""
        if not self.config.concept_dim:
            return []
        boxed = [letterbox(picture, self.config.one_stage_side) for picture in pictures]
        return self.one_stage.detect(boxed, self.config.one_stage_score)

    def _find_joint_regions(
        self, one_stage: list[OneStageBoxes], maps: Maps, pixels: UInt8[Tensor, "K 3 H W"]
    ) -> JointRegions:
        """The regions of both detectors in resized pictures, boxes in their pixels."""
        config, (height, width) = self.config, pixels.shape[2:]
        zoom = maps.stride32.new_tensor([width, height, width, height])
        return JointRegions.cat(
            [
                select_joint_regions(
                    (boxes * zoom, scores), (refined, 1 - probabilities[:, 0]), (height, width), config
                )
                for (boxes, scores), (refined, probabilities) in zip(
                    one_stage, self._refine_proposals(maps, pixels), strict=True
                )
            ]
        )

    def _describe_whole(self, pictures: list[PIL.Image.Image]) -> Float[Tensor, "K D"] | None:
        """The vectors of whole pictures by the second network, if there is one."""
        if not self.config.picture_backbone:
            return None
        side = self.config.picture_side
        pixels = self._pixels(pictures, (side, side))
        with _half_precision_on_gpu(pixels):
            vectors: Tensor = self.picture_network(pixels)
        return vectors.float()

    def _describe_with_concepts(
        self, scales: tuple[Maps, Maps], regions: JointRegions, whole: Float[Tensor, "K D"] | None
    ) -> Detections:
        """Features, labels and confidence of the regions: the whole picture, then the most confident first."""
        config, mask = self.config, regions.mask
        wide = self.backbone.widen(scales[0].stride32)
        rois = torch.cat([mask.nonzero()[:, :1].to(regions.boxes.dtype), regions.boxes[mask]], 1)
        means = mean_inside_boxes(wide, rois, config.cells)
        concepts = self.concepts(means, regions.posteriors[mask], config.coco_weight, config.min_label)
        vectors = means.new_zeros(*mask.shape, config.concept_dim)
        labels, confidence = mask.new_zeros(mask.shape, dtype=torch.int64), means.new_zeros(mask.shape)
        vectors[mask], labels[mask], confidence[mask] = concepts
        if config.whole_picture:
            labels[:, 0], confidence[:, 0] = len(self.labels) - 1, 1.0
        features = self._features(scales, regions, wide)
        if config.sentence_map:
            features = self.sentence_map(features, config.whole_picture) * mask.unsqueeze(2)
        if whole is not None:
            features[:, 0] = shared_vector(features[:, 0], whole, config.picture_share)
        features = torch.cat([features, vectors], 2)
        order = confidence.argsort(dim=1, descending=True, stable=True)
        unordered = Detections(features, regions.boxes, labels, confidence, mask).tensors()
        return Detections(
            **{
                name: tensor.take_along_dim(order.view(*order.shape, *[1] * (tensor.dim() - 2)), 1)
                for name, tensor in unordered.items()
            }
        )


def _results(calls: Sequence[Callable[[], Any]], threads: int) -> list[Any]:
    """The result of each call, without gradients; computed in `threads` threads."""
    if threads == 1:
        return [each() for each in calls]

    def run(each: Callable[[], Any]) -> Any:
        with torch.no_grad():  # a setting of each thread
            return each()

    return single_threads(threads).map(run, calls)


def _half_precision_on_gpu(pixels: Tensor) -> AbstractContextManager[object]:
    return torch.autocast("cuda", torch.float16) if pixels.is_cuda else nullcontext()


def _images(pixels: UInt8[Tensor, "K 3 H W"]) -> ImageList:
    """A batch of pictures of one size in torchvision's form."""
    height, width = pixels.shape[2:]
    return ImageList(pixels, [(height, width)] * len(pixels))


def detector_to_device(detector: FasterRcnn, device: str) -> FasterRcnn:
    """Move the detector to `device`, with channels-last convolutions, which are fastest."""
    return detector.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def save_detector(detector: FasterRcnn, folder: Path, in_bytes: bool = False) -> None:
    """Write configuration and weights to `folder`, as fp16; `in_bytes`, larger layers take a byte per weight, except
    those that find boxes."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.cpu() for name, tensor in detector.state_dict().items()}
    stored = _in_bytes(state) if in_bytes else {name: tensor.half() for name, tensor in state.items()}
    write_tensors(folder / WEIGHTS_FILE, stored)
    write_whole(folder / CONFIG_FILE, (json.dumps(detector.config.to_json(), indent=2) + "\n").encode())


def _in_bytes(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Layers whose row length is a multiple of 8 as planes of 8 bits and a scale per row; the others, and those that
    find boxes, as fp16."""
    stored: dict[str, Tensor] = {}
    for name, tensor in state.items():
        rows = tensor.flatten(1) if tensor.dim() > 1 else tensor
        if rows.dim() == 2 and rows.shape[1] % 8 == 0 and not name.startswith(BOX_PARTS):
            stored |= {name + ending: part for ending, part in quantise_rows(rows.float(), bits=8).items()}
        else:
            stored[name] = tensor.half()
    return stored


def read_detector_weights(file: Path, shapes: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that `save_detector` wrote, in float32; quantised rows get the shapes of their layers.

    Raises RefusedFile for a damaged file.
    """
    weights = dequantise_all(read_safetensors(file))
    return {
        name: tensor.view(shapes[name].shape) if name in shapes and tensor.numel() == shapes[name].numel() else tensor
        for name, tensor in weights.items()
    }


def load_detector(folder: Path, device: str = "cpu", **settings: Any) -> FasterRcnn:
    """The detector saved in `folder`; `settings` replace fields of its configuration, and change its digest.

    Raises BadExtractor for an invalid configuration, RefusedFile for weights that do not belong to it.
    """
    config = config_of(DetectorConfig, folder, {**read_config(folder), **settings})
    detector = FasterRcnn(config)
    weights = folder / WEIGHTS_FILE
    load_weights(detector, read_detector_weights(weights, detector.state_dict()), f"the detector of {folder}")
    identity = json.dumps(config.to_json(), sort_keys=True).encode() + weights.read_bytes()
    detector.digest = hashlib.sha256(identity).hexdigest()[:32]
    detector.eval().requires_grad_(False)
    return detector_to_device(detector, device)
