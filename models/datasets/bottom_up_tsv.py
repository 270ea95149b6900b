"""Bottom-up attention's TSV files of region features (Anderson et al., 2018), and their conversion to feature folders.

Two layouts are public, both with numbers in base64: the authors' six columns, and LXMERT's ten, which also name the
object in each box. The files' authors decided which boxes of a picture are kept.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from models.datasets.captions import read_lines
from models.datasets.feature_store import begin_folder, write_regions
from models.datasets.scan_precomp import PUBLISHED_FEATURES

SIX_COLUMNS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
TEN_COLUMNS = (
    *("img_id", "img_h", "img_w", "objects_id", "objects_conf", "attrs_id", "attrs_conf"),
    *("num_boxes", "boxes", "features"),
)
NUM_OBJECTS = 1600  # classes of Visual Genome that the detector knows


class TsvRecord(NamedTuple):
    """One line of a TSV: the n regions of a picture."""

    image: str
    boxes: np.ndarray
    """[n 4] float32, x1 y1 x2 y2 in pixels."""
    features: np.ndarray
    """[n D] float32."""
    labels: np.ndarray
    """[n] indices of objects; zeros in the six-column layout, which has none."""
    confidence: np.ndarray
    """[n] between 0 and 1; NaN in the six-column layout."""
    has_objects: bool
    """Whether the layout names objects."""
    size: tuple[int, int]
    """Width and height of the picture."""


@dataclass(frozen=True)
class TsvSource:
    """The shape and origin of a TSV's features, as a feature folder records them."""

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
    """Write the pictures of bottom-up TSVs to the feature folder `out`, resuming an earlier run.

    `extractor` names what made the features, `objects` is a file with the names of LXMERT's labels, one a line.
    Repeated pictures count once. Yields the number of pictures done. Raises ValueError for a line of neither layout,
    without boxes or with more than `num_regions`.
    """
    ids = tuple(dict.fromkeys(line.split(b"\t", 1)[0].decode("utf-8") for _, line in _numbered_lines(files)))
    first = next(read_tsv(files), None)
    if first is None:
        raise ValueError(f"no picture in {', '.join(map(str, files)) or 'no files'}")
    source = TsvSource(num_regions, first.features.shape[1], object_names(first, objects), extractor)
    done = begin_folder(source, ids, out)
    remaining = islice(read_tsv(files), done, None)
    while records := list(islice(remaining, batch)):
        done = write_regions(source, done, _padded_arrays(records, source), out)
        yield done


def _numbered_lines(files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Every line of the files with its position "FILE:NUMBER" before it."""
    for path in files:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                yield f"{path}:{number}", line.rstrip(b"\r\n")


def read_tsv(files: Sequence[Path]) -> Iterator[TsvRecord]:
    """The pictures of the files in their order, each once. Raises ValueError for a line of neither layout."""
    seen: set[str] = set()
    for position, line in _numbered_lines(files):
        record = _parse_line(position, line)
        if record.image not in seen:
            seen.add(record.image)
            yield record


def _parse_line(position: str, line: bytes) -> TsvRecord:
    """The record in a line of either layout. Raises ValueError, whose message begins with `position`."""
    values = line.split(b"\t")
    columns = {len(names): names for names in (SIX_COLUMNS, TEN_COLUMNS)}.get(len(values))
    if columns is None:
        raise ValueError(f"{position}: {len(values)} columns, where a bottom-up TSV has 6 or 10")
    value_of = dict(zip(columns, values, strict=True))
    if value_of["num_boxes"] == b"num_boxes":
        raise ValueError(f"{position}: this line names the columns, which this format does without: take it out")
    if not value_of["num_boxes"].strip(b" +-0"):
        raise ValueError(f"{position}: {values[0].decode()} has no boxes, and so no score: leave its line out")
    has_objects = "objects_id" in value_of
    try:
        num = int(value_of["num_boxes"])
        boxes, features = (_decode_array(value_of[name], "<f4") for name in ("boxes", "features"))
        if len(boxes) != 4 * num or len(features) % num:
            raise ValueError(f"{num} boxes are told, and there are {len(boxes) / 4:g}, with {len(features)} numbers")
        boxes, features = boxes.reshape(num, 4), features.reshape(num, -1)
        labels = _decode_array(value_of["objects_id"], "<i8") if has_objects else np.zeros(num, np.int64)
        confidence = _decode_array(value_of["objects_conf"], "<f4") if has_objects else np.full(num, np.nan)
        prefix = "image_" if "image_w" in value_of else "img_"
        size = int(value_of[f"{prefix}w"]), int(value_of[f"{prefix}h"])
        if not len(labels) == len(confidence) == num:
            raise ValueError("objects differ in number from boxes")
    except ValueError as problem:
        raise ValueError(f"{position}: {problem}; the file is damaged or cut off") from problem
    return TsvRecord(values[0].decode("utf-8"), boxes, features, labels, confidence, has_objects, size)


def _decode_array(text: bytes, dtype: str) -> np.ndarray:
    """The numbers whose bytes are in base64."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype)


def object_names(first: TsvRecord, objects: Path | None) -> tuple[str, ...]:
    """Names of the labels in a TSV whose first record is `first`; of each line in `objects`, the first synonym."""
    if not first.has_objects:
        return ("region",)
    if objects is None:
        return tuple(f"object {index}" for index in range(NUM_OBJECTS))
    return tuple(line.split(",")[0] for line in read_lines(objects, "a name"))


def _padded_arrays(records: Sequence[TsvRecord], source: TsvSource) -> Mapping[str, np.ndarray]:
    """Field -> array of several pictures, each padded to the source's number of regions. Raises ValueError for a
    picture with more, or with features or labels unlike the first picture's."""
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
        if not 0 <= record.labels.min() <= record.labels.max() < len(source.labels):
            raise ValueError(f"{record.image} has an object that is none of the {len(source.labels)} named")
        for name in ("features", "boxes", "labels", "confidence"):
            padded[name][row, :num] = getattr(record, name)
        padded["mask"][row, :num] = True
    return padded
