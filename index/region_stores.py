"""The catalog's region stores, one an extractor, and their blank records, inside transactions of the caller's."""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection

from index.queries import AMONG, among
from index.records import FEATURES_ONLY, RegionStoreEntry
from index.writes import next_slot

COLUMNS = "extractor, folder, state, records, timed_from, timed_records, timed_to"


def store_entries(db: Connection) -> list[RegionStoreEntry]:
    """Every entry, the current store first."""
    rows = db.execute(f"SELECT {COLUMNS} FROM region_stores ORDER BY state != 'current', extractor")
    return [RegionStoreEntry(**row) for row in rows]


def replace_entries(db: Connection, entries: Sequence[RegionStoreEntry]) -> None:
    """Put these entries in the place of all others."""
    db.execute("DELETE FROM region_stores")
    marks = ", ".join("?" * len(COLUMNS.split(", ")))
    db.executemany(
        f"INSERT INTO region_stores ({COLUMNS}) VALUES ({marks})",
        [[getattr(entry, name) for name in COLUMNS.split(", ")] for entry in entries],
    )


def count_records(db: Connection, extractor: str) -> int:
    """Leading slots that have a record of the extractor: all where no store is listed, none where others alone are."""
    found = db.execute("SELECT records FROM region_stores WHERE extractor = ?", [extractor]).fetchone()
    if found is None:
        return 0 if db.execute("SELECT 1 FROM region_stores").fetchone() else next_slot(db)
    return next_slot(db) if found["records"] is None else int(found["records"])


def add_records(db: Connection, extractor: str, slots: range, blanks: Mapping[int, str | None], now: float) -> None:
    """Count records that lie, fsynced, at these slots. ValueError unless they continue the store."""
    changed = db.execute(
        "UPDATE region_stores SET records = ?, timed_to = ? WHERE extractor = ? AND records = ?",
        [slots.stop, now, extractor, slots.start],
    )
    if not changed.rowcount:
        raise ValueError(f"the store of {extractor} does not end at slot {slots.start}")
    note_regions(db, extractor, slots, blanks, now)


def note_regions(
    db: Connection, extractor: str, slots: Sequence[int], blanks: Mapping[int, str | None], now: float
) -> None:
    """Note for each slot whether the extractor's record there is blank, and why."""
    found = among(slot for slot in slots if slot not in blanks)
    db.execute(f"UPDATE images SET extractor = ?, starts = 0 WHERE slot {AMONG}", [extractor, found])
    db.execute(f"DELETE FROM blank_regions WHERE extractor = ? AND slot {AMONG}", [extractor, found])
    db.executemany(
        "INSERT INTO blank_regions (extractor, slot, reason, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (extractor, slot) DO UPDATE SET reason = excluded.reason",
        [(extractor, slot, reason, now) for slot, reason in blanks.items()],
    )


def blank_records(db: Connection, extractor: str, only_unreadable: bool) -> list[int]:
    """Slots whose record of the extractor is blank, for any reason or because the picture could not be read."""
    condition = "reason IS NOT NULL" if only_unreadable else "TRUE"
    rows = db.execute(f"SELECT slot FROM blank_regions WHERE extractor = ? AND {condition} ORDER BY slot", [extractor])
    return [row["slot"] for row in rows]


def complete_store(db: Connection, extractor: str) -> bool:
    """Note that every slot has a record of the extractor, so that new pictures get theirs at once; False otherwise."""
    sql = "UPDATE region_stores SET records = NULL WHERE extractor = ? AND records = ?"
    return bool(db.execute(sql, [extractor, next_slot(db)]).rowcount)


def retire_stores(db: Connection) -> None:
    """Give up the former stores, but for those whose features alone are known of some picture: these are kept."""
    known_alone = (
        f"EXISTS (SELECT 1 FROM images WHERE extension = '{FEATURES_ONLY}' AND slot IS NOT NULL"
        " AND erased_at IS NULL AND images.extractor = region_stores.extractor)"
    )
    db.execute(
        f"UPDATE region_stores SET state = CASE WHEN {known_alone} THEN 'kept' ELSE 'removed' END"
        " WHERE state IN ('former', 'kept')"
    )
    db.execute(
        "DELETE FROM blank_regions WHERE extractor IN (SELECT extractor FROM region_stores WHERE state = 'removed')"
    )
    db.execute("UPDATE region_stores SET records = 0 WHERE state = 'removed'")
