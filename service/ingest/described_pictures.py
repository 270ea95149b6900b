"""Pictures as requests describe them: which default tags count, and when too much is said about one.

A look before the change, which refuses most of what is too much before anything is stored. The change itself looks
again (`description_bounds.py`): others may have said something meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import NamedTuple

from index.catalog.changes.description_bounds import NOTHING_SAID, Excess, SaidCounts, excess_over
from index.records import Image, TagValue

LESS_ADVICE = "write its captions anew, or take tags away, with PATCH /images/{image_id}"


class _Description(NamedTuple):
    """The captions and the names of the tags that a picture has so far."""

    captions: Set[str]
    tags: Set[str]
    before: SaidCounts | None
    """How much was said of it before; None of a new one."""


class DescribedPictures:
    """Adds what the files of one request say of their pictures to what is known of each."""

    def __init__(self, find: Callable[[str], Image | None]) -> None:
        """`find` gives a picture by its id."""
        self._find = find
        self._so_far: dict[str, _Description] = {}

    def tags(
        self, image_id: str, tags: Mapping[str, TagValue], default_tags: Mapping[str, TagValue]
    ) -> dict[str, TagValue]:
        """The tags; where the picture is new, also the default ones whose names neither they have nor a copy of it that
        was added before."""
        if not default_tags or (so_far := self._description(image_id)).before is not None:
            return dict(tags)
        return {name: value for name, value in default_tags.items() if name not in so_far.tags} | dict(tags)

    def add(self, image_id: str, captions: Iterable[str], tags: Iterable[str]) -> str | None:
        """Add captions and tags of these names; the reason where they are too many, and are not added."""
        so_far = self._description(image_id)
        added = _Description(so_far.captions | set(captions), so_far.tags | set(tags), so_far.before)
        said = SaidCounts(len(added.captions), len(added.tags))
        if (excess := excess_over(said, so_far.before or NOTHING_SAID)) is not None:
            return too_much_said(excess)
        self._so_far[image_id] = added
        return None

    def _description(self, image_id: str) -> _Description:
        if image_id not in self._so_far:
            image = self._find(image_id)
            if image is None:
                self._so_far[image_id] = _Description(frozenset(), frozenset(), None)
            else:
                before = SaidCounts(len(image.captions), len(image.tags))
                self._so_far[image_id] = _Description(set(image.captions), image.tags.keys(), before)
        return self._so_far[image_id]


def too_much_said(excess: Excess) -> str:
    """The reason why a file that says so much of its picture is not taken in."""
    return f"The picture {excess}: {LESS_ADVICE}."
