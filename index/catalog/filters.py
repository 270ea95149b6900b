"""Filters over pictures, compiled to SQL in which every value is a parameter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from index.catalog.text_index import composed
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
MOST_VALUES_IN_ALL = 10_000  # each may be a parameter twice, and SQLite as it comes takes 32 766
NUMBERS, TEXTS = ("integer", "real"), ("text",)
# The value of a tag as a number, or NULL; most texts, and whole numbers such as years, are not handed to Python.
NUMBER = (
    "CASE WHEN typeof(value) != 'text' THEN value"
    " WHEN CAST(CAST(value AS INTEGER) AS TEXT) = value THEN CAST(value AS INTEGER)"
    " WHEN value GLOB '[-0-9]*' THEN as_number(value) END"
)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """All conditions must hold. `tags`: name -> condition; `taken_at`: {"gte","lte"} in unix seconds; `deleted_since`:
    lists hold what was deleted, but not before that time, in the place of what was not. Searches find nothing deleted.

    A picture without the tag, or without a date, passes no condition on it. A number and the string that is written
    like it, such as 2024 and "2024", are the same value of a tag, and so are letters with accents however they are
    composed. ValueError, in words, on an unknown operator or a value that is neither a string nor a finite number.
    """

    tags: Mapping[str, TagCondition] = field(default_factory=dict)
    taken_at: Range | None = None
    deleted_since: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError where it cannot be compiled."""
        self.sql()

    def sql(self) -> Sql:
        """The condition on a row of `images`."""
        if len(self.tags) > MOST_CONDITIONS:
            raise ValueError(f"a filter has at most {MOST_CONDITIONS} tags, not {len(self.tags)}")
        parts = [_tag(name, condition) for name, condition in self.tags.items()]
        if self.taken_at is not None:
            ends = _checked_range("taken_at", self.taken_at)
            if any(isinstance(value, str) for value in ends.values()):
                raise ValueError("taken_at is compared with numbers: unix seconds")
            parts.append(_comparison("images.taken_at", ends))
        if self.deleted_since is not None:
            parts.append(("images.deleted_at >= ?", [self.deleted_since]))
        if sum(map(_num_values, self.tags.values())) > MOST_VALUES_IN_ALL:
            raise ValueError(f"a filter has at most {MOST_VALUES_IN_ALL} values of tags in all")
        clauses = " AND ".join(["TRUE", *(text for text, _ in parts)])
        return clauses, [value for _, values in parts for value in values]


def checked_value(name: str, value: object) -> TagValue:
    """The value of a tag; ValueError unless it is a string, a 64-bit integer or a finite number."""
    match value:
        case str():
            return composed(value)
        case bool():
            pass
        case int() if -(2**63) <= value < 2**63:
            return value
        case float() if math.isfinite(value):
            return value
    raise ValueError(f"{name}: a value is a string, a 64-bit integer or a finite number, not {value!r}")


def written_number(number: int | float) -> str:
    """The plain writing of a number: 5 and 5.0 are "5"."""
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 2**63
    return str(int(number) if whole else number)


def as_number(text: str) -> int | float | None:
    """The finite number that a text is the plain writing of: of "2024" and "1.5", but not of "007" or "5.0"."""
    try:
        number = int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return None
    is_storable = math.isfinite(number) if isinstance(number, float) else -(2**63) <= number < 2**63
    return number if is_storable and written_number(number) == text else None


def same_values(value: TagValue) -> list[TagValue]:
    """The value, and with it the number that a string is written like, or the string that a number is written as."""
    if not isinstance(value, str):
        return [value, written_number(value)]
    number = as_number(value)
    return [value] if number is None else [value, number]


def _num_values(condition: TagCondition) -> int:
    return len(condition) if isinstance(condition, Sequence) and not isinstance(condition, str) else 1


def _tag(name: str, condition: object) -> Sql:
    title = f"tag {name!r}"
    if isinstance(condition, Mapping):
        test, values = _tag_range(_checked_range(title, condition))
    else:
        is_list = isinstance(condition, Sequence) and not isinstance(condition, str)
        wanted = list(condition) if is_list else [condition]  # type: ignore[call-overload]
        if not 1 <= len(wanted) <= MOST_VALUES:
            raise ValueError(f"{title}: a list has 1 .. {MOST_VALUES} values, not {len(wanted)}")
        values = [same for value in wanted for same in same_values(checked_value(title, value))]
        test = f"value IN ({', '.join('?' * len(values))})"
    return f"images.number IN (SELECT image FROM tags WHERE name = ? AND {test})", [composed(name), *values]


EVERY = Filter()


def _checked_range(title: str, condition: Mapping[str, object]) -> dict[str, TagValue]:
    """Operator -> value; ValueError, in words, for what is no range."""
    unknown = sorted(set(condition) - set(OPERATORS))
    if unknown or not condition:
        raise ValueError(f"{title}: a range has {' and/or '.join(OPERATORS)}, not {', '.join(unknown) or 'nothing'}")
    ends = {operator: checked_value(title, value) for operator, value in condition.items()}
    if len({isinstance(value, str) for value in ends.values()}) > 1:
        raise ValueError(f"{title}: a range is of two numbers or of two strings")
    return ends


def _tag_range(ends: Mapping[str, TagValue]) -> Sql:
    """A range over the values of a tag, of numbers also over texts that are numbers, and the other way round."""
    if not isinstance(next(iter(ends.values())), str):
        # BETWEEN, which asks for the number once.
        return f"{NUMBER} BETWEEN ? AND ?", [ends.get("gte", -math.inf), ends.get("lte", math.inf)]
    test, values = _comparison("value", ends)
    numbers = {operator: number for operator, text in ends.items() if (number := as_number(str(text))) is not None}
    if len(numbers) < len(ends):
        return test, values
    numeric, limits = _comparison("value", numbers)
    return f"({test} OR {numeric})", [*values, *limits]


def _comparison(column: str, ends: Mapping[str, TagValue]) -> Sql:
    """`column` lies between the ends, and is of their kind."""
    # Without the kinds, SQLite would call every text larger than every number.
    kinds = TEXTS if isinstance(next(iter(ends.values())), str) else NUMBERS
    tests = [f"typeof({column}) IN ({', '.join(map(repr, kinds))})"]
    tests += [f"{column} {OPERATORS[operator]} ?" for operator in ends]
    return f"({' AND '.join(tests)})", list(ends.values())
