"""The captions in a catalog by picture."""

from collections.abc import Sequence

from index.catalog.catalog import Catalog
from index.catalog.queries import AMONG, among, select_captions
from index.records import Caption


def captions_of(catalog: Catalog, image_ids: Sequence[str]) -> dict[str, list[Caption]]:
    """The captions of each picture (deleted or not), in order of arrival; ids never seen are left out."""
    with catalog._database.reading() as db:
        sql = f"SELECT image_id FROM images WHERE image_id {AMONG}"
        found: dict[str, list[Caption]] = {row["image_id"]: [] for row in db.execute(sql, [among(image_ids)])}
        for caption in select_captions(db, f"image_id {AMONG}", among(image_ids)):
            found[caption.image_id].append(caption)
        return found
