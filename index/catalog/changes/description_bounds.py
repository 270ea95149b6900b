"""The bounds of a picture's description, checked inside the transaction that extends it."""

from collections.abc import Mapping
from sqlite3 import Connection
from typing import NamedTuple

MOST_CAPTIONS = 1000
MOST_TAGS = 1000


class DescriptionCounts(NamedTuple):
    """The numbers of captions and tags of a picture."""

    captions: int
    tags: int


class Excess(NamedTuple):
    """The number of captions or tags that a picture would have, beyond the most allowed."""

    what: str
    total: int
    most: int

    def __str__(self) -> str:
        return f"would have {self.total} {self.what}, and may have {self.most}"


class OversizedDescription(ValueError):
    """Pictures would have more captions or tags than allowed, and nothing was changed. `refused` maps their ids to the
    excess."""

    def __init__(self, refused: Mapping[str, Excess]) -> None:
        super().__init__(refused)
        self.refused = dict(refused)

    def __str__(self) -> str:
        return "; ".join(f"picture {image_id} {excess}" for image_id, excess in self.refused.items())


NO_DESCRIPTION = DescriptionCounts(captions=0, tags=0)


def count_description(db: Connection, number: int) -> DescriptionCounts:
    """The numbers of a picture's captions and tags."""
    captions = db.execute("SELECT count(*) FROM captions WHERE image = ? AND text IS NOT NULL", [number]).fetchone()[0]
    tags = db.execute("SELECT count(*) FROM tags WHERE image = ?", [number]).fetchone()[0]
    return DescriptionCounts(int(captions), int(tags))


def excess_over(counts: DescriptionCounts, counts_before: DescriptionCounts = NO_DESCRIPTION) -> Excess | None:
    """The excess of a description, or None. Counts beyond the bounds are allowed up to `counts_before`: the metadata of
    a file, and earlier releases, may go beyond the bounds."""
    limits = (MOST_CAPTIONS, MOST_TAGS)
    for field, count, most, count_before in zip(DescriptionCounts._fields, counts, limits, counts_before, strict=True):
        if count > max(most, count_before):
            return Excess(field, count, most)
    return None
