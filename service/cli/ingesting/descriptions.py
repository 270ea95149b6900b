"""Descriptions of pictures in a captions file: their captions, and of those that are sent their tags and dates too."""

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
"""Name of a file -> what is said of its picture."""

NO_DESCRIPTION = ManifestEntry()


def captions_by_name(path: Path | None) -> dict[str, list[str]]:
    """The captions of each file in a captions file, of all its lines; none where there is no such file. UserError names
    a bad line."""
    found = defaultdict[str, list[str]](list)
    if path is not None:
        with user_input(path):
            for line in iter_captions(path):
                found[line.image] += new_captions(line, found[line.image])
    return dict(found)


def descriptions_by_name(path: Path | None) -> dict[str, ManifestEntry]:
    """The descriptions of each file in a captions file by its name, letters composed.

    Captions, and where its lines have them `tags`, `taken_at` and `decided`, of several lines the last one's. UserError
    names a bad line, and what a request may not say of a picture.
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
    """A description with what one more line says. Raises ValidationError where it may not say that."""
    said: dict[str, Any] = known.model_dump()
    said["captions"] += new_captions(line, known.captions)
    if line.others.get("tags") is not None:
        tags = line.others["tags"]
        said["tags"] = {**known.tags, **tags} if isinstance(tags, dict) else tags
    if line.others.get("taken_at") is not None:
        said["taken_at"] = line.others["taken_at"]
    if line.others.get("decided") is not None:
        said["decided"] = line.others["decided"]
    return ManifestEntry.model_validate(said)


def understood(said: Descriptions, models: Callable[[], Mapping[str, Any]]) -> Descriptions:
    """The descriptions in the form that a service takes, which its answer about its models tells.

    A service of an earlier version, whose answer names no collection, refuses `decided`: it is left out, with a note.
    """
    if not any(one.decided for one in said.values()) or "collection" in models():
        return said
    print_note("the service is of an earlier version: what the files themselves say is added to what is `decided`")
    return {name: one.model_copy(update={"decided": []}) for name, one in said.items()}


def new_captions(line: CaptionLine, known: Collection[str]) -> list[str]:
    """The captions of a line that are not known yet."""
    return [caption for caption in line.captions if caption not in known]


def album_tag(album: str | None) -> dict[str, str]:
    """The tag that a picture without an album gets from the folder that holds it; none where there is none."""
    return {} if album is None else {"album": album}


def tell_unmatched(described: Iterable[str], names: Collection[str]) -> None:
    """Say which pictures that are described are not among those of these names."""
    if unmatched := sorted(set(described) - set(names)):
        print_note(
            f"described, but not among those that are sent: {visible(unmatched[0])}"
            + (f" and {len(unmatched) - 1} more" if len(unmatched) > 1 else "")
            + f"; names are those below the folder given, as {visible(min(names))}"
        )
