"""The options that select pictures by tags and dates, and the filter of a request that they make."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from service.dates import date_span, from_numbers

if TYPE_CHECKING:
    from regard_client.answers import PictureFilter

TAG = re.compile(r"([^=<>]+)(>=|<=|=)(.+)", re.DOTALL)
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
LONGEST_INT64 = len(str(-(2**63)))
ENDS = {">=": "gte", "<=": "lte"}

WithTags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        help="NAME=VALUE, NAME>=VALUE or NAME<=VALUE: only pictures with such a tag. Repeatable for further tags, or"
        " for alternative values of a tag.",
    ),
]
OfDate = Annotated[
    str | None, typer.Option("--date", help="Only pictures taken then: 2024, 2024-05, 2024-05-06 (in UTC).")
]
Since = Annotated[str | None, typer.Option("--since", help="Only pictures taken then or later; written as --date.")]
Until = Annotated[str | None, typer.Option("--until", help="Only pictures taken then or earlier; written as --date.")]


def picture_filter(
    tags: list[str] | None, date: str | None, since: str | None, until: str | None
) -> "PictureFilter | None":
    """The filter for a request; None without any condition. Raises typer.BadParameter.

    A value is matched as text, which the service also compares with numbers written so, and as the number that
    `regard edit` would make of it, which may be written differently, such as 5.0.
    """
    values = tag_conditions(tags or [])
    if date is not None and (since, until) != (None, None):
        raise typer.BadParameter("--date is a whole year, month or day: give it, or --since and --until")
    first, last = _checked_date("--since", since), _checked_date("--until", until)
    if first and last and date_span(first)[0] > date_span(last)[1]:
        raise typer.BadParameter(f"no time is from {first} on (--since) and until {last} (--until)")
    period: str | dict[str, str] | None = _checked_date("--date", date) or {
        end: text for end, text in (("gte", first), ("lte", last)) if text is not None
    }
    fields: dict[str, Any] = {"tags": values, "taken_at": period}
    conditions = {name: condition for name, condition in fields.items() if condition}
    return cast("PictureFilter", conditions) if conditions else None


def tag_conditions(texts: Sequence[str]) -> dict[str, list[str | float] | dict[str, str | float]]:
    """The condition on each tag: one of several values, or a range. Raises typer.BadParameter."""
    values: dict[str, list[str | float]] = {}
    ranges: dict[str, dict[str, str | float]] = {}
    for text in texts:
        match = TAG.fullmatch(text)
        if match is None:
            raise typer.BadParameter(f"--tag takes NAME=VALUE, not {text!r}; `regard tags` lists what there is")
        name, relation, value = match.groups()
        if relation == "=":
            number = number_in(value)
            values.setdefault(name, []).extend([value] if number is None else [value, number])
        elif ENDS[relation] in ranges.setdefault(name, {}):
            raise typer.BadParameter(f"--tag gives two limits {relation} for {name!r}: give one of them")
        else:
            number = number_in(value)
            ranges[name][ENDS[relation]] = value if number is None else number
    if both := sorted(values.keys() & ranges.keys()):
        raise typer.BadParameter(f"--tag gives values and a range for {both[0]!r}: give one of them")
    return {**values, **ranges}


def number_in(text: str) -> int | float | None:
    """The number that a text is in JSON's notation; None for any other text, and for an integer of more than 64 bits,
    which stays a text."""
    if NUMBER.fullmatch(text) is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text) if len(text) <= LONGEST_INT64 and -(2**63) <= int(text) < 2**63 else None
    number = float(text)
    return number if math.isfinite(number) else None


def _checked_date(option: str, text: str | None) -> str | None:
    """The date of an option in the service's notation; typer.BadParameter where it is none."""
    if text is None:
        return None
    date = from_numbers(text)
    try:
        date_span(date)
    except ValueError as fault:
        raise typer.BadParameter(f"{option} {text!r}: {fault}") from None
    return date
