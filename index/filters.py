"""Filters over pictures, compiled to SQL in which every value is a parameter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from index.entries import TagValue

Range: TypeAlias = Mapping[str, TagValue]
"""{"gte": low, "lte": high}, either may be absent, both of one kind (numbers or strings)."""

TagCondition: TypeAlias = TagValue | Sequence[TagValue] | Range
"""A value (equal), a list (any of), or a Range."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """All conditions must hold. `tags`: name -> condition; `taken_at`: {"gte","lte"} in unix seconds."""

    tags: Mapping[str, TagCondition] = field(default_factory=dict)
    taken_at: Range | None = None

    def __post_init__(self) -> None:
        """Raise ValueError, in words, on an unknown operator or a value that is neither string nor number."""
