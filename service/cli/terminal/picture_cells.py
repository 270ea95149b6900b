"""Properties of pictures and jobs, short enough for the cells of a table."""

from collections.abc import Mapping
from datetime import UTC, datetime

from service.cli.terminal.output import shortened

LONGEST_NAME = 40
LONGEST_TAGS = 50


def name_cell(filename: str) -> str:
    """A file name; a long one loses its beginning, the folders, and keeps its end with the camera's number."""
    name = shortened(filename, len(filename))
    return name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"


def date_cell(taken_at: str | None) -> str:
    """The day in UTC of a time in RFC 3339; empty for None."""
    return "" if taken_at is None else datetime.fromisoformat(taken_at).astimezone(UTC).date().isoformat()


def time_cell(moment: str | None) -> str:
    """A time in RFC 3339, to the second and in UTC; empty for None."""
    if moment is None:
        return ""
    return datetime.fromisoformat(moment).astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def tags_cell(tags: Mapping[str, str | int | float]) -> str:
    """Tags as NAME=VALUE, the notation of options."""
    return shortened(", ".join(f"{name}={value}" for name, value in tags.items()), LONGEST_TAGS)
