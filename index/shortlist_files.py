"""Trained shortlists on disk: a view that is opened again is searched at once, without training.

A file holds the FAISS index of a shortlist's main part, another says which rows of which view it covers, with the
checksum of the first. Whatever does not match is as good as absent: the shortlist is then trained from the embeddings.
"""

import json
import logging
import zlib
from pathlib import Path
from typing import Any

import faiss

from index.files import make_folder, remove_strays, replace, sync_file, temporary_beside
from index.shortlist import Part

log = logging.getLogger(__name__)

SHORTLIST_FORMAT = 1
READ_AT_ONCE = 1 << 24  # bytes


def save_part(folder: Path, name: str, part: Part, generation: str) -> None:
    """Store the part, durably, as the first rows of a view's `generation`. OSError when the disk refuses."""
    make_folder(folder)
    remove_strays(folder)
    content = _content_path(folder, name)
    with temporary_beside(content) as file:  # also another web process may be at it
        temporary = Path(file.name)
        faiss.write_index(part.index, str(temporary))
        about = {
            "format": SHORTLIST_FORMAT,
            "generation": generation,
            "rows": len(part),
            "dim": int(part.index.d),
            "trained_on": part.trained_on,
            "crc32": _checksum(temporary),
        }
        sync_file(temporary)
        temporary.replace(content)
    # Last: a description never speaks of an index that is not on disk.
    replace(_about_path(folder, name), json.dumps(about, indent=1).encode())


def load_part(folder: Path, name: str, *, generation: str, dim: int, most_rows: int) -> Part | None:
    """The stored part; None where there is none that checks, or it covers more rows than count now."""
    try:
        about: dict[str, Any] = json.loads(_about_path(folder, name).read_bytes())
        if about["format"] != SHORTLIST_FORMAT or about["generation"] != generation or about["dim"] != dim:
            return None
        if about["rows"] > most_rows:
            return None
        if _checksum(_content_path(folder, name)) != about["crc32"]:
            log.warning("the stored shortlist %s is damaged and is built anew", _content_path(folder, name))
            return None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as fault:
        log.warning("the stored shortlist in %s cannot be read and is built anew: %s", folder, fault)
        return None
    # Only what this program wrote passes the checksum: FAISS itself trusts the files that it is given.
    return Part(faiss.read_index(str(_content_path(folder, name))), int(about["trained_on"]))


def _content_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.faiss"


def _about_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _checksum(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(READ_AT_ONCE):
            crc = zlib.crc32(chunk, crc)
    return crc
