"""From the catalog's rows to its values, each inside a transaction of the caller's."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from sqlite3 import Connection, Row

import numpy as np

from index.records import Caption, Failure, Image, JobState, JobStatus, Mask, TagUse, TagValue

AMONG = "IN (SELECT value FROM json_each(?))"  # any number of values in one parameter


def among(values: Iterable[str | int]) -> str:
    """The parameter of AMONG."""
    return json.dumps(list(values))


def to_images(db: Connection, rows: Sequence[Row]) -> list[Image]:
    """Whole rows of `images`, with their captions and tags."""
    numbers = among(row["number"] for row in rows)
    captions: dict[int, list[str]] = defaultdict(list)
    for number, text in db.execute(
        f"SELECT image, text FROM captions WHERE image {AMONG} ORDER BY caption_id", [numbers]
    ):
        captions[number].append(text)
    tags: dict[int, dict[str, TagValue]] = defaultdict(dict)
    for number, name, value in db.execute(f"SELECT image, name, value FROM tags WHERE image {AMONG}", [numbers]):
        tags[number][name] = value
    return [to_image(row, captions[row["number"]], tags[row["number"]]) for row in rows]


def to_image(row: Row, captions: Sequence[str], tags: dict[str, TagValue]) -> Image:
    """One row of `images`."""
    return Image(
        image_id=row["image_id"],
        filename=row["filename"],
        extension=row["extension"],
        num_bytes=row["num_bytes"],
        state=row["state"],
        slot=row["slot"],
        width=row["width"],
        height=row["height"],
        extractor=row["extractor"],
        taken_at=row["taken_at"],
        added_at=row["added_at"],
        deleted_at=row["deleted_at"],
        captions=tuple(captions),
        tags=tags,
    )


def select_captions(db: Connection, where: str, values: str) -> list[Caption]:
    """The captions for which `where`, which takes one parameter, holds; in order of arrival."""
    rows = db.execute(
        "SELECT caption_id, captions.slot, image_id, text, deleted_at IS NOT NULL AS deleted"
        f" FROM captions JOIN images ON number = image WHERE {where} ORDER BY caption_id",
        [values],
    )
    return [
        Caption(
            caption_id=row["caption_id"],
            slot=row["slot"],
            image_id=row["image_id"],
            text=row["text"],
            deleted=bool(row["deleted"]),
        )
        for row in rows
    ]


def to_failures(rows: Iterable[Row]) -> list[Failure]:
    """Rows of `images` that were set aside."""
    return [
        Failure(
            image_id=row["image_id"],
            filename=row["filename"],
            reason=row["reason"],
            attempts=row["attempts"],
        )
        for row in rows
    ]


def job_status(job_id: str, rows: Sequence[Row]) -> JobStatus:
    """From the rows of all its pictures."""
    counted = Counter(row["state"] for row in rows)
    done = counted["ready"] + counted["deleted"]
    begun = done or counted["failed"] or any(row["attempts"] for row in rows)
    state: JobState = "running" if begun else "queued"
    if not counted["queued"]:
        state = "done"
    failures = to_failures(row for row in rows if row["state"] == "failed")
    return JobStatus(
        job_id=job_id,
        state=state,
        total=len(rows),
        done=done,
        failed=counted["failed"],
        failures=tuple(failures),
    )


def mask_of(slots: Iterable[Row], length: int) -> Mask:
    """[length] True at the slots, which are the rows' first column."""
    mask = np.zeros(length, np.bool_)
    mask[np.fromiter((row[0] for row in slots), np.int64)] = True
    return mask


def tag_uses(db: Connection, most_values: int) -> list[TagUse]:
    """Tags of ready pictures by name; of each the most frequent values first."""
    rows = db.execute(
        "SELECT name, value, uses, sum(uses) OVER names AS pictures, count(*) OVER names AS distinct_values,"
        " row_number() OVER (PARTITION BY name ORDER BY uses DESC, value) AS place"
        " FROM (SELECT name, value, count(*) AS uses FROM tags JOIN images ON number = image"
        "       WHERE state = 'ready' GROUP BY name, value)"
        " WINDOW names AS (PARTITION BY name) ORDER BY name, place"
    )
    uses: dict[str, TagUse] = {}
    for row in rows:
        if row["place"] > most_values:
            continue
        before = uses[row["name"]].values if row["name"] in uses else ()
        uses[row["name"]] = TagUse(
            name=row["name"],
            num_pictures=row["pictures"],
            num_values=row["distinct_values"],
            values=(*before, (row["value"], row["uses"])),
        )
    return list(uses.values())
