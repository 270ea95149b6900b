"""Lookups between slots and names. Picture ids and caption texts are the same in every copy of a collection; slots are
not."""

from collections.abc import Sequence
from typing import NamedTuple

from index.catalog.database.connection import Database
from index.catalog.filters import Filter
from index.catalog.list_orders import IN_SEVERAL, PageKey, list_parts, page_rows, place_of_key
from index.catalog.queries import AMONG, among, select_captions, to_images
from index.records import FEATURES_ONLY, Caption, Image, ImageOrder


class CaptionName(NamedTuple):
    """The picture and text of a caption, which identify it."""

    image_id: str
    text: str


class CaptionCounts(NamedTuple):
    """The numbers of captions, and of pictures that have any."""

    captions: int
    pictures: int

    @property
    def each(self) -> float:
        """The mean number of captions of a picture with captions; 1 where there are none."""
        return self.captions / self.pictures if self.pictures else 1.0


class Identities:
    """Looks up slots by names, and names by slots. Every method is one read transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._captions = -1, CaptionCounts(0, 0)  # version of the catalog, and its counts

    def slots(self, image_ids: Sequence[str]) -> dict[str, int]:
        """Id -> region slot; pictures without one are left out."""
        sql = f"SELECT image_id, slot FROM images WHERE image_id {AMONG} AND slot IS NOT NULL"
        with self._database.reading() as db:
            return dict(db.execute(sql, [among(image_ids)]).fetchall())

    def image_ids(self, slots: Sequence[int]) -> dict[int, str]:
        """Region slot -> id, for committed slots."""
        with self._database.reading() as db:
            return dict(db.execute(f"SELECT slot, image_id FROM images WHERE slot {AMONG}", [among(slots)]).fetchall())

    def arrivals(self, slots: Sequence[int]) -> dict[int, tuple[str, float]]:
        """Region slot -> id and arrival time of the picture, for committed slots."""
        sql = f"SELECT slot, image_id, added_at FROM images WHERE slot {AMONG}"
        with self._database.reading() as db:
            return {slot: (image_id, added) for slot, image_id, added in db.execute(sql, [among(slots)]).fetchall()}

    def added_at(self, image_ids: Sequence[str]) -> dict[str, float]:
        """Id -> time when the picture was added."""
        sql = f"SELECT image_id, added_at FROM images WHERE image_id {AMONG}"
        with self._database.reading() as db:
            return dict(db.execute(sql, [among(image_ids)]).fetchall())

    def extensions(self, image_ids: Sequence[str]) -> dict[str, str]:
        """Id -> extension of the original, for pictures in any state; those without an original are left out."""
        sql = f"SELECT image_id, extension FROM images WHERE image_id {AMONG} AND extension != ?"
        with self._database.reading() as db:
            return dict(db.execute(sql, [among(image_ids), FEATURES_ONLY]).fetchall())

    def images(self, image_ids: Sequence[str]) -> dict[str, Image]:
        """Id -> picture, for those that are ready."""
        sql = f"SELECT * FROM images WHERE image_id {AMONG} AND +state = 'ready'"
        with self._database.reading() as db:
            return {image.image_id: image for image in to_images(db, db.execute(sql, [among(image_ids)]).fetchall())}

    def page(self, after: PageKey | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        """Pictures that pass the filter, after a place in a list of several catalogs."""
        place = None if after is None else place_of_key(after, order)
        with self._database.reading() as db:
            return to_images(db, page_rows(db, list_parts(order, IN_SEVERAL), place, limit, condition))

    def captions(self, image_ids: Sequence[str]) -> dict[CaptionName, Caption]:
        """Caption name -> caption, for the visible captions of these pictures that have slots."""
        with self._database.reading() as db:
            captions = select_captions(db, f"image_id {AMONG} AND captions.slot IS NOT NULL", among(image_ids))
        return {CaptionName(caption.image_id, caption.text): caption for caption in captions if not caption.deleted}

    def count_captions(self) -> CaptionCounts:
        """The numbers of captions and of pictures that have any, counted once for each version of the catalog."""
        sql = "SELECT count(*), count(DISTINCT image) FROM captions WHERE text IS NOT NULL"
        with self._database.reading() as db:
            version = db.execute("SELECT value FROM counters WHERE name = 'version'").fetchone()[0]
            counted_version, counts = self._captions
            if counted_version != version:
                counts = CaptionCounts(*db.execute(sql).fetchone())
                self._captions = version, counts
        return counts
