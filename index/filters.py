"""Filters over pictures, compiled to SQL in which every value is a parameter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from index.records import TagValue

Range: TypeAlias = Mapping[str, TagValue]
"""{"gte": low, "lte": high}, either may be absent, both of one kind (numbers or strings)."""

TagCondition: TypeAlias = TagValue | Sequence[TagValue] | Range
"""A value (equal), a list (any of), or a Range."""

Sql: TypeAlias = tuple[str, list[TagValue]]
"""A condition over `images`, and its parameters."""

OPERATORS = {"gte": ">=", "lte": "<="}
MOST_CONDITIONS = 50
MOST_VALUES = 1000
NUMBERS, TEXTS = ("integer", "real"), ("text",)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """All conditions must hold. `tags`: name -> condition; `taken_at`: {"gte","lte"} in unix seconds.

    A picture without the tag, or without a date, passes no condition on it. ValueError, in words, on an unknown
    operator or a value that is neither a string nor a finite number.
    """

    tags: Mapping[str, TagCondition] = field(default_factory=dict)
    taken_at: Range | None = None

    def __post_init__(self) -> None:
        """Raise ValueError where it cannot be compiled."""
        self.sql()

    def sql(self) -> Sql:
        """The condition on a row of `images`."""
        if len(self.tags) > MOST_CONDITIONS:
            raise ValueError(f"a filter has at most {MOST_CONDITIONS} tags, not {len(self.tags)}")
        parts = [_tag(name, condition) for name, condition in self.tags.items()]
        if self.taken_at is not None:
            text, values = _range("images.taken_at", "taken_at", self.taken_at)
            if any(isinstance(value, str) for value in values):
                raise ValueError("taken_at is compared with numbers: unix seconds")
            parts.append((text, values))
        clauses = " AND ".join(["TRUE", *(text for text, _ in parts)])
        return clauses, [value for _, values in parts for value in values]


def checked_value(name: str, value: object) -> TagValue:
    """The value of a tag; ValueError unless it is a string, a 64-bit integer or a finite number."""
    match value:
        case str():
            return value
        case bool():
            pass
        case int() if -(2**63) <= value < 2**63:
            return value
        case float() if math.isfinite(value):
            return value
    raise ValueError(f"{name}: a value is a string, a 64-bit integer or a finite number, not {value!r}")


def _tag(name: str, condition: object) -> Sql:
    title = f"tag {name!r}"
    if isinstance(condition, Mapping):
        test, values = _range("value", title, condition)
    elif isinstance(condition, Sequence) and not isinstance(condition, str):
        if not 1 <= len(condition) <= MOST_VALUES:
            raise ValueError(f"{title}: a list has 1 .. {MOST_VALUES} values, not {len(condition)}")
        values = [checked_value(title, value) for value in condition]
        test = f"value IN ({', '.join('?' * len(values))})"
    else:
        test, values = "value = ?", [checked_value(title, condition)]
    return f"images.number IN (SELECT image FROM tags WHERE name = ? AND {test})", [name, *values]


def _range(column: str, title: str, condition: Mapping[str, object]) -> Sql:
    unknown = sorted(set(condition) - set(OPERATORS))
    if unknown or not condition:
        raise ValueError(f"{title}: a range has {' and/or '.join(OPERATORS)}, not {', '.join(unknown) or 'nothing'}")
    values = [checked_value(title, value) for value in condition.values()]
    if len({isinstance(value, str) for value in values}) > 1:
        raise ValueError(f"{title}: a range is of two numbers or of two strings")
    # Without the kinds, SQLite would call every text larger than every number.
    kinds = TEXTS if isinstance(values[0], str) else NUMBERS
    tests = [f"typeof({column}) IN ({', '.join(map(repr, kinds))})"]
    tests += [f"{column} {OPERATORS[operator]} ?" for operator in condition]
    return f"({' AND '.join(tests)})", values
