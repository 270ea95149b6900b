"""Regions found by other machines: one file for each picture below DATA/found, which saves the worker its own
detection.

Each has the digest of its detector and a checksum; if it is missing, damaged, or from another detector, the worker
detects the regions itself.
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
    """The record of one picture as bytes: a line of JSON, then its fields one after the other."""
    fields = RecordLayout.of(extractor).fields
    body = b"".join(np.ascontiguousarray(record[name], dtype).tobytes() for name, (_, dtype) in fields.items())
    header = {"format": SERIAL_FORMAT, "extractor": extractor.digest, "sha256": sha256(body).hexdigest()}
    return json.dumps(header).encode() + b"\n" + body


def regions_are_whole(serialised: bytes) -> bool:
    """Whether the bytes match their checksum."""
    return _parsed(serialised) is not None


def deserialised_regions(extractor: Extractor, serialised: bytes) -> Records | None:
    """The record of one picture; None where it is damaged, or from another extractor."""
    parsed = _parsed(serialised)
    if parsed is None or parsed[0] != extractor.digest:
        return None
    body = parsed[1]
    record, start = Records(), 0
    for name, (shape, dtype) in RecordLayout.of(extractor).fields.items():
        stop = start + math.prod(shape) * np.dtype(dtype).itemsize
        if stop > len(body):
            return None
        record[name] = np.frombuffer(body[start:stop], dtype).reshape(shape)
        start = stop
    return record if start == len(body) else None


def _parsed(serialised: bytes) -> tuple[str, bytes] | None:
    """The extractor's digest and the fields' bytes; None where the checksum does not match."""
    line, _, body = serialised.partition(b"\n")
    try:
        header = json.loads(line)
        is_whole = header["format"] == SERIAL_FORMAT and header["sha256"] == sha256(body).hexdigest()
        return (str(header["extractor"]), body) if is_whole else None
    except (ValueError, LookupError, TypeError):
        return None


class FoundRegions:
    """Files of regions, by picture."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = DataDir(data_dir).found

    def put(self, image_id: str, serialised: bytes) -> None:
        """Store a picture's serialised regions for the worker. A power cut may lose them."""
        make_folder(self._folder)
        self._path(image_id).write_bytes(serialised)

    def get(self, image_id: str, extractor: Extractor) -> Records | None:
        """The record of a picture; None where there is none that can be used."""
        try:
            return deserialised_regions(extractor, self._path(image_id).read_bytes())
        except FileNotFoundError:
            return None

    def remove(self, image_id: str) -> None:
        """Remove a picture's file, if there is one."""
        if (path := self._path(image_id)).is_file():
            path.unlink(missing_ok=True)

    def remove_stale(self, is_awaited: Callable[[str], bool]) -> None:
        """Remove the files of pictures that no longer wait for regions."""
        for path in self._folder.glob(f"*{SUFFIX}") if self._folder.is_dir() else ():
            if not is_awaited(path.stem):
                path.unlink(missing_ok=True)

    def _path(self, image_id: str) -> Path:
        return self._folder / f"{image_id}{SUFFIX}"
