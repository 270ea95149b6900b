"""The most that may be said about a picture, however many requests say it."""

from collections.abc import Callable, Iterable, Mapping

from index.records import Image

MOST_CAPTIONS = 1000
MOST_TAGS = 1000
LESS_ADVICE = "write its captions anew, or take tags away, with PATCH /images/{image_id}"


class DescriptionBounds:
    """Counts what the parts of one request add to what is known of each picture."""

    def __init__(self, find: Callable[[str], Image | None]) -> None:
        """`find` gives a picture by its id."""
        self._find = find
        self._said: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def refusal(self, image_id: str, captions: Iterable[str], tags: Iterable[str]) -> str | None:
        """The reason why captions and tags of these names are too many for the picture; None where they count now."""
        known, named = self._said.get(image_id) or self._known(image_id)
        known, named = known | set(captions), named | set(tags)
        for what, count, most in (("captions", len(known), MOST_CAPTIONS), ("tags", len(named), MOST_TAGS)):
            if count > most:
                return f"The picture would have {count} {what}, and may have {most}: {LESS_ADVICE}."
        self._said[image_id] = known, named
        return None

    def _known(self, image_id: str) -> tuple[frozenset[str], frozenset[str]]:
        image = self._find(image_id)
        return (frozenset(), frozenset()) if image is None else (frozenset(image.captions), frozenset(image.tags))


def too_many_tags(image: Image, changes: Mapping[str, object]) -> str | None:
    """The reason why tags cannot be changed so, where None takes one away; None where they can."""
    left = image.tags.keys() - {name for name, value in changes.items() if value is None}
    count = len(left | {name for name, value in changes.items() if value is not None})
    if count <= max(MOST_TAGS, len(image.tags)):
        return None
    return f"the picture would have {count} tags, and may have {MOST_TAGS}; null takes one away"
