"""Region records: the stored regions of each picture, their layout, packing and reading.

All knowledge of a record's layout is here: the worker and the import of features pack records, repairs write blank
ones, searches read them.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from index.views.slab import Layout, Slab
from models.batches import Regions
from models.extractors.base import REGION, Detections, Extractor

Records: TypeAlias = dict[str, npt.NDArray[Any]]
"""Field -> [pictures, ...] array."""
Edges: TypeAlias = tuple[float, float, float, float]

DESCRIPTION = ("boxes", "labels", "confidence", "mask")  # the fields for display; the rest is for models
UNKNOWN_LABEL = -1


@dataclass(frozen=True)
class RecordLayout:
    """Records of pictures with `num_regions` regions of `feature_dim` numbers each.

    Boxes are x1 y1 x2 y2 in pixels of the upright picture at full size. Where features came without them, boxes and
    confidence are NaN and labels UNKNOWN_LABEL. `mask` is True for real regions; rows of padding are zero.
    """

    num_regions: int
    feature_dim: int

    @classmethod
    def of(cls, extractor: Extractor) -> Self:
        """The record layout of an extractor."""
        return cls(extractor.num_regions, extractor.feature_dim)

    @property
    def fields(self) -> Layout:
        """Field -> shape and dtype, as in a slab's layout."""
        return {
            "features": ((self.num_regions, self.feature_dim), "f2"),
            "boxes": ((self.num_regions, 4), "f4"),
            "labels": ((self.num_regions,), "i2"),
            "confidence": ((self.num_regions,), "f4"),
            "mask": ((self.num_regions,), "?"),
        }

    def open(self, folder: Path, write: bool) -> Slab:
        """The slab of such records; LayoutMismatch where the folder has another layout."""
        return Slab.open(folder, self.fields, write)

    def blank(self, count: int) -> Records:
        """Records of pictures without any region."""
        return {name: np.zeros((count, *shape), dtype) for name, (shape, dtype) in self.fields.items()}


def pack(detections: Detections, scales: Sequence[tuple[float, float]]) -> Records:
    """Detections as records; `scales` (x, y) enlarge each picture's boxes to its full size.

    ValueError for features that are not finite numbers in fp16.
    """
    on_cpu = detections.to("cpu")
    features = on_cpu.features.half().numpy()
    if not np.isfinite(features).all():
        raise ValueError("the detector gave features that are not finite")
    scale = np.array([[x, y, x, y] for x, y in scales], dtype=np.float32)
    return {
        "features": features,
        "boxes": on_cpu.boxes.float().numpy() * scale[:, None],
        "labels": on_cpu.labels.numpy().astype(np.int16),
        "confidence": on_cpu.confidence.float().numpy(),
        "mask": on_cpu.mask.numpy(),
    }


def pack_features(
    records: Records,
    row: int,
    features: npt.NDArray[np.floating],
    *,
    boxes: npt.NDArray[np.floating] | None,
    labels: Sequence[int],
    confidence: npt.NDArray[np.floating] | None,
) -> None:
    """Fill one row of blank records with a picture's [n, feature_dim] features; boxes and confidence are None where
    unknown."""
    real = slice(len(features))
    records["features"][row, real] = features
    records["boxes"][row, real] = np.nan if boxes is None else boxes
    records["labels"][row, real] = labels
    records["confidence"][row, real] = np.nan if confidence is None else confidence
    records["mask"][row, real] = True


@dataclass(frozen=True)
class Region:
    """A region as displayed; box and confidence are None where features came without them."""

    box: Edges | None
    label: str
    confidence: float | None


@dataclass(frozen=True)
class PictureRegions:
    """The real regions of one picture, and their rows among the R rows of the record: `mask` [R]."""

    mask: npt.NDArray[np.bool_]
    regions: Sequence[Region]


@dataclass(frozen=True)
class PictureFeatures(PictureRegions):
    """Regions with the features for models: `features` [R D]."""

    features: npt.NDArray[np.floating]

    def as_batch(self) -> Regions:
        """A batch of this one picture."""
        features = torch.from_numpy(np.asarray(self.features, dtype=np.float32))
        return Regions(vectors=features[None], mask=torch.from_numpy(self.mask)[None])


def detected_features(
    detections: Detections, scale: tuple[float, float], label_names: Sequence[str]
) -> PictureFeatures:
    """The detections of an extractor's first picture, in full precision; `scale` as in `pack`."""
    on_cpu = detections.to("cpu")
    record = {name: tensor[0].numpy() for name, tensor in on_cpu.tensors().items()}
    record["boxes"] = record["boxes"] * np.array([*scale, *scale], dtype=np.float32)
    return PictureFeatures(record["mask"], _regions(record, label_names), record["features"])


def _regions(record: Records, label_names: Sequence[str]) -> list[Region]:
    """The real regions of one picture's record, with their labels as text."""
    boxes, labels, confidence = record["boxes"], record["labels"], record["confidence"]
    return [
        Region(
            box=_box(boxes[row]),
            label=label_names[labels[row]] if 0 <= labels[row] < len(label_names) else REGION,
            confidence=None if np.isnan(confidence[row]) else float(confidence[row]),
        )
        for row in np.flatnonzero(record["mask"])
    ]


def _box(edges: npt.NDArray[np.floating]) -> Edges | None:
    if np.isnan(edges).any():
        return None
    x1, y1, x2, y2 = (round(float(edge), 1) for edge in edges)
    return x1, y1, x2, y2


class RegionStore:
    """Reads the region records that a worker writes; opened when first needed, since they may not exist yet."""

    def __init__(self, folder: Path, extractor: Extractor) -> None:
        self._folder = folder
        self._layout = RecordLayout.of(extractor)
        self._label_names = extractor.labels
        self._lock = threading.Lock()
        self._slab: Slab | None = None

    def features(self, slot: int) -> PictureFeatures:
        """Everything stored for the picture at `slot`."""
        record = self._record(slot, ["features", *DESCRIPTION])
        return PictureFeatures(record["mask"], _regions(record, self._label_names), record["features"])

    def regions(self, slot: int) -> PictureRegions:
        """The regions of the picture at `slot`, without reading its features."""
        record = self._record(slot, DESCRIPTION)
        return PictureRegions(record["mask"], _regions(record, self._label_names))

    def confidence_of_second(self, slots: Sequence[int]) -> npt.NDArray[np.float32]:
        """The second-highest confidence among each picture's regions: the highest belongs to the whole picture. NaN
        where features came without confidence."""
        confidence = np.sort(self.open().read(slots, fields=["confidence"])["confidence"], axis=1)
        second: npt.NDArray[np.float32] = confidence[:, -2:][:, 0]
        return second

    def _record(self, slot: int, fields: Sequence[str]) -> Records:
        return {name: rows[0] for name, rows in self.open().read([slot], fields=fields).items()}

    def open(self) -> Slab:
        """The slab, opened if needed; FileNotFoundError where there is none."""
        with self._lock:
            if self._slab is None:
                self._slab = self._layout.open(self._folder, write=False)
            return self._slab

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._slab is not None:
                self._slab.close()
                self._slab = None
