"""The catalog's region stores, one for each extractor, and their blank records."""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection

from index.catalog.changes.writes import THERE_AGAIN, next_slot, read_again
from index.catalog.database.connection import Database
from index.catalog.queries import AMONG, among
from index.records import FEATURES_ONLY, RegionStoreEntry

COLUMNS = "extractor, folder, state, records, timed_from, timed_records, timed_to"


class RegionStoreTable:
    """The region stores of a catalog, and the progress of each. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def entries(self) -> list[RegionStoreEntry]:
        """The region stores, the current one first; empty where there has only ever been one extractor."""
        with self._database.reading() as db:
            rows = db.execute(f"SELECT {COLUMNS} FROM region_stores ORDER BY state != 'current', extractor")
            return [RegionStoreEntry(**row) for row in rows]

    def replace(self, entries: Sequence[RegionStoreEntry]) -> None:
        """Replace the list of region stores."""
        columns = COLUMNS.split(", ")
        sql = f"INSERT INTO region_stores ({COLUMNS}) VALUES ({', '.join('?' * len(columns))})"
        with self._database.changing() as db:
            db.execute("DELETE FROM region_stores")
            db.executemany(sql, [[getattr(entry, name) for name in columns] for entry in entries])

    def num_records(self, extractor: str) -> int:
        """The number of leading slots with a record of the extractor, blank ones included: all where no store is
        listed, none where only other extractors' stores are."""
        with self._database.reading() as db:
            row = db.execute("SELECT records FROM region_stores WHERE extractor = ?", [extractor]).fetchone()
            if row is None:
                return 0 if db.execute("SELECT 1 FROM region_stores").fetchone() else next_slot(db)
            return next_slot(db) if row["records"] is None else int(row["records"])

    def add_records(self, extractor: str, slots: range, blanks: Mapping[int, str | None], now: float) -> None:
        """Count new records, fsynced at these slots of the extractor's store.

        `blanks`: slot -> why its record is blank, None where only features are known. ValueError where the slots do not
        continue the store.
        """
        with self._database.changing() as db:
            changed = db.execute(
                "UPDATE region_stores SET records = ?, timed_to = ? WHERE extractor = ? AND records = ?",
                [slots.stop, now, extractor, slots.start],
            )
            if not changed.rowcount:
                raise ValueError(f"the store of {extractor} does not end at slot {slots.start}")
            _note_records(db, extractor, slots, blanks, now)

    def note_records(self, extractor: str, slots: Sequence[int], blanks: Mapping[int, str | None], now: float) -> None:
        """Record that records of the extractor were recomputed, which of them are still blank, and why."""
        with self._database.changing() as db:
            _note_records(db, extractor, slots, blanks, now)

    def blank_slots(self, extractor: str) -> list[int]:
        """Slots whose record of the extractor is blank; searches must not score them."""
        sql = "SELECT slot FROM blank_regions WHERE extractor = ? ORDER BY slot"
        with self._database.reading() as db:
            return [row["slot"] for row in db.execute(sql, [extractor])]

    def read_again(self, slots: Sequence[int]) -> None:
        """Have blank records at these slots recomputed, since their pictures are available again."""
        with self._database.changing() as db:
            read_again(db, slots)

    def unreadable_slots(self, extractor: str, only_there_again: bool = False) -> list[int]:
        """Slots of pictures that could not be read for the extractor; with `only_there_again`, only those whose files
        have come back since."""
        condition = f"at = {THERE_AGAIN}" if only_there_again else "TRUE"
        sql = f"SELECT slot FROM blank_regions WHERE extractor = ? AND reason IS NOT NULL AND {condition} ORDER BY slot"
        with self._database.reading() as db:
            return [row["slot"] for row in db.execute(sql, [extractor])]

    def complete(self, extractor: str) -> bool:
        """Record that every slot has a record of the extractor, so that new pictures get theirs at once; False where
        one is missing."""
        sql = "UPDATE region_stores SET records = NULL WHERE extractor = ? AND records = ?"
        with self._database.changing() as db:
            return bool(db.execute(sql, [extractor, next_slot(db)]).rowcount)

    def retire_former(self) -> None:
        """Remove all stores except the current one and those with the only known features of some picture."""
        has_only_features = (
            f"EXISTS (SELECT 1 FROM images WHERE extension = '{FEATURES_ONLY}' AND slot IS NOT NULL"
            " AND erased_at IS NULL AND images.extractor = region_stores.extractor)"
        )
        removed = "SELECT extractor FROM region_stores WHERE state = 'removed'"
        with self._database.changing() as db:
            db.execute(
                f"UPDATE region_stores SET state = CASE WHEN {has_only_features} THEN 'kept' ELSE 'removed' END"
                " WHERE state IN ('former', 'kept')"
            )
            db.execute(f"DELETE FROM blank_regions WHERE extractor IN ({removed})")
            db.execute("UPDATE region_stores SET records = 0 WHERE state = 'removed'")


def _note_records(
    db: Connection, extractor: str, slots: Sequence[int], blanks: Mapping[int, str | None], now: float
) -> None:
    """Record for each slot whether the extractor's record there is blank, and why."""
    filled = among(slot for slot in slots if slot not in blanks)
    db.execute(f"UPDATE images SET extractor = ?, starts = 0 WHERE slot {AMONG}", [extractor, filled])
    db.execute(f"DELETE FROM blank_regions WHERE extractor = ? AND slot {AMONG}", [extractor, filled])
    db.executemany(
        "INSERT INTO blank_regions (extractor, slot, reason, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (extractor, slot) DO UPDATE SET reason = excluded.reason, at = excluded.at",
        [(extractor, slot, reason, now) for slot, reason in blanks.items()],
    )
