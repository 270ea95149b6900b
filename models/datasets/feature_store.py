"""Region features of many pictures as memory-mapped arrays, made once and read by every training.

A folder holds one `.npy` a field of Detections, ids.txt (a line a picture, in the arrays' order) and
manifest.json: the extractor's digest and labels, and how many pictures are done.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import PIL.Image
import PIL.ImageOps
from numpy.lib.format import open_memmap

from models.extractors.base import Detections, Extractor

IDS_FILE = "ids.txt"
MANIFEST_FILE = "manifest.json"


@runtime_checkable
class Source(Protocol):
    """Where regions come from: an extractor, or whoever wrote the file that is read."""

    @property
    def num_regions(self) -> int: ...
    @property
    def feature_dim(self) -> int: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def digest(self) -> str: ...


@dataclass(frozen=True)
class Features:
    """What `extract` made; arrays are memory-mapped and read-only."""

    features: np.ndarray
    """[N R D] float16."""
    boxes: np.ndarray
    """[N R 4] float32, x1 y1 x2 y2 in pixels of the upright picture."""
    labels: np.ndarray
    """[N R] int16."""
    confidence: np.ndarray
    """[N R] float32."""
    mask: np.ndarray
    """[N R] bool."""
    ids: tuple[str, ...]
    digest: str
    """The extractor's."""
    label_names: tuple[str, ...] = ()


def extract(extractor: Extractor, photographs: Mapping[str, Path], out: Path, batch: int = 32) -> Iterator[int]:
    """Writes the regions of `photographs` (id -> file) to `out`; yields how many are done, goes on after a kill.

    ValueError if `out` was begun with another extractor or other photographs.
    """
    ids = tuple(photographs)
    done = begin(extractor, ids, out)
    for start in range(done, len(ids), batch):
        found = extractor.extract([_upright(photographs[name]) for name in ids[start : start + batch]])
        yield write(extractor, start, {name: part.cpu().numpy() for name, part in found.tensors().items()}, out)


def open_features(folder: Path) -> Features:
    """The features in `folder`; ValueError while some pictures are still missing."""
    manifest = _read_manifest(folder)
    ids = tuple((folder / IDS_FILE).read_text(encoding="utf-8").splitlines())
    if manifest["done"] < len(ids):
        raise ValueError(f"{folder} holds {manifest['done']} of {len(ids)} pictures: extract the rest first")
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in Detections.__dataclass_fields__}
    return Features(**arrays, ids=ids, digest=manifest["digest"], label_names=tuple(manifest["labels"]))


def begin(source: Source, ids: tuple[str, ...], out: Path) -> int:
    """How many pictures `out` already holds; a new folder is laid out. ValueError if it was begun with others."""
    if (out / MANIFEST_FILE).exists():
        manifest = _read_manifest(out)
        if manifest["digest"] != source.digest:
            raise ValueError(f"{out} was made by extractor {manifest['digest']}, not {source.digest}")
        if tuple((out / IDS_FILE).read_text(encoding="utf-8").splitlines()) != ids:
            raise ValueError(f"{out} was begun with other photographs")
        held = np.load(out / "features.npy", mmap_mode="r").shape[1]
        if held != source.num_regions:
            raise ValueError(f"{out} was begun with room for {held} regions, not {source.num_regions}")
        return int(manifest["done"])
    out.mkdir(parents=True, exist_ok=True)
    for name, (shape, kind) in _layout(source).items():
        open_memmap(out / f"{name}.npy", mode="w+", dtype=kind, shape=(len(ids), *shape))
    (out / IDS_FILE).write_text("".join(f"{name}\n" for name in ids), encoding="utf-8")
    _write_manifest(source, 0, out)
    return 0


def write(source: Source, start: int, regions: Mapping[str, np.ndarray], out: Path) -> int:
    """Puts pictures `start` and on, an array a field, where `begin` made room; how many are done."""
    stop = start + len(regions["mask"])
    for name in _layout(source):
        array = np.load(out / f"{name}.npy", mmap_mode="r+")
        array[start:stop] = regions[name]
        array.flush()
    _write_manifest(source, stop, out)
    return stop


def _layout(source: Source) -> dict[str, tuple[tuple[int, ...], str]]:
    """Field -> shape and type of one picture."""
    R = source.num_regions
    return {
        "features": ((R, source.feature_dim), "f2"),
        "boxes": ((R, 4), "f4"),
        "labels": ((R,), "i2"),
        "confidence": ((R,), "f4"),
        "mask": ((R,), "?"),
    }


def _upright(path: Path) -> PIL.Image.Image:
    with PIL.Image.open(path) as picture:
        return PIL.ImageOps.exif_transpose(picture).convert("RGB")


def _read_manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    return manifest


def _write_manifest(source: Source, done: int, folder: Path) -> None:
    """Replaces the manifest whole, after the arrays were flushed."""
    text = json.dumps({"digest": source.digest, "labels": source.labels, "done": done}, indent=2)
    partial = folder / f"{MANIFEST_FILE}.partial"
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(folder / MANIFEST_FILE)
