"""Descriptions of pictures in requests: applicable default tags, and early checks of the bounds.

This check refuses most excessive descriptions before anything is stored. The change itself checks again
(`description_bounds.py`), since others may have extended a description meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import NamedTuple

from index.catalog.changes.description_bounds import NO_DESCRIPTION, DescriptionCounts, Excess, excess_over
from index.records import Image, TagValue

LESS_ADVICE = "write its captions anew, or take tags away, with PATCH /images/{image_id}"


class _Description(NamedTuple):
    """The captions and tag names that a picture has so far."""

    captions: Set[str]
    tags: Set[str]
    before: DescriptionCounts | None
    """The numbers of captions and tags before the request; None for a new picture."""


class DescribedPictures:
    """Accumulates, for each picture of a request, its known description and those sent with its files."""

    def __init__(self, find: Callable[[str], Image | None]) -> None:
        """`find` looks up a picture by its id."""
        self._find = find
        self._descriptions: dict[str, _Description] = {}

    def tags(
        self, image_id: str, tags: Mapping[str, TagValue], default_tags: Mapping[str, TagValue]
    ) -> dict[str, TagValue]:
        """The tags; for a new picture also the default tags, except where `tags`, or an earlier copy in this request,
        has the name."""
        if not default_tags or (description := self._description(image_id)).before is not None:
            return dict(tags)
        return {name: value for name, value in default_tags.items() if name not in description.tags} | dict(tags)

    def is_new(self, image_id: str) -> bool:
        """Whether the picture was unknown before the request."""
        return self._description(image_id).before is None

    def add(self, image_id: str, captions: Iterable[str], tags: Iterable[str]) -> str | None:
        """Add captions and tag names; the reason where they are too many, and are not added."""
        former = self._description(image_id)
        added = _Description(former.captions | set(captions), former.tags | set(tags), former.before)
        counts = DescriptionCounts(len(added.captions), len(added.tags))
        if (excess := excess_over(counts, former.before or NO_DESCRIPTION)) is not None:
            return excess_message(excess)
        self._descriptions[image_id] = added
        return None

    def _description(self, image_id: str) -> _Description:
        if image_id not in self._descriptions:
            image = self._find(image_id)
            if image is None:
                self._descriptions[image_id] = _Description(frozenset(), frozenset(), None)
            else:
                before = DescriptionCounts(len(image.captions), len(image.tags))
                self._descriptions[image_id] = _Description(set(image.captions), image.tags.keys(), before)
        return self._descriptions[image_id]


def excess_message(excess: Excess) -> str:
    """The message that refuses a file whose picture would have too many captions or tags."""
    return f"The picture {excess}: {LESS_ADVICE}."
