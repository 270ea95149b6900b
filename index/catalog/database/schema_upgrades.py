"""Upgrades of catalogs from earlier schema versions, one step for each version, each in its own transaction."""

from sqlite3 import Connection

from index.catalog.text_index import FILL, TEXTS

# A picture's state, from its row. A deletion can be undone until the picture is erased; once its files are gone too,
# its extension is empty and the row holds nothing but the slot.
STATE = """state TEXT NOT NULL GENERATED ALWAYS AS (
    CASE WHEN erased_at IS NOT NULL THEN CASE extension WHEN '' THEN 'erased' ELSE 'erasing' END
         WHEN deleted_at IS NOT NULL THEN 'deleted' WHEN slot IS NOT NULL THEN 'ready'
         WHEN failed_at IS NOT NULL THEN 'failed' ELSE 'queued' END) VIRTUAL"""

ARRIVALS = """CREATE TABLE arrivals (             -- files about to be stored, see arrivals.py
  image_id TEXT PRIMARY KEY,
  extension TEXT NOT NULL
) WITHOUT ROWID;"""

DECIDED = """CREATE TABLE IF NOT EXISTS decided_fields (  -- of pictures without regions yet
  image INTEGER NOT NULL REFERENCES images (number),
  field TEXT NOT NULL,                       -- in which the picture's file has no say, see decided_fields.py
  PRIMARY KEY (image, field)
) WITHOUT ROWID;"""

# The sort keys of lists over several catalogs.
LISTED = """CREATE INDEX images_added ON images (added_at);
CREATE INDEX images_dated ON images (taken_at, added_at);"""

# Rare rows: erased captions, pictures whose deletion can be undone, old jobs.
RARE = """CREATE INDEX captions_erased ON captions (slot) WHERE text IS NULL;
CREATE INDEX images_deleted ON images (number) WHERE deleted_at IS NOT NULL AND erased_at IS NULL;
CREATE INDEX jobs_created ON jobs (created_at);"""

# Version 2: pictures are erased some time after their deletion, captions can be taken away.
TO_VERSION_2 = f"""
DROP INDEX images_state;
ALTER TABLE images DROP COLUMN state;
ALTER TABLE images ADD COLUMN erased_at REAL;
ALTER TABLE images ADD COLUMN {STATE};
CREATE INDEX images_state ON images (state, number);
CREATE TABLE captions_2 (
  caption_id INTEGER PRIMARY KEY AUTOINCREMENT,
  image INTEGER NOT NULL REFERENCES images (number),
  text TEXT,
  slot INTEGER UNIQUE,
  UNIQUE (image, text)
);
INSERT INTO captions_2 (caption_id, image, text, slot) SELECT caption_id, image, text, slot FROM captions;
DROP TABLE captions;
ALTER TABLE captions_2 RENAME TO captions;
INSERT OR IGNORE INTO collection VALUES (1, lower(hex(randomblob(8))), randomblob(32));
"""

# Version 3: detections are counted before they begin, and uploads before they are stored.
TO_VERSION_3 = f"""
ALTER TABLE images ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;
{ARRIVALS}
"""

# Version 4: the words of pictures can be searched.
TO_VERSION_4 = f"{TEXTS}; {FILL};"

# Version 5: similar pictures are recognized by a perceptual hash.
TO_VERSION_5 = "ALTER TABLE images ADD COLUMN looks BLOB;"

REINDEXED = f"DROP TABLE texts; {TEXTS}; {FILL};"

# Version 6: texts of scripts without spaces are searched by their letters.
TO_VERSION_6 = f"{LISTED} {REINDEXED}"

# Version 7: rare rows are found without a scan of the table.
TO_VERSION_7 = RARE

# Version 8: an edit of a queued picture outlasts the metadata of its file.
TO_VERSION_8 = DECIDED

# Version 9: tags are compared in Unicode normal form C.
# Where a picture has both forms of a name, the composed one stays.
TO_VERSION_9 = """
CREATE TEMP TABLE doubled AS SELECT image, name FROM tags WHERE name != composed(name)
  AND EXISTS (SELECT 1 FROM tags AS other WHERE other.image = tags.image AND other.name = composed(tags.name));
DELETE FROM tags WHERE (image, name) IN (SELECT image, name FROM doubled);
UPDATE OR REPLACE tags SET name = composed(name) WHERE name != composed(name);
UPDATE tags SET value = composed(value) WHERE typeof(value) = 'text' AND value != composed(value);
DROP TABLE doubled;
"""

# Version 10: more ways to write a date are found; digests in file names and the names of tags no longer are.
TO_VERSION_10 = REINDEXED

# Version 11: names of folders and albums have a column apart from the picture's own description.
TO_VERSION_11 = REINDEXED

# Version -> script that upgrades the previous one to it.
STEPS = {
    2: TO_VERSION_2,
    3: TO_VERSION_3,
    4: TO_VERSION_4,
    5: TO_VERSION_5,
    6: TO_VERSION_6,
    7: TO_VERSION_7,
    8: TO_VERSION_8,
    9: TO_VERSION_9,
    10: TO_VERSION_10,
    11: TO_VERSION_11,
}


def upgrade(connection: Connection, old_version: int, new_version: int) -> None:
    """Upgrade the catalog step by step. A kill in between leaves it at a version that can be upgraded again."""
    for version in range(old_version + 1, new_version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {STEPS[version]} PRAGMA user_version = {version}; COMMIT;")
