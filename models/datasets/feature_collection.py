"""Pictures known by their features alone, read one by one from whatever layout they come in."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.datasets.bottom_up_tsv import Record, object_names, read_tsv
from models.datasets.feature_store import MANIFEST_FILE, Features, open_features
from models.datasets.scan_precomp import PUBLISHED_FEATURES, read_precomp, read_precomp_ids
from models.extractors.base import PICTURE, REGION

Captions = Mapping[str, Sequence[str]]
FORMAT = "regard features 1"


@dataclass(frozen=True, kw_only=True)
class Featured:
    """The n real regions of one picture; None for what its layout does not say."""

    name: str
    features: np.ndarray
    """[n F] float16."""
    boxes: np.ndarray | None = None
    """[n 4] float32, x1 y1 x2 y2 in pixels of the upright picture."""
    labels: tuple[str, ...]
    confidence: np.ndarray | None = None
    """[n] float32."""
    size: tuple[int, int] | None = None
    """Width and height."""
    captions: tuple[str, ...] = ()

    def image_id(self, extractor: str) -> str:
        """32 hex digits of the SHA-256 over what is stored of the regions: the same regions are the same picture.

        Hashed are FORMAT, then as JSON the extractor, the shape of the features, the labels, and whether boxes and
        confidence are known; then features, boxes and confidence as little-endian numbers.
        """
        known = [self.boxes is not None, self.confidence is not None]
        head = [FORMAT, extractor, list(self.features.shape), list(self.labels), known]
        state = hashlib.sha256(json.dumps(head).encode())
        for array, kind in ((self.features, "<f2"), (self.boxes, "<f4"), (self.confidence, "<f4")):
            if array is not None:
                state.update(np.ascontiguousarray(array, kind).tobytes())
        return state.hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Pictures of one extractor's features."""

    extractor: str
    num_regions: int
    """Room that a store should have for the regions of a picture."""
    feature_dim: int
    labels: tuple[str, ...] = ()
    """Names that regions may have."""
    total: int | None = None
    """How many pictures, where that is known beforehand."""
    pictures: Callable[[], Iterator[Featured]]


def open_collection(
    sources: Sequence[Path],
    *,
    split: str = "test",
    extractor: str = PUBLISHED_FEATURES,
    num_regions: int = 36,
    objects: Path | None = None,
    captions: Captions | None = None,
) -> Collection:
    """What `regard extract` wrote, a split of a folder in SCAN's layout, or bottom-up TSVs; told by what is there.

    `extractor` names what made the latter two; `num_regions` and `objects` concern TSVs. ValueError for anything else.
    """
    first = sources[0]
    if first.is_dir() and len(sources) > 1:
        raise ValueError("give one folder, or TSV files")
    if (first / MANIFEST_FILE).is_file():
        return of_extracted(first, captions or {})
    if (first / f"{split}_ims.npy").is_file():
        if captions:
            raise ValueError(f"{first} has captions of its own, {split}_caps.txt")
        return of_precomp(first, split, extractor)
    if first.is_dir():
        raise ValueError(f"{first} holds neither {MANIFEST_FILE}, as `regard extract` writes, nor {split}_ims.npy")
    return of_tsv(sources, extractor, num_regions, objects, captions or {})


def of_extracted(folder: Path, captions: Captions) -> Collection:
    """The pictures in a folder that `extract` wrote, or `convert_tsv`."""
    found = open_features(folder)
    _, num_regions, feature_dim = found.features.shape
    return Collection(
        extractor=found.digest,
        num_regions=num_regions,
        feature_dim=feature_dim,
        labels=found.label_names,
        total=len(found.ids),
        pictures=lambda: (_extracted(found, row, captions) for row in range(len(found.ids))),
    )


def _extracted(found: Features, row: int, captions: Captions) -> Featured:
    mask = found.mask[row]
    boxes, confidence = found.boxes[row][mask], found.confidence[row][mask]
    labels = tuple(found.label_names[label] for label in found.labels[row][mask])
    size = None
    if PICTURE in labels:  # its box is the picture's
        _, _, width, height = boxes[labels.index(PICTURE)]
        size = round(float(width)), round(float(height))
    return Featured(
        name=found.ids[row],
        features=found.features[row][mask],
        boxes=boxes,
        labels=labels,
        confidence=_known(confidence),
        size=size,
        captions=tuple(captions.get(found.ids[row], ())),
    )


def of_precomp(folder: Path, split: str, extractor: str) -> Collection:
    """The pictures of SCAN's arrays, which say nothing about their regions; named by the ids where there are some."""
    data = read_precomp(folder, split, extractor)
    if (folder / f"{split}_ids.txt").is_file():
        names: Sequence[str] = read_precomp_ids(folder, split)
    else:
        names = [f"{split} {number}" for number in range(len(data))]

    def pictures() -> Iterator[Featured]:
        for name, row, captions in zip(names, data.rows, data.captions, strict=True):
            features = half(data.features[row])
            yield Featured(name=name, features=features, labels=(REGION,) * len(features), captions=tuple(captions))

    return Collection(
        extractor=extractor,
        num_regions=data.features.shape[1],
        feature_dim=data.feature_dim,
        total=len(data),
        pictures=pictures,
    )


def of_tsv(
    files: Sequence[Path], extractor: str, num_regions: int, objects: Path | None, captions: Captions
) -> Collection:
    """The pictures of bottom-up TSVs, each once."""
    first = next(read_tsv(files), None)
    if first is None:
        raise ValueError(f"no picture in {', '.join(map(str, files))}")
    names = object_names(first, objects)
    return Collection(
        extractor=extractor,
        num_regions=num_regions,
        feature_dim=first.features.shape[1],
        labels=names,
        pictures=lambda: (_from_tsv(record, names, captions) for record in read_tsv(files)),
    )


def _from_tsv(record: Record, names: tuple[str, ...], captions: Captions) -> Featured:
    if len(record.labels) and not 0 <= record.labels.min() <= record.labels.max() < len(names):
        raise ValueError(f"{record.image} has an object that is none of the {len(names)} named")
    return Featured(
        name=record.image,
        features=half(record.features),
        boxes=record.boxes,
        labels=tuple(names[label] for label in record.labels),
        confidence=_known(record.confidence),
        size=record.size,
        captions=tuple(captions.get(record.image, ())),
    )


def half(features: np.ndarray) -> np.ndarray:
    """As they are stored; what float16 cannot hold is infinite, which whoever stores them finds."""
    with np.errstate(over="ignore"):
        return features.astype(np.float16)


def _known(confidence: np.ndarray) -> np.ndarray | None:
    return None if np.isnan(confidence).any() else confidence.astype(np.float32)
