"""Detector output as it is stored, one record a picture, and as search reads it."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from index.slab import Layout, Slab
from models.batches import Regions
from models.extractors.base import REGION, Detections, Extractor
from service.search.types import Box, Region

SEEN = ("boxes", "labels", "confidence", "mask")  # the fields that say where regions are and what they show


def region_layout(num_regions: int, feature_dim: int) -> Layout:
    """The record of one picture. Boxes are in pixels of the upright picture at full size.

    Of features that came without them boxes and confidence are NaN and labels -1.
    """
    return {
        "features": ((num_regions, feature_dim), "f2"),
        "boxes": ((num_regions, 4), "f4"),
        "labels": ((num_regions,), "i2"),
        "confidence": ((num_regions,), "f4"),
        "mask": ((num_regions,), "?"),
    }


@dataclass(frozen=True)
class Seen:
    """The real regions of one picture, and which of the detector's R rows they are: `mask` [R]."""

    mask: npt.NDArray[np.bool_]
    regions: Sequence[Region]


@dataclass(frozen=True)
class Found(Seen):
    """The same with what the matching models read: features [R D]."""

    features: npt.NDArray[np.floating]

    def as_batch(self) -> Regions:
        """The features as the matching models take them, one picture."""
        features = torch.from_numpy(np.asarray(self.features, dtype=np.float32))
        return Regions(vectors=features[None], mask=torch.from_numpy(self.mask)[None])


def listed(
    boxes: npt.NDArray[np.floating],
    labels: npt.NDArray[np.integer],
    confidence: npt.NDArray[np.floating],
    mask: npt.NDArray[np.bool_],
    names: Sequence[str],
) -> list[Region]:
    """The real regions of one picture with their labels in words."""
    regions = []
    for r in np.flatnonzero(mask):
        label = names[labels[r]] if 0 <= labels[r] < len(names) else REGION
        regions.append(Region(_box(boxes[r]), label, None if np.isnan(confidence[r]) else float(confidence[r])))
    return regions


def _box(edges: npt.NDArray[np.floating]) -> Box | None:
    if np.isnan(edges).any():
        return None
    x1, y1, x2, y2 = (round(float(edge), 1) for edge in edges)
    return x1, y1, x2, y2


def found_in(detections: Detections, names: Sequence[str], scale: tuple[float, float]) -> Found:
    """The first picture of `detections`; `scale` (x, y) takes its boxes to the upright picture's full size."""
    mask = detections.mask[0].cpu().numpy()
    boxes = detections.boxes[0].cpu().numpy() * np.array([*scale, *scale], dtype=np.float32)
    labels, confidence = detections.labels[0].cpu().numpy(), detections.confidence[0].cpu().numpy()
    regions = listed(boxes, labels, confidence, mask, names)
    return Found(mask, regions, detections.features[0].cpu().numpy())


class StoredRegions:
    """Reads the region records that a worker writes; opened at the first need, since they may not exist yet."""

    def __init__(self, folder: Path, extractor: Extractor) -> None:
        self._folder = folder
        self._layout = region_layout(extractor.num_regions, extractor.feature_dim)
        self._names = extractor.labels
        self._opening = threading.Lock()
        self._slab: Slab | None = None

    def _opened(self) -> Slab:
        with self._opening:
            if self._slab is None:
                self._slab = Slab.open(self._folder, self._layout, write=False)
            return self._slab

    def found(self, slot: int) -> Found:
        """Everything stored for the picture at `slot`."""
        record = self._record(slot, ["features", *SEEN])
        return Found(record["mask"], self._listed(record), record["features"])

    def seen(self, slot: int) -> Seen:
        """Its regions alone, without reading the features."""
        record = self._record(slot, SEEN)
        return Seen(record["mask"], self._listed(record))

    def _record(self, slot: int, fields: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
        return {name: rows[0] for name, rows in self._opened().read([slot], fields=fields).items()}

    def _listed(self, record: dict[str, npt.NDArray[Any]]) -> list[Region]:
        boxes, labels, confidence, mask = (record[name] for name in SEEN)
        return listed(boxes, labels, confidence, mask, self._names)

    def close(self) -> None:
        """Close the file."""
        with self._opening:
            if self._slab is not None:
                self._slab.close()
                self._slab = None
