"""Feature folders: region features of many pictures as memory-mapped arrays, extracted once for every training.

A folder holds one `.npy` for each field of Detections, ids.txt (one picture's name a line, in the arrays' order) and
manifest.json (the extractor's digest and labels, and the number of pictures done).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from models.batches import Regions
from models.datasets.npy_files import create_array, grow_array, open_array
from models.datasets.photographs import open_reduced
from models.extractors.base import PICTURE, Detections, Extractor
from models.pictures import LONGEST_SIDE
from models.whole_files import write_whole

IDS_FILE = "ids.txt"
MANIFEST_FILE = "manifest.json"
MEND = "put back the files that belong together, or extract them anew into another folder"
BATCH = 32  # pictures that an extractor processes together
BATCH_PER_THREAD = 4  # of a CPU, which takes seconds for each: small batches show progress, and a kill loses little


@runtime_checkable
class FeatureSource(Protocol):
    """The shape and origin of the features in a folder: an extractor, or a stand-in for one."""

    @property
    def num_regions(self) -> int: ...
    @property
    def feature_dim(self) -> int: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def digest(self) -> str: ...


@dataclass(frozen=True)
class ExtractedFeatures:
    """The content of a feature folder; arrays are memory-mapped and read-only."""

    features: np.ndarray
    """[N R D] float16."""
    boxes: np.ndarray
    """[N R 4] float32, x1 y1 x2 y2 in pixels of the upright picture. Up to release 0.1.0, of that picture reduced to
    sides of at most LONGEST_SIDE; the region of the whole picture has that size."""
    labels: np.ndarray
    """[N R] int16."""
    confidence: np.ndarray
    """[N R] float32."""
    mask: np.ndarray
    """[N R] bool."""
    ids: tuple[str, ...]
    """Names of the N pictures."""
    digest: str
    """The extractor's."""
    label_names: tuple[str, ...] = ()
    """The names that `labels` are indices into."""

    def regions(self, pictures: "slice | Sequence[int] | np.ndarray" = slice(None)) -> Regions:
        """Features in float32 of all pictures or of those given, for a matcher to encode."""
        features = self.features[pictures].astype(np.float32)
        return Regions(torch.from_numpy(features), torch.from_numpy(np.array(self.mask[pictures])))

    def picture_size(self, row: int) -> tuple[float, float] | None:
        """Width and height of a picture in the pixels of its boxes: those of the region of the whole picture."""
        whole = self.label_names.index(PICTURE) if PICTURE in self.label_names else None
        places = np.flatnonzero(self.mask[row] & (self.labels[row] == whole))
        if whole is None or not len(places):
            return None
        _, _, width, height = self.boxes[row, places[0]]
        return float(width), float(height)


def extract_features(
    extractor: Extractor, photographs: Mapping[str, Path], out: Path, batch: int = BATCH
) -> Iterator[int]:
    """Extract the regions of `photographs` (name -> file) to the folder `out`, resuming an earlier run.

    Photographs that the folder does not list yet are appended. Yields the number of pictures done. Raises ValueError if
    `out` was begun with another extractor, or holds a picture that is not among the photographs.
    """
    ids = in_stored_order(photographs, out)
    done = begin_folder(extractor, ids, out)
    for start in range(done, len(ids), batch):
        found = regions_of_files(extractor, [photographs[name] for name in ids[start : start + batch]])
        yield write_regions(extractor, start, found, out)


def pictures_at_once(extractor: Extractor) -> int:
    """The number of pictures that keeps an extractor's device busy, at most BATCH."""
    weight = next(extractor.parameters(), None)
    return BATCH if weight is None or weight.is_cuda else min(BATCH, BATCH_PER_THREAD * torch.get_num_threads())


def regions_of_files(extractor: Extractor, files: Sequence[Path]) -> dict[str, np.ndarray]:
    """Regions that the extractor finds in picture files, one array per field; boxes are in pixels of the upright
    pictures at full size. Raises UnreadablePhotograph for a file that is not a whole picture."""
    opened = [open_reduced(path, LONGEST_SIDE) for path in files]
    regions = extractor.extract([picture for picture, _ in opened])
    found = {name: tensor.cpu().numpy() for name, tensor in regions.tensors().items()}
    scales = [(full[0] / picture.width, full[1] / picture.height) for picture, full in opened]
    found["boxes"] = found["boxes"] * np.array([(x, y, x, y) for x, y in scales], np.float32)[:, None]
    return found


def open_features(folder: Path) -> ExtractedFeatures:
    """The features in `folder`. Raises ValueError while pictures are missing, or if arrays do not fit together."""
    manifest = _read_manifest(folder)
    ids = _read_ids(folder)
    if manifest["done"] < len(ids):
        raise ValueError(f"{folder} holds {manifest['done']} of {len(ids)} pictures: extract the rest first")
    arrays = {name: _open_rows(folder / f"{name}.npy", len(ids)) for name in Detections.__dataclass_fields__}
    features, mask = arrays["features"], arrays["mask"]
    if (
        features.ndim != 3
        or any(array.shape[1] != features.shape[1] for array in arrays.values())
        or mask.dtype != bool
    ):
        shapes = ", ".join(f"{name} {array.shape} {array.dtype}" for name, array in arrays.items())
        raise ValueError(f"{folder}: {shapes} are not of the same regions: {MEND}")
    return ExtractedFeatures(**arrays, ids=ids, digest=manifest["digest"], label_names=tuple(manifest["labels"]))


def _open_rows(path: Path, num: int) -> np.ndarray:
    """The first `num` rows of a mapped array, since a growing folder's files are longer than its list of names."""
    array = open_array(path)
    if array.ndim < 2 or len(array) < num:
        rows = len(array) if array.ndim else 0
        raise ValueError(f"{path} has {rows} rows, where {IDS_FILE} names {num} pictures: {MEND}")
    return array[:num]


def in_stored_order(names: Iterable[str], out: Path) -> tuple[str, ...]:
    """The names, first those that the folder `out` lists, in its order; unchanged if they lack one that is already
    extracted there."""
    unique = dict.fromkeys(names)
    stored = _read_ids(out) if (out / MANIFEST_FILE).exists() else ()
    if stored and not unique.keys() >= set(stored[: _read_manifest(out)["done"]]):
        return tuple(unique)
    return tuple(dict.fromkeys((*(name for name in stored if name in unique), *unique)))


def begin_folder(source: FeatureSource, ids: tuple[str, ...], out: Path) -> int:
    """Create the folder `out` with room for all pictures, or make room for more; returns the number of pictures done.

    A folder without finished pictures is begun anew. Raises ValueError if it was made by another source, of other
    pictures or for another number of regions, or if a name has a line break. Raises OSError if the disk lacks room for
    all of it, and then leaves what was there before.
    """
    if (broken := next((name for name in ids if "\n" in name or "\r" in name), None)) is not None:
        raise ValueError(f"{broken!r} has a line break in its name, and {IDS_FILE} a name a line: rename it")
    if (out / MANIFEST_FILE).exists() and (done := int((manifest := _read_manifest(out))["done"])):
        stored = _read_ids(out)
        if manifest["digest"] != source.digest:
            raise ValueError(f"{out} was made by extractor {manifest['digest']}, not {source.digest}")
        if ids[:done] != stored[:done]:
            raise ValueError(_why_not_begun_with(ids, stored[:done], out))
        num_regions = open_array(out / "features.npy").shape[1]
        if num_regions != source.num_regions:
            raise ValueError(f"{out} was begun with room for {num_regions} regions, not {source.num_regions}")
        if ids != stored:  # new pictures, or some removed before they were extracted
            for name in feature_layout(source):
                grow_array(out / f"{name}.npy", len(ids))
            _write_ids(ids, out)  # last: until then the folder is unchanged
        return done
    out.mkdir(parents=True, exist_ok=True)
    made = list[Path]()
    try:
        for name, (shape, dtype) in feature_layout(source).items():
            create_array(out / f"{name}.npy", (len(ids), *shape), dtype)
            made.append(out / f"{name}.npy")
    except OSError:
        for file in made:
            file.unlink()
        raise
    _write_ids(ids, out)
    _write_manifest(source, 0, out)
    return 0


def _why_not_begun_with(ids: tuple[str, ...], stored: tuple[str, ...], out: Path) -> str:
    """The error message for a folder that was begun with other pictures."""
    gone = sorted(set(stored).difference(ids))
    if not gone:
        return (
            f"{out} was begun with the same pictures in another order: keep that, new ones last, or name another folder"
        )
    return (
        f"{out} was begun with other photographs, of which {len(gone)} are not among these, as {gone[0]}: give them"
        " too, and new ones are added, or name another folder"
    )


def write_regions(source: FeatureSource, start: int, regions: Mapping[str, np.ndarray], out: Path) -> int:
    """Write the pictures from number `start` on, an array for each field; returns the number of pictures done."""
    stop = start + len(regions["mask"])
    for name in feature_layout(source):
        array = open_array(out / f"{name}.npy", "r+")
        array[start:stop] = regions[name]
        array.flush()
    _write_manifest(source, stop, out)
    return stop


def feature_layout(source: FeatureSource) -> dict[str, tuple[tuple[int, ...], str]]:
    """Field -> shape and dtype of one picture's array."""
    R = source.num_regions
    return {
        "features": ((R, source.feature_dim), "f2"),
        "boxes": ((R, 4), "f4"),
        "labels": ((R,), "i2"),
        "confidence": ((R,), "f4"),
        "mask": ((R,), "?"),
    }


def _read_ids(folder: Path) -> tuple[str, ...]:
    return tuple(
        (folder / IDS_FILE).read_text(encoding="utf-8").split("\n")[:-1]
    )  # names may contain other line separators


def _write_ids(ids: Iterable[str], folder: Path) -> None:
    write_whole(folder / IDS_FILE, "".join(f"{name}\n" for name in ids).encode())


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest. Raises ValueError for one that is damaged or of another format."""
    path = folder / MANIFEST_FILE
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        manifest = {"digest": str(stored["digest"]), "labels": list(stored["labels"]), "done": int(stored["done"])}
    except (ValueError, TypeError, KeyError) as fault:
        raise ValueError(f"{path} is no manifest of features: it was damaged, or something else wrote it") from fault
    return manifest


def _write_manifest(source: FeatureSource, done: int, folder: Path) -> None:
    """Replace the manifest atomically; to be called after the arrays were flushed."""
    text = json.dumps({"digest": source.digest, "labels": source.labels, "done": done}, indent=2)
    write_whole(folder / MANIFEST_FILE, f"{text}\n".encode())
