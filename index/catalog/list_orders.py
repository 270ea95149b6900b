"""The orders of picture lists, read a page at a time along the catalog's indexes.

A list of one catalog is sorted by the numbers of its pictures. A list of several catalogs is sorted by arrival time and
picture id, which are the same in every copy of a collection.
"""

from collections.abc import Sequence
from sqlite3 import Connection, Row
from typing import Any, NamedTuple, TypeAlias

from index.catalog.filters import Filter
from index.records import UNCHANGED, Image, ImageOrder, ListPlace

PageKey: TypeAlias = tuple[float | str, ...]
"""A picture's sort key in a list of several catalogs."""


class UnknownPlace(ValueError):
    """A list cannot continue after a picture that is unknown."""

    def __init__(self, image_id: str) -> None:
        super().__init__(f"no picture {image_id} to list after")


class ListPart(NamedTuple):
    """A run of pictures in a list, sorted by a column and, among equals, by the unique column `tie`."""

    among: str
    """The SQL condition that selects the part."""
    column: str
    is_descending: bool
    tie: str
    is_tie_descending: bool

    def behind(self) -> str:
        """The SQL condition of the pictures after a place; its parameters are the column's value twice, then the
        tie's."""
        sign, tie_sign = "<" if self.is_descending else ">", "<" if self.is_tie_descending else ">"
        return f"{self.column} {sign}= ? AND ({self.column} {sign} ? OR {self.tie} {tie_sign} ?)"

    def sorting(self) -> str:
        """The SQL sort order of the part."""
        direction, tie_direction = ("DESC" if flag else "ASC" for flag in (self.is_descending, self.is_tie_descending))
        return f"{self.column} {direction}, {self.tie} {tie_direction}"


class ListedAt(NamedTuple):
    """A picture's place in a list: the number of its part, and the values of its two sort columns."""

    part: int
    value: float
    tie: float | str


IN_ONE = ListPart("TRUE", "number", True, "number", True)
"""The latest pictures of one catalog first."""
IN_SEVERAL = ListPart("TRUE", "added_at", True, "image_id", False)
"""The latest pictures of several catalogs first."""


def list_parts(order: ImageOrder, latest: ListPart) -> Sequence[ListPart]:
    """The parts of a list, in order; `latest` is IN_ONE or IN_SEVERAL."""
    match order:
        case "arrival":
            return [latest._replace(is_descending=False, is_tie_descending=False)]
        case "latest":
            return [latest]
    return [latest._replace(among="taken_at IS NOT NULL", column="taken_at"), latest._replace(among="taken_at IS NULL")]


def place_in_one(db: Connection, after: ListPlace, order: ImageOrder) -> ListedAt:
    """The place in a list of one catalog. UnknownPlace where the picture is unknown, or known only as erased."""
    row = db.execute("SELECT number, taken_at, added_at FROM images WHERE image_id = ?", [after.image_id]).fetchone()
    number, taken_at = (None, None) if row is None else (row["number"], row["taken_at"])
    # A picture that was erased since then may have been sent again, and is now listed elsewhere.
    if row is None or after.added_at not in (None, row["added_at"]):
        erased_number = number_of_erased(db, after, order)
        number, taken_at = (number, taken_at) if erased_number is None else (erased_number, None)
    if number is None:
        raise UnknownPlace(after.image_id)
    if order != "date":
        return ListedAt(0, number, number)
    if after.taken_at is not UNCHANGED:
        taken_at = after.taken_at
    return ListedAt(1, number, number) if taken_at is None else ListedAt(0, taken_at, number)


def number_of_erased(db: Connection, after: ListPlace, order: ImageOrder) -> int | None:
    """The number of a picture that was erased since its list was read; None where there is none.

    Of several erased pictures with the same arrival time it is the first in the list, so that none is skipped.
    """
    first = "min" if order == "arrival" else "max"
    sql = f"SELECT {first}(number) FROM images WHERE added_at = ? AND state = 'erased'"
    (number,) = db.execute(sql, [after.added_at]).fetchone()
    return None if number is None else int(number)


def page_key(image: Image, order: ImageOrder) -> PageKey:
    """The sort key of a picture in a list of several catalogs."""
    return key_of(image.image_id, image.added_at, image.taken_at, order)


def key_of(image_id: str, added_at: float, taken_at: float | None, order: ImageOrder) -> PageKey:
    """`page_key` from a picture's id and times."""
    match order:
        case "arrival":
            return added_at, image_id
        case "latest":
            return -added_at, image_id
    sorted_by = added_at if taken_at is None else taken_at
    return float(taken_at is None), -sorted_by, image_id


def place_of_key(key: PageKey, order: ImageOrder) -> ListedAt:
    """The place in a list that a sort key stands for."""
    *part, value, image_id = key
    return ListedAt(int(part[0]) if part else 0, float(value) if order == "arrival" else -float(value), image_id)


def page_rows(
    db: Connection, parts: Sequence[ListPart], after: ListedAt | None, limit: int, condition: Filter
) -> list[Row]:
    """Rows of pictures that pass the condition, after the given place."""
    where, values = condition.sql()
    table, state = "images", "deleted_at IS NULL"
    # Deleted pictures are few: sorting them is quicker than skipping all others in list order.
    if condition.deleted_since is not None:
        table, state = "images INDEXED BY images_deleted", "deleted_at IS NOT NULL AND erased_at IS NULL"
    rows = list[Row]()
    for number, part in enumerate(parts):
        behind, place = "TRUE", list[Any]()
        if after is not None and number < after.part:
            continue
        if after is not None and number == after.part:
            behind, place = part.behind(), [after.value, after.value, after.tie]
        rows += db.execute(
            f"SELECT * FROM {table} WHERE {state} AND {part.among} AND {behind} AND {where}"
            f" ORDER BY {part.sorting()} LIMIT ?",
            [*place, *values, limit - len(rows)],
        )
        if len(rows) == limit:
            break
    return rows


def count_by_state(db: Connection, condition: Filter) -> dict[str, int]:
    """The number of pictures that pass the condition, on all pages of their list, for each state."""
    where, values = condition.sql()
    states = ("deleted",) if condition.deleted_since is not None else ("ready", "queued", "failed")
    among = ", ".join(f"'{state}'" for state in states)  # read from the index, which skips deleted pictures
    rows = db.execute(f"SELECT state, count(*) FROM images WHERE state IN ({among}) AND {where} GROUP BY state", values)
    return {**dict.fromkeys(states, 0), **dict(rows.fetchall())}
