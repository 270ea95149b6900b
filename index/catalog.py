"""The system of record: what is committed here exists, nothing else does."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection

from index.filters import Filter
from index.queries import AMONG, among, job_status, mask_of, select_captions, tag_uses, to_failures, to_images
from index.records import (
    FEATURES_ONLY,
    Caption,
    DetectedPicture,
    Failure,
    Image,
    JobStatus,
    Mask,
    NewPicture,
    QueuedPicture,
    RegionStoreEntry,
    TagUse,
)
from index.region_stores import (
    add_records,
    complete_store,
    count_records,
    note_regions,
    replace_entries,
    retire_stores,
    store_entries,
    unreadable_pictures,
)
from index.schema import Database
from index.writes import assign_caption_slots, assign_slot, next_caption_slot, next_slot, upsert_picture


class Catalog:
    """Images, captions, tags, jobs and tombstones in SQLite. Safe from many threads and processes.

    Every method is one transaction, durable when it returns. Times are unix seconds, passed in.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file; UnknownSchema when it was made by another version."""
        self._database = Database(path)

    def close(self) -> None:
        """Close the connections of all threads."""
        self._database.close()

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A transaction that changes what is seen."""
        with self._database.writing() as db:
            yield db
            db.execute("UPDATE counters SET value = value + 1 WHERE name = 'version'")

    # -- taking pictures in

    def accept(self, pictures: Sequence[NewPicture], now: float) -> str:
        """Make a job of the pictures; its id.

        A picture already known gets the captions and tags it lacks (a tag of the same name is replaced); a
        deleted one comes back, in its slot when it has one; a failed one is queued afresh.
        ValueError for a tag that is neither string nor finite number.
        """
        job_id = uuid.uuid4().hex
        with self._changing() as db:
            db.execute("INSERT INTO jobs (job_id, created_at) VALUES (?, ?)", [job_id, now])
            numbers = {upsert_picture(db, picture, now) for picture in pictures}
            db.executemany("INSERT INTO job_images (job_id, image) VALUES (?, ?)", [(job_id, n) for n in numbers])
        return job_id

    def known_ids(self, image_ids: Sequence[str]) -> set[str]:
        """The ids among these whose pictures are queued or ready."""
        with self._database.reading() as db:
            sql = f"SELECT image_id FROM images WHERE image_id {AMONG} AND +state IN ('queued', 'ready')"
            return {row["image_id"] for row in db.execute(sql, [among(image_ids)])}

    def job(self, job_id: str) -> JobStatus | None:
        """How far the job is; None when there is no such job."""
        with self._database.reading() as db:
            if db.execute("SELECT 1 FROM jobs WHERE job_id = ?", [job_id]).fetchone() is None:
                return None
            sql = "SELECT images.* FROM job_images JOIN images ON number = image WHERE job_id = ? ORDER BY number"
            return job_status(job_id, db.execute(sql, [job_id]).fetchall())

    def queued(self, limit: int) -> list[QueuedPicture]:
        """Pictures waiting for regions, oldest first."""
        sql = (
            "SELECT image_id, filename, extension, attempts FROM images WHERE state = 'queued' ORDER BY number LIMIT ?"
        )
        with self._database.reading() as db:
            return [QueuedPicture(**row) for row in db.execute(sql, [limit])]

    def count_attempt(self, image_id: str, reason: str) -> int:
        """Count one more failed attempt; the attempts so far. KeyError when unknown."""
        sql = "UPDATE images SET attempts = attempts + 1, reason = ? WHERE image_id = ? RETURNING attempts"
        with self._changing() as db:
            changed = db.execute(sql, [reason, image_id]).fetchall()
            if not changed:
                raise KeyError(f"no picture {image_id}")
            return int(changed[0]["attempts"])

    def set_aside(self, image_id: str, reason: str, now: float) -> None:
        """Take a queued picture out of the queue, listed among the failures."""
        sql = "UPDATE images SET failed_at = ?, reason = ? WHERE image_id = ? AND state = 'queued'"
        with self._changing() as db:
            db.execute(sql, [now, reason, image_id])

    def failures(self) -> list[Failure]:
        """Pictures set aside, and those of which the current region store holds none, the latest first."""
        sql = "SELECT * FROM images WHERE state = 'failed' ORDER BY failed_at DESC, number DESC"
        with self._database.reading() as db:
            unread = sorted(unreadable_pictures(db), key=lambda one: one[0], reverse=True)
            set_aside = db.execute(sql).fetchall()
        timed = [*zip([row["failed_at"] for row in set_aside], to_failures(set_aside), strict=True), *unread]
        return [failure for _, failure in sorted(timed, key=lambda one: one[0], reverse=True)]

    def commit(self, detected: Sequence[DetectedPicture], new: Sequence[NewPicture] = (), now: float = 0.0) -> None:
        """Give pictures their region slots, and their captions the next caption slots.

        Slots must continue num_slots() without a gap, ValueError otherwise. `new` are taken in first, as `accept`
        does but without a job: what comes with its regions is never seen waiting for them.
        """
        with self._changing() as db:
            for picture in new:
                upsert_picture(db, picture, now)
            first = next_slot(db)
            slots = [picture.slot for picture in detected]
            if slots != list(range(first, first + len(slots))):
                raise ValueError(f"the next region slots are {first} and on, not {slots}")
            assign_caption_slots(db, [assign_slot(db, picture) for picture in detected])

    # -- what is committed

    def num_slots(self) -> int:
        """Committed region slots: the true length of the region slab (deleted pictures included)."""
        with self._database.reading() as db:
            return next_slot(db)

    def num_caption_slots(self) -> int:
        """Committed caption slots: how long every view's caption slab is to become."""
        with self._database.reading() as db:
            return next_caption_slot(db)

    def version(self) -> int:
        """A number that changes with every change but heartbeats; cheap enough to poll."""
        with self._database.reading() as db:
            return int(db.execute("SELECT value FROM counters WHERE name = 'version'").fetchone()[0])

    def image(self, image_id: str) -> Image | None:
        """The picture in whatever state (look at `.state`: it may be deleted); None when never seen."""
        with self._database.reading() as db:
            rows = db.execute("SELECT * FROM images WHERE image_id = ?", [image_id]).fetchall()
            return next(iter(to_images(db, rows)), None)

    def images_at(self, slots: Sequence[int]) -> list[Image | None]:
        """The pictures at region slots, in the order asked; None where deleted or not committed."""
        wanted = [int(slot) for slot in slots]
        with self._database.reading() as db:
            sql = f"SELECT * FROM images WHERE slot {AMONG} AND deleted_at IS NULL"
            images = to_images(db, db.execute(sql, [among(wanted)]).fetchall())
        found = {image.slot: image for image in images}
        return [found.get(slot) for slot in wanted]

    def pictures_at(self, slots: Sequence[int]) -> list[Image]:
        """The pictures at committed region slots, in the order asked, deleted ones included. KeyError past the end."""
        with self._database.reading() as db:
            images = to_images(db, db.execute(f"SELECT * FROM images WHERE slot {AMONG}", [among(slots)]).fetchall())
        found = {image.slot: image for image in images}
        return [found[slot] for slot in slots]

    def list_images(self, after: str | None, limit: int) -> list[Image]:
        """Pictures not deleted, in order of arrival, after the id given. ValueError when that id is unknown."""
        with self._database.reading() as db:
            number = 0
            if after is not None:
                found = db.execute("SELECT number FROM images WHERE image_id = ?", [after]).fetchone()
                if found is None:
                    raise ValueError(f"no picture {after} to list after")
                number = found["number"]
            sql = "SELECT * FROM images WHERE number > ? AND state != 'deleted' ORDER BY number LIMIT ?"
            return to_images(db, db.execute(sql, [number, limit]).fetchall())

    def captions_of(self, image_ids: Sequence[str]) -> dict[str, list[Caption]]:
        """The captions of each picture (deleted or not), in order of arrival; ids never seen are left out."""
        with self._database.reading() as db:
            sql = f"SELECT image_id FROM images WHERE image_id {AMONG}"
            found: dict[str, list[Caption]] = {row["image_id"]: [] for row in db.execute(sql, [among(image_ids)])}
            for caption in select_captions(db, f"image_id {AMONG}", among(image_ids)):
                found[caption.image_id].append(caption)
            return found

    def captions_at(self, slots: Sequence[int]) -> list[Caption]:
        """The captions at caption slots, in the order asked, also of deleted pictures. KeyError past the end."""
        wanted = [int(slot) for slot in slots]
        with self._database.reading() as db:
            captions = select_captions(db, f"captions.slot {AMONG}", among(wanted))
        found = {caption.slot: caption for caption in captions}
        return [found[slot] for slot in wanted]

    # -- what may be shown

    def visible(self) -> Mask:
        """[num_slots] True where the picture is not deleted."""
        with self._database.reading() as db:
            deleted = db.execute("SELECT slot FROM images WHERE state = 'deleted' AND slot IS NOT NULL")
            return ~mask_of(deleted, next_slot(db))

    def visible_captions(self) -> Mask:
        """[num_caption_slots] True where the caption's picture is not deleted."""
        sql = (
            "SELECT captions.slot FROM captions JOIN images ON number = image"
            " WHERE state = 'deleted' AND captions.slot IS NOT NULL"
        )
        with self._database.reading() as db:
            return ~mask_of(db.execute(sql), next_caption_slot(db))

    def captions_per_picture(self) -> float:
        """Captions that a picture with captions has, on average; 1 where there are none."""
        with self._database.reading() as db:
            captions, pictures = db.execute("SELECT count(*), count(DISTINCT image) FROM captions").fetchone()
            return captions / pictures if pictures else 1.0

    def matching(self, condition: Filter) -> Mask:
        """[num_slots] True where the picture is visible and passes the filter."""
        where, values = condition.sql()
        with self._database.reading() as db:
            passing = db.execute(f"SELECT slot FROM images WHERE state = 'ready' AND {where}", values)
            return mask_of(passing, next_slot(db))

    def matching_captions(self, condition: Filter) -> Mask:
        """[num_caption_slots] True where the caption's picture is visible and passes the filter."""
        where, values = condition.sql()
        sql = (
            "SELECT captions.slot FROM captions JOIN images ON images.number = captions.image"
            f" WHERE captions.slot IS NOT NULL AND state = 'ready' AND {where}"
        )
        with self._database.reading() as db:
            return mask_of(db.execute(sql, values), next_caption_slot(db))

    def tags(self, most_values: int) -> list[TagUse]:
        """The tags of visible pictures by name, each with at most so many values."""
        with self._database.reading() as db:
            return tag_uses(db, most_values)

    def delete(self, image_id: str, now: float) -> bool:
        """Put up the tombstone; False when there is no such picture, or it is deleted already."""
        sql = "UPDATE images SET deleted_at = ? WHERE image_id = ? AND deleted_at IS NULL"
        with self._changing() as db:
            return db.execute(sql, [now, image_id]).rowcount > 0

    # -- region stores

    def region_stores(self) -> list[RegionStoreEntry]:
        """The region stores, the current one first; empty where there never was more than one extractor."""
        with self._database.reading() as db:
            return store_entries(db)

    def set_region_stores(self, entries: Sequence[RegionStoreEntry]) -> None:
        """List these region stores in the place of all others."""
        with self._changing() as db:
            replace_entries(db, entries)

    def latest_extractor(self) -> str | None:
        """Digest of the extractor of the last slot that says one; None where nothing is stored."""
        sql = "SELECT extractor FROM images WHERE slot IS NOT NULL AND extractor IS NOT NULL ORDER BY slot DESC LIMIT 1"
        with self._database.reading() as db:
            found = db.execute(sql).fetchone()
            return None if found is None else str(found["extractor"])

    def has_pictures(self) -> bool:
        """Whether anything was taken in with its picture, and not as features alone; deleted ones do not count."""
        sql = f"SELECT 1 FROM images WHERE extension != '{FEATURES_ONLY}' AND deleted_at IS NULL LIMIT 1"
        with self._database.reading() as db:
            return db.execute(sql).fetchone() is not None

    def num_region_records(self, extractor: str) -> int:
        """Leading slots that have a region record of the extractor, blank ones included."""
        with self._database.reading() as db:
            return count_records(db, extractor)

    def add_region_records(self, extractor: str, slots: range, blanks: Mapping[int, str | None], now: float) -> None:
        """Count records that lie, fsynced, at these slots of the extractor's store.

        `blanks`: slot -> why its record is blank, None where features alone are known. ValueError where the slots
        do not continue what is there.
        """
        with self._changing() as db:
            add_records(db, extractor, slots, blanks, now)

    def note_region_records(
        self, extractor: str, slots: Sequence[int], blanks: Mapping[int, str | None], now: float
    ) -> None:
        """Note that records of the extractor were made again, and which of them are still blank, and why."""
        with self._changing() as db:
            note_regions(db, extractor, slots, blanks, now)

    def complete_region_store(self, extractor: str) -> bool:
        """Note that every slot has a record of the extractor; False where one lacks it."""
        with self._changing() as db:
            return complete_store(db, extractor)

    def retire_region_stores(self) -> None:
        """Give up all stores but the current one, and those whose features alone are known of some picture."""
        with self._changing() as db:
            retire_stores(db)

    def blank_slots(self, extractor: str) -> list[int]:
        """Slots whose record of the extractor is blank: searches must not score them."""
        with self._database.reading() as db:
            rows = db.execute("SELECT slot FROM blank_regions WHERE extractor = ? ORDER BY slot", [extractor])
            return [row["slot"] for row in rows]

    def unreadable_slots(self, extractor: str) -> list[int]:
        """Slots whose record of the extractor is blank because the picture could not be read, not for want of one."""
        sql = "SELECT slot FROM blank_regions WHERE extractor = ? AND reason IS NOT NULL ORDER BY slot"
        with self._database.reading() as db:
            return [row["slot"] for row in db.execute(sql, [extractor])]

    # -- views and processes

    def request_view(self, digest: str, now: float) -> None:
        """Have the view of the model with this digest kept up, whatever settings name."""
        sql = "INSERT INTO requested_views (digest, requested_at) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING"
        with self._changing() as db:
            db.execute(sql, [digest, now])

    def requested_views(self) -> set[str]:
        """Digests of the models whose views were requested."""
        with self._database.reading() as db:
            return {row["digest"] for row in db.execute("SELECT digest FROM requested_views")}

    def heartbeat(self, role: str, now: float) -> None:
        """Note that a process of this role is alive."""
        sql = "INSERT INTO heartbeats (role, at) VALUES (?, ?) ON CONFLICT (role) DO UPDATE SET at = excluded.at"
        with self._database.writing() as db:
            db.execute(sql, [role, now])

    def last_heartbeat(self, role: str) -> float | None:
        """When a process of this role was last heard from."""
        with self._database.reading() as db:
            found = db.execute("SELECT at FROM heartbeats WHERE role = ?", [role]).fetchone()
            return None if found is None else float(found["at"])

    def counts(self) -> dict[str, int]:
        """How many pictures are "ready", "queued", "failed", "deleted"."""
        counted = {"ready": 0, "queued": 0, "failed": 0, "deleted": 0}
        with self._database.reading() as db:
            return counted | dict(db.execute("SELECT state, count(*) FROM images GROUP BY state").fetchall())
