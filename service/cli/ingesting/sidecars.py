"""Sidecars read: what they say becomes defaults of new pictures, so that sending these again undoes no edit."""

import html
import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from service.cli.ingesting.descriptions import NO_DESCRIPTION, Descriptions, album_tag
from service.cli.ingesting.summary import IngestSummary
from service.cli.picture_files import FoundFiles, printable
from service.cli.terminal.output import print_note, visible
from service.ingest.manifest import ManifestEntry

LARGEST_SIDECAR = 2**20  # bytes; a long history of edits takes several 100 kB
PEOPLE, RATING = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}PersonInImage", "{http://ns.adobe.com/xap/1.0/}Rating"

Describe = Callable[[str, Path], ManifestEntry]  # a picture, by its name and file
Content = dict[str, Any]  # values by the fields of a manifest, and "cut": what was too long


def describer(found: FoundFiles, given: Descriptions, albums: bool, summary: IngestSummary) -> Describe:
    """Describes pictures as given, with defaults from their `albums`, if wanted, and sidecars."""

    def describe(name: str, path: Path) -> ManifestEntry:
        known, said = given.get(name, NO_DESCRIPTION), Content()
        for sidecar in reversed(found.sidecars.get(path, ())):
            shown = visible(printable(str(sidecar)))
            try:
                content = read_sidecar(sidecar)
            except (OSError, ValueError) as fault:
                summary.unread_sidecars[shown] = str(fault)[:200]
                print_note(f"sidecar not read: {shown}: {summary.unread_sidecars[shown]}")
                continue
            if cut := content.pop("cut"):
                print_note(f"sidecar too long, and cut: {shown}: {', '.join(cut)}")
            said |= content
        defaults = {f"default_{field}": value for field, value in said.items() if field not in known.decided}
        if defaults:
            summary.note_described(name)
        album = album_tag(found.albums.get(path) if albums else None)
        return known.model_copy(update=defaults | {"default_tags": album | defaults.get("default_tags", {})})

    return describe


def read_sidecar(path: Path) -> Content:
    """The content of an XMP file, or of a JSON file of Google Takeout. Raises OSError, or ValueError in words."""
    if path.is_symlink():  # perhaps to a file of somebody else
        raise ValueError("it is a link")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # waits for no pipe
        content = file.read(LARGEST_SIDECAR + 1)
    if len(content) > LARGEST_SIDECAR:
        raise ValueError(f"it has more than {LARGEST_SIDECAR >> 20} MB")
    try:
        return _xmp(content) if path.suffix.lower() == ".xmp" else _takeout(json.loads(content))
    except (SyntaxError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as fault:
        raise ValueError(f"it is no valid XMP, or not from Google Takeout: {fault}") from fault


def _xmp(content: bytes) -> Content:
    from service.media.dates import xmp_date  # noqa: PLC0415 - Pillow, which `--help` should not import
    from service.media.descriptions import DC, xmp_root, xmp_texts  # noqa: PLC0415

    root = xmp_root(content, LARGEST_SIDECAR)
    assert root is not None
    captions = xmp_texts(root, f"{DC}description") + xmp_texts(root, f"{DC}title")
    tags = {"rating": int(text) for text in xmp_texts(root, RATING)[:1] if text in [*"12345"]}  # noqa: B035
    subjects = xmp_texts(root, f"{DC}subject")
    return _content(captions, xmp_date(root), tags, keywords=subjects, people=xmp_texts(root, PEOPLE))


def _takeout(found: Any) -> Content:
    captions = [html.unescape(found.get("description") or "")]  # its title is the name of the picture
    tags = {"favourite": "yes"} if found.get("favorited") is True else {}
    people = [one.get("name") or "" for one in found.get("people") or ()]
    return _content(captions, found["photoTakenTime"].get("timestamp"), tags, people=people)


def _content(captions: Sequence[str], taken_at: Any, tags: Content, **lists: Sequence[str]) -> Content:
    """The first caption that is not empty, and the rest, cut to the bounds of a manifest."""
    from service.media.descriptions import LONGEST_CAPTION, distinct_keywords, shown  # noqa: PLC0415

    caption = next(filter(None, map(shown, captions)), "")
    cut = ["caption"] if len(caption) > LONGEST_CAPTION else []
    for name, values in lists.items():
        if kept := distinct_keywords(values):
            tags[name] = "; ".join(kept)
            cut += [name] if set(kept) != {*filter(None, map(shown, values))} else []
    try:  # zero where it is unknown
        date = datetime.fromtimestamp(float(taken_at), UTC).isoformat() if float(taken_at) else ""
    except (TypeError, ValueError, OverflowError, OSError):
        date = ""
    found = {"captions": [caption[:LONGEST_CAPTION].strip()] if caption else [], "tags": tags, "taken_at": date}
    return {"cut": cut} | {name: value for name, value in found.items() if value}
