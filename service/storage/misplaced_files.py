"""Files of a data directory that lie where a folder belongs, and folders that lie where a file belongs."""

from service.errors import Misconfigured
from service.storage.data_dir import DataDir

REBUILT = ("incoming", "thumbnails", "stripped", "views", "found", "writer.lock")  # what nothing is lost with


def refuse_misplaced_files(data: DataDir) -> None:
    """Misconfigured where there is such a one, in words that say what to do."""
    folders = (data.incoming, data.originals, data.thumbnails, data.stripped, data.regions, data.views, data.found)
    wrong = [(path, "a file", "a folder") for path in folders if path.exists() and not path.is_dir()]
    wrong += [(path, "a folder", "a file") for path in (data.catalog, data.writer_lock, data.keys) if path.is_dir()]
    for path, found, wanted in wrong:
        again = "the next start makes it anew" if path.name in REBUILT else "put the right one back from a backup"
        raise Misconfigured(f"{path} is {found}, and {wanted} belongs there: move it away; {again}")
