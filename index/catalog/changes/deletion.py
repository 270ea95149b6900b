"""Deletion in three steps, each inside the caller's transaction.

A deleted picture is hidden and keeps its data, so that the deletion can be undone. After the grace period it is erased:
captions, tags, name, date and hash are removed for good. Its row stays, because its slot is a row of slabs and views.
Once its files are removed too, it is forgotten: its row gives up the id, which the same bytes may then have again.
"""

import math
from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from index.catalog.changes.decided_fields import forget_decided
from index.catalog.database.connection import Database
from index.catalog.queries import AMONG, among, find_image, to_images
from index.catalog.text_index import remove_text
from index.records import ErasedPicture, Image


def mark_deleted(db: Connection, image_id: str, now: float) -> bool:
    """Hide the picture; False where it is unknown, or hidden already."""
    sql = "UPDATE images SET deleted_at = ? WHERE image_id = ? AND deleted_at IS NULL"
    return db.execute(sql, [now, image_id]).rowcount > 0


def restore(db: Connection, image_id: str, kept_since: float) -> Image | None:
    """The picture, with its deletion undone if that is not older than `kept_since`; None where it is unknown."""
    sql = "UPDATE images SET deleted_at = NULL WHERE image_id = ? AND state = 'deleted' AND deleted_at >= ?"
    db.execute(sql, [image_id, kept_since])
    return find_image(db, image_id)


def delete_anew(db: Connection, now: float) -> None:
    """Restart the grace period of every deletion; deletions at time 0 are final and have none."""
    db.execute("UPDATE images SET deleted_at = ? WHERE state = 'deleted' AND deleted_at > 0", [now])


def deleted_before(db: Connection, kept_since: float, limit: int) -> list[int]:
    """Numbers of pictures whose deletion can no longer be undone and that are not erased yet."""
    sql = "SELECT number FROM images WHERE state = 'deleted' AND deleted_at < ? LIMIT ?"
    return [row["number"] for row in db.execute(sql, [kept_since, limit])]


def erase(db: Connection, numbers: Iterable[int], now: float) -> None:
    """Remove captions, tags, names and dates of these pictures; their files may be removed from now on."""
    for number in numbers:
        erase_captions(db, number)
        db.execute("DELETE FROM tags WHERE image = ?", [number])
        forget_decided(db, number)
        db.execute(
            "UPDATE images SET erased_at = ?, filename = '', taken_at = NULL, looks = NULL, reason = NULL"
            " WHERE number = ?",
            [now, number],
        )
        remove_text(db, number)


def erase_captions(db: Connection, number: int, after: int = 0) -> None:
    """Remove the texts of a picture's captions whose ids are above `after`; caption slots stay occupied."""
    db.execute("DELETE FROM captions WHERE image = ? AND caption_id > ? AND slot IS NULL", [number, after])
    db.execute("UPDATE captions SET text = NULL WHERE image = ? AND caption_id > ?", [number, after])


def forget(db: Connection, numbers: Iterable[int]) -> None:
    """Give up the ids of erased pictures, whose files are removed or now belong to another picture."""
    db.executemany(
        "UPDATE images SET image_id = 'erased-' || number, extension = '', num_bytes = 0 WHERE number = ?",
        [[number] for number in numbers],
    )


class Erasures:
    """The steps that make deletions final. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._earliest = -1, math.inf  # the catalog's version, and the time of the earliest deletion in it

    def are_due(self, kept_since: float) -> bool:
        """Whether any picture that is not erased was deleted before `kept_since`. The earliest deletion is looked up
        once for each version of the catalog."""
        with self._database.reading() as db:
            (version,) = db.execute("SELECT value FROM counters WHERE name = 'version'").fetchone()
            if version != self._earliest[0]:
                (earliest,) = db.execute("SELECT min(deleted_at) FROM images WHERE state = 'deleted'").fetchone()
                self._earliest = version, math.inf if earliest is None else earliest
        return self._earliest[1] < kept_since

    def erase_deleted(self, kept_since: float, now: float, limit: int) -> int:
        """Erase at most `limit` pictures deleted before `kept_since`; returns how many."""
        if not self.are_due(kept_since):
            return 0
        with self._database.changing() as db:
            numbers = deleted_before(db, kept_since, limit)
            erase(db, numbers, now)
            return len(numbers)

    def not_erased(self, after: int, limit: int) -> list[tuple[int, Image]]:
        """Pictures that are not erased, deleted ones included, each with its number; those whose numbers follow
        `after`."""
        sql = "SELECT * FROM images WHERE number > ? AND erased_at IS NULL ORDER BY number LIMIT ?"
        with self._database.reading() as db:
            rows = db.execute(sql, [after, limit]).fetchall()
            return list(zip([row["number"] for row in rows], to_images(db, rows), strict=True))

    def being_erased(self, limit: int) -> list[ErasedPicture]:
        """Erased pictures whose files may still exist."""
        sql = "SELECT number, image_id, extension FROM images WHERE state = 'erasing' LIMIT ?"
        with self._database.reading() as db:
            return [ErasedPicture(**row) for row in db.execute(sql, [limit])]

    def hidden(self, image_ids: Sequence[str]) -> dict[str, int]:
        """Id -> number of each of these pictures that is deleted; 0 for one that is erased or was never there."""
        sql = (
            "SELECT value, coalesce(number, 0) FROM json_each(?) LEFT JOIN images ON image_id = value"
            " AND erased_at IS NULL WHERE number IS NULL OR deleted_at IS NOT NULL"
        )
        with self._database.reading() as db:
            return dict(db.execute(sql, [among(image_ids)]).fetchall())

    def states(self, numbers: Iterable[int]) -> dict[int, str]:
        """Number of a picture -> its state."""
        with self._database.reading() as db:
            rows = db.execute(f"SELECT number, state FROM images WHERE number {AMONG}", [among(numbers)])
            return dict(rows.fetchall())

    def slots(self) -> tuple[list[int], list[int]]:
        """Region slots of forgotten pictures and caption slots of erased captions, whose contents belong to nothing."""
        with self._database.reading() as db:
            images = db.execute("SELECT slot FROM images WHERE state = 'erased' AND slot IS NOT NULL ORDER BY slot")
            captions = db.execute("SELECT slot FROM captions WHERE text IS NULL AND slot IS NOT NULL ORDER BY slot")
            return [row["slot"] for row in images], [row["slot"] for row in captions]

    def fold_log(self) -> bool:
        """Fold the write-ahead log, which still holds former pages, into the file and empty it. False where another
        process keeps reading the catalog beyond the timeout."""
        busy, *_ = self._database.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def forget(self, pictures: Sequence[ErasedPicture]) -> None:
        """Give up the ids of erased pictures whose files are removed."""
        with self._database.changing() as db:
            forget(db, [picture.number for picture in pictures])
