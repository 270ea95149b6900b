"""Bottom-up attention's TSV files of region features (Anderson et al., 2018) -> a feature folder as `extract` makes.

Two layouts are public, both with base64 of raw numbers: six columns (the authors'), and ten with what each box shows
(LXMERT's). Which boxes of a picture are kept was decided by whoever wrote the file.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from models.datasets.feature_store import begin, write
from models.datasets.scan_precomp import PUBLISHED_FEATURES, read_lines

SIX_COLUMNS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
TEN_COLUMNS = (
    *("img_id", "img_h", "img_w", "objects_id", "objects_conf", "attrs_id", "attrs_conf"),
    *("num_boxes", "boxes", "features"),
)
NUM_OBJECTS = 1600  # classes of Visual Genome that the detector knows


class Record(NamedTuple):
    """The regions of one picture in a TSV."""

    image: str
    boxes: np.ndarray
    """[n 4] float32, x1 y1 x2 y2 in pixels."""
    features: np.ndarray
    """[n D] float32."""
    labels: np.ndarray
    """[n] index of the object; zeros in the six-column layout, which has none."""
    confidence: np.ndarray
    """[n], NaN in the six-column layout."""
    has_objects: bool
    size: tuple[int, int]
    """Width and height of the picture."""


@dataclass(frozen=True)
class TsvSource:
    """Who made the features of a TSV, as a feature folder records it."""

    num_regions: int
    feature_dim: int
    labels: tuple[str, ...]
    digest: str


def convert_tsv(
    files: Sequence[Path],
    out: Path,
    *,
    num_regions: int = 36,
    extractor: str = PUBLISHED_FEATURES,
    objects: Path | None = None,
    batch: int = 64,
) -> Iterator[int]:
    """Writes bottom-up TSVs as a feature folder; yields how many pictures are done, goes on after a kill.

    `objects` names the labels of LXMERT's layout, a line each. A picture that comes twice counts once. ValueError for
    a line of neither layout and for more boxes than `num_regions`.
    """
    ids = tuple(dict.fromkeys(line.split(b"\t", 1)[0].decode("utf-8") for _, line in _lines(files)))
    first = next(read_tsv(files), None)
    if first is None:
        raise ValueError(f"no picture in {', '.join(map(str, files)) or 'no files'}")
    source = TsvSource(num_regions, first.features.shape[1], object_names(first, objects), extractor)
    done = begin(source, ids, out)
    remaining = islice(read_tsv(files), done, None)
    while chunk := list(islice(remaining, batch)):
        done = write(source, done, _padded(chunk, source), out)
        yield done


def _lines(files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Where each line stands, and the line."""
    for path in files:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                yield f"{path}:{number}", line.rstrip(b"\r\n")


def read_tsv(files: Sequence[Path]) -> Iterator[Record]:
    """Each picture once, in the files' order."""
    seen: set[str] = set()
    for place, line in _lines(files):
        record = _record(place, line)
        if record.image not in seen:
            seen.add(record.image)
            yield record


def _record(place: str, line: bytes) -> Record:
    """One line of either layout."""
    values = line.split(b"\t")
    columns = {len(names): names for names in (SIX_COLUMNS, TEN_COLUMNS)}.get(len(values))
    if columns is None:
        raise ValueError(f"{place}: {len(values)} columns, where a bottom-up TSV has 6 or 10")
    held = dict(zip(columns, values, strict=True))
    try:
        num = int(held["num_boxes"])
        boxes = _array(held["boxes"], "<f4").reshape(num, 4)
        features = _array(held["features"], "<f4").reshape(num, -1)
        labels = _array(held["objects_id"], "<i8") if "objects_id" in held else np.zeros(num, np.int64)
        confidence = _array(held["objects_conf"], "<f4") if "objects_conf" in held else np.full(num, np.nan)
        side = "image_" if "image_w" in held else "img_"
        size = int(held[f"{side}w"]), int(held[f"{side}h"])
        if not len(labels) == len(confidence) == num:
            raise ValueError("objects differ in number from boxes")
    except ValueError as problem:
        raise ValueError(f"{place}: {problem}; the file is damaged or cut off") from problem
    return Record(values[0].decode("utf-8"), boxes, features, labels, confidence, "objects_id" in held, size)


def _array(text: bytes, kind: str) -> np.ndarray:
    """Numbers in base64."""
    return np.frombuffer(base64.b64decode(text, validate=True), kind)


def object_names(first: Record, objects: Path | None) -> tuple[str, ...]:
    """What the labels of records like the first stand for."""
    if not first.has_objects:
        return ("region",)
    if objects is None:
        return tuple(f"object {index}" for index in range(NUM_OBJECTS))
    return tuple(line.split(",")[0] for line in read_lines(objects))


def _padded(records: Sequence[Record], source: TsvSource) -> Mapping[str, np.ndarray]:
    """Arrays of several pictures, with room for the source's number of regions each."""
    K, R = len(records), source.num_regions
    padded: dict[str, np.ndarray] = {
        "features": np.zeros((K, R, source.feature_dim), np.float16),
        "boxes": np.zeros((K, R, 4), np.float32),
        "labels": np.zeros((K, R), np.int16),
        "confidence": np.zeros((K, R), np.float32),
        "mask": np.zeros((K, R), bool),
    }
    for row, record in enumerate(records):
        num = len(record.boxes)
        if num > R:
            raise ValueError(f"{record.image} has {num} boxes, and there is room for {R}: ask for more regions")
        if record.features.shape[1] != source.feature_dim:
            raise ValueError(f"{record.image} has features of {record.features.shape[1]}, not {source.feature_dim}")
        if num and not 0 <= record.labels.min() <= record.labels.max() < len(source.labels):
            raise ValueError(f"{record.image} has an object that is none of the {len(source.labels)} named")
        for name in ("features", "boxes", "labels", "confidence"):
            padded[name][row, :num] = getattr(record, name)
        padded["mask"][row, :num] = True
    return padded
