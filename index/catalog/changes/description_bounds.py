"""The most that may be said about one picture, looked at inside the transaction that says more."""

from collections.abc import Mapping
from sqlite3 import Connection
from typing import NamedTuple

MOST_CAPTIONS = 1000
MOST_TAGS = 1000


class SaidCounts(NamedTuple):
    """The numbers of captions and tags that a picture has."""

    captions: int
    tags: int


class Excess(NamedTuple):
    """The number of captions, or of tags, that a picture would have, and the most that it may have."""

    what: str
    total: int
    most: int

    def __str__(self) -> str:
        return f"would have {self.total} {self.what}, and may have {self.most}"


class TooMuchSaid(ValueError):
    """Pictures would have more captions or tags than they may have: nothing was changed. `refused` has them by id."""

    def __init__(self, refused: Mapping[str, Excess]) -> None:
        super().__init__(refused)
        self.refused = dict(refused)

    def __str__(self) -> str:
        return "; ".join(f"picture {image_id} {excess}" for image_id, excess in self.refused.items())


NOTHING_SAID = SaidCounts(captions=0, tags=0)


def count_said(db: Connection, number: int) -> SaidCounts:
    """The numbers of a picture's captions and tags."""
    captions = db.execute("SELECT count(*) FROM captions WHERE image = ? AND text IS NOT NULL", [number]).fetchone()[0]
    tags = db.execute("SELECT count(*) FROM tags WHERE image = ?", [number]).fetchone()[0]
    return SaidCounts(int(captions), int(tags))


def excess_over(said: SaidCounts, before: SaidCounts = NOTHING_SAID) -> Excess | None:
    """The excess of what is said of a picture; None where it is within the bounds, or no more than was said `before`:
    a file that says much of itself, and an earlier release, go beyond them."""
    for what, count, most, had in zip(SaidCounts._fields, said, (MOST_CAPTIONS, MOST_TAGS), before, strict=True):
        if count > max(most, had):
            return Excess(what, count, most)
    return None
