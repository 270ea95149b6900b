"""Slots by what they hold: ids of pictures and texts of captions are the same in every copy of a collection, slots are
not."""

from collections.abc import Sequence
from typing import NamedTuple

from index.catalog.database.connection import Database
from index.catalog.filters import Filter
from index.catalog.list_orders import IN_SEVERAL, PageKey, list_parts, page_rows, place_of_key
from index.catalog.queries import AMONG, among, select_captions, to_images
from index.records import FEATURES_ONLY, Caption, Image, ImageOrder


class CaptionName(NamedTuple):
    """A caption's picture and text, which no other caption shares."""

    image_id: str
    text: str


class CaptionCounts(NamedTuple):
    """Captions, and pictures that have some."""

    captions: int
    pictures: int

    @property
    def each(self) -> float:
        """Captions that a picture with captions has, on average; 1 where there are none."""
        return self.captions / self.pictures if self.pictures else 1.0


class Identities:
    """Looks up slots by names, and names by slots. Every method is one look."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._captions = -1, CaptionCounts(0, 0)  # as counted at that version of the catalog

    def slots(self, image_ids: Sequence[str]) -> dict[str, int]:
        """Id -> region slot; pictures without one are left out."""
        sql = f"SELECT image_id, slot FROM images WHERE image_id {AMONG} AND slot IS NOT NULL"
        with self._database.reading() as db:
            return dict(db.execute(sql, [among(image_ids)]).fetchall())

    def image_ids(self, slots: Sequence[int]) -> dict[int, str]:
        """Region slot -> id, of committed slots."""
        with self._database.reading() as db:
            return dict(db.execute(f"SELECT slot, image_id FROM images WHERE slot {AMONG}", [among(slots)]).fetchall())

    def arrivals(self, slots: Sequence[int]) -> dict[int, tuple[str, float]]:
        """Region slot -> id, and when the picture was taken in, of committed slots."""
        sql = f"SELECT slot, image_id, added_at FROM images WHERE slot {AMONG}"
        with self._database.reading() as db:
            return {slot: (image_id, added) for slot, image_id, added in db.execute(sql, [among(slots)]).fetchall()}

    def added_at(self, image_ids: Sequence[str]) -> dict[str, float]:
        """Id -> when the picture was taken in."""
        sql = f"SELECT image_id, added_at FROM images WHERE image_id {AMONG}"
        with self._database.reading() as db:
            return dict(db.execute(sql, [among(image_ids)]).fetchall())

    def extensions(self, image_ids: Sequence[str]) -> dict[str, str]:
        """Id -> extension of the original, of pictures in whatever state; those without an original are left out."""
        sql = f"SELECT image_id, extension FROM images WHERE image_id {AMONG} AND extension != ?"
        with self._database.reading() as db:
            return dict(db.execute(sql, [among(image_ids), FEATURES_ONLY]).fetchall())

    def images(self, image_ids: Sequence[str]) -> dict[str, Image]:
        """Id -> picture, of those that are ready."""
        sql = f"SELECT * FROM images WHERE image_id {AMONG} AND +state = 'ready'"
        with self._database.reading() as db:
            return {image.image_id: image for image in to_images(db, db.execute(sql, [among(image_ids)]).fetchall())}

    def page(self, after: PageKey | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        """Pictures that pass the filter, after a place in a list of several catalogs."""
        place = None if after is None else place_of_key(after, order)
        with self._database.reading() as db:
            return to_images(db, page_rows(db, list_parts(order, IN_SEVERAL), place, limit, condition))

    def captions(self, image_ids: Sequence[str]) -> dict[CaptionName, Caption]:
        """The captions of these pictures that have slots and may be shown, by name."""
        with self._database.reading() as db:
            found = select_captions(db, f"image_id {AMONG} AND captions.slot IS NOT NULL", among(image_ids))
        return {CaptionName(one.image_id, one.text): one for one in found if not one.deleted}

    def count_captions(self) -> CaptionCounts:
        """The number of captions, and of the pictures that have any: counted anew when the catalog has changed."""
        sql = "SELECT count(*), count(DISTINCT image) FROM captions WHERE text IS NOT NULL"
        with self._database.reading() as db:
            version = db.execute("SELECT value FROM counters WHERE name = 'version'").fetchone()[0]
            known, counts = self._captions
            if known != version:
                counts = CaptionCounts(*db.execute(sql).fetchone())
                self._captions = version, counts
        return counts
