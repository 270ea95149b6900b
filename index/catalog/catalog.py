"""The system of record: whatever is committed here exists, and nothing else does."""

import uuid
from collections.abc import Sequence
from pathlib import Path

from index.catalog.changes.arrivals import Arrivals, withdraw
from index.catalog.changes.deletion import Erasures, delete_anew, mark_deleted, restore
from index.catalog.changes.editing import apply_change
from index.catalog.changes.writes import (
    assign_slots,
    next_caption_slot,
    next_slot,
    upsert_picture,
    upsert_pictures,
)
from index.catalog.database.connection import Database
from index.catalog.filters import EVERY, Filter
from index.catalog.identities import Identities
from index.catalog.ingestion.detection_starts import DetectionStarts
from index.catalog.ingestion.failures import Failures
from index.catalog.ingestion.jobs import Jobs
from index.catalog.ingestion.processes import Processes
from index.catalog.ingestion.queue import Queue
from index.catalog.ingestion.region_stores import RegionStoreTable
from index.catalog.list_orders import IN_ONE, count_by_state, list_parts, page_rows, place_in_one
from index.catalog.picture_hashes import PictureHashes
from index.catalog.queries import (
    AMONG,
    IS_GONE,
    among,
    find_image,
    known_among,
    mask_of,
    months_taken,
    restorable_among,
    select_captions,
    tag_uses,
    to_images,
)
from index.catalog.text.search import TextSearch
from index.catalog.text.statistics import SharedTexts
from index.records import (
    FEATURES_ONLY,
    AcceptedJob,
    Caption,
    Collection,
    DetectedPicture,
    Image,
    ImageOrder,
    ListPlace,
    Mask,
    NewPicture,
    PictureChange,
    TagUse,
)

EVER = float("-inf")
GONE_CAPTIONS = (
    f"SELECT captions.slot FROM captions JOIN images ON number = image WHERE {IS_GONE} AND captions.slot IS NOT NULL"
    " UNION ALL SELECT slot FROM captions WHERE text IS NULL AND slot IS NOT NULL"
)
FURTHEST_JUMP = 2**40  # of a version: a 64-bit number has room for millions of them


class Catalog:
    """Images, captions, tags, jobs and tombstones in SQLite. Safe to share between threads and processes.

    Every method is one transaction, durable when it returns. Times are unix seconds, passed in. The attributes group
    the rest: `erasures` makes deletions final, `starts` counts detections that may have crashed a worker, `arrivals`
    announces files before they are stored, `jobs` reports progress, `queue` holds pictures that wait for regions,
    `failures` lists unreadable ones, `region_stores` the stores of regions. `texts` searches words, `shared_texts` does
    so across catalogs, `hashes` holds perceptual hashes, `identities` maps slots to names, and `processes` holds notes
    between the processes that share the catalog.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file; read-only where it may not be written.

        Raises UnknownSchema, DamagedCatalog and ReadOnlyCatalog as `Database` does.
        """
        self._database = Database(path)
        self.folder = path.parent
        """The folder that the file lies in."""
        self.erasures = Erasures(self._database)
        self.starts = DetectionStarts(self._database)
        self.arrivals = Arrivals(self._database)
        self.jobs = Jobs(self._database)
        self.queue = Queue(self._database)
        self.failures = Failures(self._database)
        self.texts = TextSearch(self._database)
        self.hashes = PictureHashes(self._database)
        self.identities = Identities(self._database)
        self.region_stores = RegionStoreTable(self._database)
        self.shared_texts = SharedTexts(self._database)
        self.processes = Processes(self._database)

    @property
    def read_only(self) -> bool:
        """Whether the file may not be written, so that nothing can be changed."""
        return self._database.read_only

    @property
    def is_damaged(self) -> bool:
        """Whether a read or write met damage in the present file."""
        return self._database.is_damaged

    def check_in_place(self) -> None:
        """Raise MissingCatalog while the file is absent, or replaced by that of another collection."""
        self._database.connection()

    def close(self) -> None:
        """Close the connections of all threads."""
        self._database.close()

    # -- the identity of the collection

    def collection(self) -> Collection:
        """The collection's id and secret, made with the catalog or by the latest `renew_collection`."""
        with self._database.reading() as db:
            row = db.execute("SELECT id, secret FROM collection").fetchone()
            return Collection(row["id"], row["secret"])

    def renew_collection(self) -> None:
        """Give this copy a new identity, so that whatever was cached for the original is not used for it."""
        with self._database.changing() as db:
            db.execute("UPDATE collection SET id = lower(hex(randomblob(8))), secret = randomblob(32)")

    def delete_anew(self, now: float) -> None:
        """Restart the grace period of all deletions that can still be undone."""
        with self._database.changing() as db:
            delete_anew(db, now)

    def skip_versions(self) -> None:
        """Advance the version by a random amount. A hand-made copy has the same id and secret, and would otherwise
        reach the same version numbers, and so be given answers cached for this catalog."""
        with self._database.changing() as db:
            db.execute("UPDATE counters SET value = value + abs(random() % ?) WHERE name = 'version'", [FURTHEST_JUMP])

    # -- taking pictures in

    def take_in(
        self,
        pictures: Sequence[NewPicture],
        now: float,
        kept_since: float = EVER,
        job_id: str = "",
        bounded: bool = True,
    ) -> AcceptedJob:
        """Create a job for the pictures, or add them to the job of that id. Returns which were known and which were
        restored.

        A known picture gains the captions and tags that it lacks; a tag of the same name is replaced. A picture deleted
        at or after `kept_since` is restored, in its slot if it has one; a failed picture is queued again.

        Raises ValueError for a tag that is neither a string nor a finite number and, if `bounded`, OversizedDescription
        (`description_bounds.py`) where a picture would have too many captions or tags.
        """
        job_id = job_id or uuid.uuid4().hex
        image_ids = [picture.image_id for picture in pictures]
        with self._database.changing() as db:
            known = known_among(db, image_ids)
            restored = restorable_among(db, image_ids, kept_since)
            db.execute("INSERT OR IGNORE INTO jobs (job_id, created_at) VALUES (?, ?)", [job_id, now])
            numbers = upsert_pictures(db, pictures, now, kept_since, bounded)
            withdraw(db, image_ids)
            db.executemany("INSERT OR IGNORE INTO job_images VALUES (?, ?)", [(job_id, n) for n in numbers])
        return AcceptedJob(job_id, known, restored)

    def known_ids(self, image_ids: Sequence[str]) -> set[str]:
        """The subset of the ids whose pictures are queued or ready."""
        with self._database.reading() as db:
            return known_among(db, image_ids)

    def commit(self, detected: Sequence[DetectedPicture]) -> None:
        """Assign region slots to the pictures, and the next caption slots to their captions.

        Raises ValueError unless the slots continue num_slots() without a gap.
        """
        with self._database.changing() as db:
            assign_slots(db, detected)

    def take_in_ready(
        self, pictures: Sequence[NewPicture], detected: Sequence[DetectedPicture], now: float, kept_since: float
    ) -> None:
        """`take_in` without a job or a bound, and `commit`, in one transaction: pictures that come with their regions
        are never seen in the queue."""
        with self._database.changing() as db:
            for picture in pictures:
                upsert_picture(db, picture, now, kept_since)
            assign_slots(db, detected)

    # -- what is committed

    def num_slots(self) -> int:
        """The number of committed region slots, deleted pictures included: the true length of the region slab."""
        with self._database.reading() as db:
            return next_slot(db)

    def num_caption_slots(self) -> int:
        """The number of committed caption slots: the length that every view's caption slab should reach."""
        with self._database.reading() as db:
            return next_caption_slot(db)

    def version(self) -> int:
        """A number that changes whenever anything searchable or visible changes; cheap enough to poll."""
        return self._database.read_number("SELECT value FROM counters WHERE name = 'version'")

    def image(self, image_id: str) -> Image | None:
        """The picture in any state (check `.state`: it may be deleted); None when never seen, or erased."""
        with self._database.reading() as db:
            return find_image(db, image_id)

    def decided_fields(self, image_id: str) -> list[str]:
        """The fields of a picture without regions that its file may no longer set (`decided_fields.py`); empty for
        others."""
        sql = "SELECT field FROM decided_fields JOIN images ON number = image WHERE image_id = ? ORDER BY field"
        with self._database.reading() as db:
            return [row["field"] for row in db.execute(sql, [image_id])]

    def images_at(self, slots: Sequence[int]) -> list[Image | None]:
        """The pictures at region slots, in the order asked; None where deleted or not committed."""
        slot_numbers = [int(slot) for slot in slots]
        with self._database.reading() as db:
            sql = f"SELECT * FROM images WHERE slot {AMONG} AND deleted_at IS NULL"
            by_slot = {image.slot: image for image in to_images(db, db.execute(sql, [among(slot_numbers)]).fetchall())}
        return [by_slot.get(slot) for slot in slot_numbers]

    def images_in_any_state_at(self, slots: Sequence[int]) -> list[Image]:
        """The pictures at committed region slots, in any state, in the order asked. KeyError past the end."""
        with self._database.reading() as db:
            images = to_images(db, db.execute(f"SELECT * FROM images WHERE slot {AMONG}", [among(slots)]).fetchall())
        by_slot = {image.slot: image for image in images}
        return [by_slot[slot] for slot in slots]

    def list_images(
        self, after: ListPlace | None, limit: int, condition: Filter = EVERY, order: ImageOrder = "arrival"
    ) -> list[Image]:
        """Pictures that pass the filter and come after the given place. Raises UnknownPlace where its picture is
        unknown."""
        with self._database.reading() as db:
            place = None if after is None else place_in_one(db, after, order)
            return to_images(db, page_rows(db, list_parts(order, IN_ONE), place, limit, condition))

    def count_listed(self, condition: Filter = EVERY) -> dict[str, int]:
        """The number of pictures on all pages of a list, for each state."""
        with self._database.reading() as db:
            return count_by_state(db, condition)

    def captions_at(self, slots: Sequence[int]) -> list[Caption]:
        """The captions at caption slots, in the order asked, including those of deleted pictures. KeyError past the
        end."""
        with self._database.reading() as db:
            captions = select_captions(db, f"captions.slot {AMONG}", among(int(slot) for slot in slots))
        by_slot = {caption.slot: caption for caption in captions}
        return [by_slot[slot] for slot in slots]

    # -- what may be shown

    def visible(self) -> Mask:
        """[num_slots] True where the picture is not deleted."""
        with self._database.reading() as db:
            deleted = db.execute(f"SELECT slot FROM images WHERE {IS_GONE} AND slot IS NOT NULL")
            return ~mask_of(deleted, next_slot(db))

    def visible_captions(self) -> Mask:
        """[num_caption_slots] True where neither the caption nor its picture is deleted."""
        with self._database.reading() as db:
            return ~mask_of(db.execute(GONE_CAPTIONS), next_caption_slot(db))

    def num_visible(self, slots: int, caption_slots: int) -> tuple[int, int]:
        """The numbers of pictures among the first `slots`, and of captions among the first `caption_slots`, that are
        not deleted."""
        with self._database.reading() as db:
            pictures = db.execute(f"SELECT count(*) FROM images WHERE {IS_GONE} AND slot < ?", [slots]).fetchone()
            sql = f"SELECT count(DISTINCT slot) FROM ({GONE_CAPTIONS}) WHERE slot < ?"
            return slots - pictures[0], caption_slots - db.execute(sql, [caption_slots]).fetchone()[0]

    def matching(self, condition: Filter) -> Mask:
        """[num_slots] True where the picture is visible and passes the filter."""
        where, values = condition.sql()
        with self._database.reading() as db:
            passing = db.execute(f"SELECT slot FROM images WHERE state = 'ready' AND {where}", values)
            return mask_of(passing, next_slot(db))

    def any_matching(self, condition: Filter) -> bool:
        """Whether a visible picture passes the filter."""
        where, values = condition.sql()
        sql = f"SELECT 1 FROM images WHERE +state = 'ready' AND {where} LIMIT 1"  # +: dates have the better index
        with self._database.reading() as db:
            return db.execute(sql, values).fetchone() is not None

    def matching_captions(self, condition: Filter) -> Mask:
        """[num_caption_slots] True where the caption's picture is visible and passes the filter."""
        where, values = condition.sql()
        sql = (
            "SELECT captions.slot FROM captions JOIN images ON images.number = captions.image"
            f" WHERE captions.slot IS NOT NULL AND text IS NOT NULL AND state = 'ready' AND {where}"
        )
        with self._database.reading() as db:
            return mask_of(db.execute(sql, values), next_caption_slot(db))

    def months(self) -> dict[str, int]:
        """Month ("2024-05") -> number of visible pictures taken in it, in UTC; "" counts those without a date."""
        with self._database.reading() as db:
            return months_taken(db)

    def tags(self, most_names: int, most_values: int, containing: str = "", after: str = "") -> list[TagUse]:
        """At most `most_names` tags of visible pictures, sorted by name, after the name `after`, each with at most
        `most_values` values.

        With `containing`, only values that contain this text, or whose tag's name does.
        """
        with self._database.reading() as db:
            return tag_uses(db, most_names, most_values, containing, after)

    # -- changes of existing pictures, see editing.py and deletion.py

    def change(self, image_id: str, change: PictureChange, bounded: bool = True) -> Image | None:
        """Change the picture's description, and return the picture; None where it is unknown or deleted. Raises
        ValueError and OversizedDescription as `take_in` does."""
        with self._database.changing() as db:
            return find_image(db, image_id) if apply_change(db, image_id, change, bounded) else None

    def delete(self, image_id: str, now: float) -> bool:
        """Mark the picture as deleted; False where it is unknown, or deleted already."""
        with self._database.changing() as db:
            return mark_deleted(db, image_id, now)

    def restore(self, image_id: str, kept_since: float) -> Image | None:
        """Undo the picture's deletion unless it is older than `kept_since`, and return the picture; None where it is
        unknown."""
        with self._database.changing() as db:
            return restore(db, image_id, kept_since)

    # -- where regions come from

    def latest_extractor(self) -> str | None:
        """Digest of the extractor of the last slot that names one; None where nothing is stored."""
        sql = "SELECT extractor FROM images WHERE slot IS NOT NULL AND extractor IS NOT NULL ORDER BY slot DESC LIMIT 1"
        with self._database.reading() as db:
            row = db.execute(sql).fetchone()
            return None if row is None else str(row["extractor"])

    def holds_features_alone(self) -> bool:
        """Whether every picture that is not deleted came as features alone, and there is at least one."""
        pictures = "SELECT 1 FROM images WHERE deleted_at IS NULL AND extension"
        sql = f"SELECT NOT EXISTS ({pictures} != '{FEATURES_ONLY}') AND EXISTS ({pictures} = '{FEATURES_ONLY}')"
        return bool(self._database.read_number(sql))

    def counts(self) -> dict[str, int]:
        """The numbers of pictures in the states "ready", "queued", "failed" and "deleted"."""
        with self._database.reading() as db:
            by_state = dict(db.execute("SELECT state, count(*) FROM images GROUP BY state").fetchall())
        return {state: by_state.get(state, 0) for state in ("ready", "queued", "failed", "deleted")}
