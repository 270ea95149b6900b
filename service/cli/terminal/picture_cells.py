"""Facts about pictures and what is done with them, short enough for the cells of a table."""

from collections.abc import Mapping
from datetime import UTC, datetime

from service.cli.terminal.output import shortened

LONGEST_NAME = 40
LONGEST_TAGS = 50


def name_cell(filename: str) -> str:
    """A file name; of a long one its end, where camera and number stand, not its folders."""
    name = shortened(filename, len(filename))
    return name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"


def date_cell(taken_at: str | None) -> str:
    """The day of a photograph, which is given as an answer gives it, in UTC; empty for none."""
    return "" if taken_at is None else datetime.fromisoformat(taken_at).astimezone(UTC).date().isoformat()


def time_cell(moment: str | None) -> str:
    """A time, which is given as an answer gives it, to the second and in UTC; empty for none."""
    if moment is None:
        return ""
    return datetime.fromisoformat(moment).astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def tags_cell(tags: Mapping[str, str | int | float]) -> str:
    """Tags as NAME=VALUE, as options take them."""
    return shortened(", ".join(f"{name}={value}" for name, value in tags.items()), LONGEST_TAGS)
