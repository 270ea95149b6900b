"""Regions that were found elsewhere: one file a picture below DATA/found, which spares a worker its own look.

Each carries the digest of its detector and a checksum; one that is of another detector, damaged or missing is no loss:
the worker finds these regions anew.
"""

import json
import math
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from index.files import make_folder
from models.extractors.base import Extractor
from service.storage.data_dir import DataDir
from service.storage.regions.records import RecordLayout, Records

SERIAL_FORMAT = 1
SUFFIX = ".regions"


def serialised_regions(extractor: Extractor, record: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The record of one picture as bytes: a line of JSON that describes it, and its fields one after the other."""
    fields = RecordLayout.of(extractor).fields
    body = b"".join(np.ascontiguousarray(record[name], dtype).tobytes() for name, (_, dtype) in fields.items())
    about = {"format": SERIAL_FORMAT, "extractor": extractor.digest, "sha256": sha256(body).hexdigest()}
    return json.dumps(about).encode() + b"\n" + body


def regions_are_whole(serialised: bytes) -> bool:
    """Whether the bytes are those that were made."""
    return _opened(serialised) is not None


def deserialised_regions(extractor: Extractor, serialised: bytes) -> Records | None:
    """The record of one picture; None where it is damaged, or not what this extractor finds."""
    opened = _opened(serialised)
    if opened is None or opened[0] != extractor.digest:
        return None
    body = opened[1]
    record, start = Records(), 0
    for name, (shape, dtype) in RecordLayout.of(extractor).fields.items():
        stop = start + math.prod(shape) * np.dtype(dtype).itemsize
        if stop > len(body):
            return None
        record[name] = np.frombuffer(body[start:stop], dtype).reshape(shape)
        start = stop
    return record if start == len(body) else None


def _opened(serialised: bytes) -> tuple[str, bytes] | None:
    """The extractor's digest and the fields; None where they are not what was made."""
    line, _, body = serialised.partition(b"\n")
    try:
        about = json.loads(line)
        is_whole = about["format"] == SERIAL_FORMAT and about["sha256"] == sha256(body).hexdigest()
        return (str(about["extractor"]), body) if is_whole else None
    except (ValueError, LookupError, TypeError):
        return None


class FoundRegions:
    """The files, by picture."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = DataDir(data_dir).found

    def put(self, image_id: str, serialised: bytes) -> None:
        """Keep a picture's serialised regions for the worker. They may be lost in a power cut."""
        make_folder(self._folder)
        self._path(image_id).write_bytes(serialised)

    def get(self, image_id: str, extractor: Extractor) -> Records | None:
        """The record of a picture; None where none came, or it cannot be used."""
        try:
            return deserialised_regions(extractor, self._path(image_id).read_bytes())
        except FileNotFoundError:
            return None

    def remove(self, image_id: str) -> None:
        """Remove what came of a picture, if anything did."""
        if (path := self._path(image_id)).is_file():
            path.unlink(missing_ok=True)

    def remove_stale(self, is_awaited: Callable[[str], bool]) -> None:
        """Remove what no picture waits for any more."""
        for path in self._folder.glob(f"*{SUFFIX}") if self._folder.is_dir() else ():
            if not is_awaited(path.stem):
                path.unlink(missing_ok=True)

    def _path(self, image_id: str) -> Path:
        return self._folder / f"{image_id}{SUFFIX}"
