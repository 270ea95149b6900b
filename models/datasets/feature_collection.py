"""Pictures of which only features are known, read from a feature folder, SCAN's layout or bottom-up TSVs."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.datasets.bottom_up_tsv import TsvRecord, object_names, read_tsv
from models.datasets.feature_store import MANIFEST_FILE, ExtractedFeatures, open_features
from models.datasets.scan_precomp import PUBLISHED_FEATURES, read_precomp, read_precomp_ids
from models.extractors.base import PICTURE, REGION

CaptionsOf = Mapping[str, Sequence[str]]  # name of a picture -> its captions
ID_FORMAT = "regard features 1"


@dataclass(frozen=True, kw_only=True)
class FeatureRecord:
    """The n regions of one picture, without padding; None for what its layout lacks."""

    name: str
    features: np.ndarray
    """[n F] float16."""
    boxes: np.ndarray | None = None
    """[n 4] float32, x1 y1 x2 y2 in pixels of the upright picture."""
    labels: tuple[str, ...]
    """The name of each region."""
    confidence: np.ndarray | None = None
    """[n] float32."""
    size: tuple[int, int] | None = None
    """Width and height of the picture."""
    captions: tuple[str, ...] = ()

    def image_id(self, extractor: str) -> str:
        """The id of the picture: 32 hex digits of the SHA-256 over its regions, so that equal regions have one id.

        The hash covers a JSON list of ID_FORMAT, the extractor, the shape of the features, the labels, and whether
        boxes and confidence are known; then features, boxes and confidence as little-endian numbers.
        """
        known = [self.boxes is not None, self.confidence is not None]
        head = [ID_FORMAT, extractor, list(self.features.shape), list(self.labels), known]
        state = hashlib.sha256(json.dumps(head).encode())
        for array, kind in ((self.features, "<f2"), (self.boxes, "<f4"), (self.confidence, "<f4")):
            if array is not None:
                state.update(np.ascontiguousarray(array, kind).tobytes())
        return state.hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class FeatureCollection:
    """Pictures whose features were made by one extractor."""

    extractor: str
    num_regions: int
    """The most regions that a picture may have."""
    feature_dim: int
    """The width of a region's feature."""
    labels: tuple[str, ...] = ()
    """All names of regions."""
    total: int | None = None
    """The number of pictures, if it is known beforehand."""
    pictures: Callable[[], Iterator[FeatureRecord]]
    """Reads the pictures from the start."""


def open_collection(
    sources: Sequence[Path],
    *,
    split: str = "test",
    extractor: str = PUBLISHED_FEATURES,
    num_regions: int = 36,
    objects: Path | None = None,
    captions: CaptionsOf | None = None,
) -> FeatureCollection:
    """The pictures in a feature folder (of `regard extract`), in a folder of SCAN's layout, or in bottom-up TSVs.

    The files decide which of them it is. `extractor` names what made the latter two; `num_regions` and `objects` are
    for TSVs. Raises ValueError for anything else.
    """
    first = sources[0]
    if first.is_dir() and len(sources) > 1:
        raise ValueError("give one folder, or TSV files")
    if (first / MANIFEST_FILE).is_file():
        return open_feature_folder(first, captions or {})
    if (first / f"{split}_ims.npy").is_file():
        if captions:
            raise ValueError(f"{first} has captions of its own, {split}_caps.txt")
        return open_precomp(first, split, extractor)
    if first.is_dir():
        raise ValueError(f"{first} holds neither {MANIFEST_FILE}, as `regard extract` writes, nor {split}_ims.npy")
    return open_tsv(sources, extractor, num_regions, objects, captions or {})


def open_feature_folder(folder: Path, captions: CaptionsOf) -> FeatureCollection:
    """The pictures in a folder that `extract_features` or `convert_tsv` wrote."""
    stored = open_features(folder)
    _, num_regions, feature_dim = stored.features.shape
    return FeatureCollection(
        extractor=stored.digest,
        num_regions=num_regions,
        feature_dim=feature_dim,
        labels=stored.label_names,
        total=len(stored.ids),
        pictures=lambda: (_record_of_row(stored, row, captions) for row in range(len(stored.ids))),
    )


def _record_of_row(stored: ExtractedFeatures, row: int, captions: CaptionsOf) -> FeatureRecord:
    mask = stored.mask[row]
    boxes, confidence = stored.boxes[row][mask], stored.confidence[row][mask]
    labels = tuple(stored.label_names[label] for label in stored.labels[row][mask])
    size = None
    if PICTURE in labels:  # its box is the whole picture
        _, _, width, height = boxes[labels.index(PICTURE)]
        size = round(float(width)), round(float(height))
    return FeatureRecord(
        name=stored.ids[row],
        features=stored.features[row][mask],
        boxes=boxes,
        labels=labels,
        confidence=_without_nan(confidence),
        size=size,
        captions=tuple(captions.get(stored.ids[row], ())),
    )


def open_precomp(folder: Path, split: str, extractor: str) -> FeatureCollection:
    """The pictures of a split in SCAN's layout, named by its ids or else numbered; their regions have no boxes."""
    data = read_precomp(folder, split, extractor)
    if (folder / f"{split}_ids.txt").is_file():
        names: Sequence[str] = read_precomp_ids(folder, split)
    else:
        names = [f"{split} {number}" for number in range(len(data))]

    def pictures() -> Iterator[FeatureRecord]:
        for name, row, captions in zip(names, data.rows, data.captions, strict=True):
            features = to_float16(data.features[row])
            yield FeatureRecord(
                name=name, features=features, labels=(REGION,) * len(features), captions=tuple(captions)
            )

    return FeatureCollection(
        extractor=extractor,
        num_regions=data.features.shape[1],
        feature_dim=data.feature_dim,
        total=len(data),
        pictures=pictures,
    )


def open_tsv(
    files: Sequence[Path], extractor: str, num_regions: int, objects: Path | None, captions: CaptionsOf
) -> FeatureCollection:
    """The pictures of bottom-up TSVs, each once. Raises ValueError if there is none."""
    first = next(read_tsv(files), None)
    if first is None:
        raise ValueError(f"no picture in {', '.join(map(str, files))}")
    names = object_names(first, objects)
    return FeatureCollection(
        extractor=extractor,
        num_regions=num_regions,
        feature_dim=first.features.shape[1],
        labels=names,
        pictures=lambda: (_record_of_line(record, names, captions) for record in read_tsv(files)),
    )


def _record_of_line(record: TsvRecord, names: tuple[str, ...], captions: CaptionsOf) -> FeatureRecord:
    if len(record.labels) and not 0 <= record.labels.min() <= record.labels.max() < len(names):
        raise ValueError(f"{record.image} has an object that is none of the {len(names)} named")
    return FeatureRecord(
        name=record.image,
        features=to_float16(record.features),
        boxes=record.boxes,
        labels=tuple(names[label] for label in record.labels),
        confidence=_without_nan(record.confidence),
        size=record.size,
        captions=tuple(captions.get(record.image, ())),
    )


def to_float16(features: np.ndarray) -> np.ndarray:
    """Features as they are stored; numbers too large for float16 become infinite, which the caller checks."""
    with np.errstate(over="ignore"):
        return features.astype(np.float16)


def _without_nan(confidence: np.ndarray) -> np.ndarray | None:
    return None if np.isnan(confidence).any() else confidence.astype(np.float32)
