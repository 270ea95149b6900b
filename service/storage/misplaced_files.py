"""Files of a data directory in the place of folders, and folders in the place of files."""

from service.errors import Misconfigured
from service.storage.data_dir import DataDir

REBUILT = ("incoming", "thumbnails", "stripped", "views", "found", "writer.lock")  # recreated without loss


def refuse_misplaced_files(data: DataDir) -> None:
    """Raise Misconfigured, with advice, where a path is of the wrong kind."""
    folders = (data.incoming, data.originals, data.thumbnails, data.stripped, data.regions, data.views, data.found)
    misplaced = [(path, "a file", "a folder") for path in folders if path.exists() and not path.is_dir()]
    misplaced += [(path, "a folder", "a file") for path in (data.catalog, data.writer_lock, data.keys) if path.is_dir()]
    for path, kind, expected_kind in misplaced:
        advice = "the next start makes it anew" if path.name in REBUILT else "put the right one back from a backup"
        raise Misconfigured(f"{path} is {kind}, and {expected_kind} belongs there: move it away; {advice}")
