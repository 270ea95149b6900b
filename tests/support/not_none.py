"""Values that may be None elsewhere, and are not where a test looks."""

from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """The value; AssertionError where it is None."""
    assert value is not None
    return value
