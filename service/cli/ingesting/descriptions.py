"""Descriptions of pictures in a captions file: captions and, for pictures to be sent, tags and dates."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from index.catalog.text_index import composed
from models.datasets.captions import CaptionLine, iter_captions
from service.cli.terminal.output import print_note, visible
from service.errors import user_input
from service.ingest.manifest import ManifestEntry
from service.validation_messages import plain_message

Descriptions = Mapping[str, ManifestEntry]
"""File name -> description of its picture."""

NO_DESCRIPTION = ManifestEntry()


def captions_by_name(path: Path | None) -> dict[str, list[str]]:
    """File name -> captions of all its lines in a captions file; empty if `path` is None. UserError names an invalid
    line."""
    found = defaultdict[str, list[str]](list)
    if path is not None:
        with user_input(path):
            for line in iter_captions(path):
                found[line.image] += new_captions(line, found[line.image])
    return dict(found)


def descriptions_by_name(path: Path | None) -> dict[str, ManifestEntry]:
    """File name in Unicode's composed form -> description in a captions file; empty if `path` is None.

    Several lines for one file add captions and tags; the last `taken_at` and `decided` count. UserError names an
    invalid line.
    """
    found: dict[str, ManifestEntry] = {}
    if path is not None:
        with user_input(path):
            for number, line in enumerate(iter_captions(path), 1):
                name = composed(line.image)
                try:
                    found[name] = with_line(found.get(name, NO_DESCRIPTION), line)
                except ValidationError as invalid:
                    (error, *_) = invalid.errors(include_url=False)
                    place = ".".join(map(str, error["loc"]))
                    raise ValueError(f"{path}:{number}: {place}: {plain_message(error)}") from None
    return found


def with_line(known: ManifestEntry, line: CaptionLine) -> ManifestEntry:
    """The description extended by another line. Raises ValidationError if the line is invalid."""
    merged: dict[str, Any] = known.model_dump()
    merged["captions"] += new_captions(line, known.captions)
    if line.others.get("tags") is not None:
        tags = line.others["tags"]
        merged["tags"] = {**known.tags, **tags} if isinstance(tags, dict) else tags
    for name in ("taken_at", "decided"):
        if line.others.get(name) is not None:
            merged[name] = line.others[name]
    return ManifestEntry.model_validate(merged)


def supported_descriptions(descriptions: Descriptions, models: Callable[[], Mapping[str, Any]]) -> Descriptions:
    """The descriptions without fields that the service does not support. `models` asks it for its models.

    An earlier version, whose answer names no collection, refuses `decided`, which is then left out with a note.
    """
    if not any(one.decided for one in descriptions.values()) or "collection" in models():
        return descriptions
    print_note("the service is of an earlier version: it ignores `decided` and adds the metadata of the files")
    return {name: one.model_copy(update={"decided": []}) for name, one in descriptions.items()}


def new_captions(line: CaptionLine, known: Collection[str]) -> list[str]:
    """The captions of a line that are not in `known`."""
    return [caption for caption in line.captions if caption not in known]


def album_tag(album: str | None) -> dict[str, str]:
    """The default tags of a picture in an album; empty without one."""
    return {} if album is None else {"album": album}


def note_unmatched(described: Iterable[str], names: Collection[str]) -> None:
    """Print a note on descriptions of files that are not among `names`."""
    if unmatched := sorted(set(described) - set(names)):
        print_note(
            f"described, but not among the files to send: {visible(unmatched[0])}"
            + (f" and {len(unmatched) - 1} more" if len(unmatched) > 1 else "")
            + f"; names are paths below the given folder, such as {visible(min(names))}"
        )
