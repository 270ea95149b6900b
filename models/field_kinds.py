"""Validation of external values for the typed fields of dataclasses."""

import math
import types
import typing
from typing import Any, get_args, get_origin


def is_of_kind(value: object, kind: Any) -> bool:
    """Whether a field of this type may have the value; whole numbers are numbers, booleans are not."""
    match get_origin(kind):
        case typing.Literal:
            return value in get_args(kind)
        case typing.Union | types.UnionType:
            return any(is_of_kind(value, option) for option in get_args(kind))
        case origin if origin is tuple:  # of any length
            return isinstance(value, tuple) and all(is_of_kind(item, get_args(kind)[0]) for item in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def in_words(kind: Any) -> str:
    """A description of the values that a field of this type may have."""
    match get_origin(kind):
        case typing.Literal:
            return "one of " + ", ".join(map(repr, get_args(kind)))
        case typing.Union | types.UnionType:
            return " or ".join(map(in_words, get_args(kind)))
        case origin if origin is tuple:
            return f"a list, each of it {in_words(get_args(kind)[0])}"
    names = {float: "a number", int: "a whole number", bool: "true or false", str: "a text", types.NoneType: "null"}
    return names.get(kind, str(kind))
