"""Pictures described by sidecars: as defaults of new pictures, so that sending them again undoes no edit."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from index.records import TagValue
from service.cli.ingesting.descriptions import NO_DESCRIPTION, Descriptions, album_tag
from service.cli.ingesting.summary import IngestSummary
from service.cli.picture_files import FoundFiles, printable
from service.cli.terminal.output import print_note, visible
from service.ingest.manifest import ManifestEntry

if TYPE_CHECKING:
    from service.media.sidecars import Sidecar

Describe = Callable[[str, Path], ManifestEntry]  # a picture, by its name and file
LONGEST_NOTE = 200  # characters


class Said(NamedTuple):
    """The content of a sidecar as fields of a manifest, and the names of what was too long for one."""

    fields: dict[str, Any]
    cut: list[str]


def describer(found: FoundFiles, given: Descriptions, albums: bool, summary: IngestSummary) -> Describe:
    """Describes pictures as given, with defaults from their `albums`, if wanted, and sidecars."""

    def describe(name: str, path: Path) -> ManifestEntry:
        known = given.get(name, NO_DESCRIPTION)
        sidecars = found.sidecars.get(path)
        said = fields_of(sidecars, summary) if sidecars else {}
        defaults = {f"default_{field}": value for field, value in said.items() if field not in known.decided}
        if defaults:
            summary.note_described(name)
        album = album_tag(found.albums.get(path) if albums else None)
        return known.model_copy(update=defaults | {"default_tags": album | defaults.get("default_tags", {})})

    return describe


def fields_of(sidecars: Sequence[Path], summary: IngestSummary) -> dict[str, Any]:
    """The fields that a picture's sidecars, the best first, say, with the tags of all. Those that cannot be read are
    noted."""
    from service.media.sidecars import read_sidecar

    fields, tags = dict[str, Any](), dict[str, TagValue]()
    for path in reversed(sidecars):
        shown = visible(printable(str(path)))
        try:
            said = fields_of_one(read_sidecar(path))
        except (OSError, ValueError) as fault:
            summary.unread_sidecars[shown] = str(fault)[:LONGEST_NOTE]
            print_note(f"sidecar not read: {shown}: {summary.unread_sidecars[shown]}")
            continue
        if said.cut:
            print_note(f"sidecar too long, and cut: {shown}: {', '.join(said.cut)}")
        fields |= said.fields
        tags |= said.fields.get("tags", {})
    return fields | {"tags": tags} if tags else fields


def fields_of_one(sidecar: "Sidecar") -> Said:
    """The content of one sidecar, cut to the bounds of a manifest."""
    from service.media.descriptions import LONGEST_CAPTION, distinct_keywords, shown

    caption, tags = sidecar.caption[:LONGEST_CAPTION].strip(), dict(sidecar.tags)
    cut = ["caption"] if caption != sidecar.caption else []
    for name, values in sidecar.lists.items():
        kept = distinct_keywords(values)
        if kept:
            tags[name] = "; ".join(kept)
        if set(kept) != set(filter(None, map(shown, values))):
            cut.append(name)
    fields = {"captions": [caption] if caption else [], "tags": tags, "taken_at": written_date(sidecar.taken_at)}
    return Said({name: value for name, value in fields.items() if value}, cut)


def written_date(seconds: float | None) -> str:
    """A date as a manifest has it; "" where there is none, or none of the years 1 to 9999."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""
