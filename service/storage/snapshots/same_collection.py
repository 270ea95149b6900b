"""The collection of a data directory, as checked by processes of a running service, which must not create one."""

from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.database.faults import MissingCatalog
from service.storage.data_dir import DataDir


def collection_of(data_dir: Path) -> str:
    """The id of the collection in a data directory, which is created if there is none."""
    with closing(Catalog(DataDir(data_dir).catalog)) as catalog:
        return catalog.collection().id


def require_collection(data_dir: Path, collection: str) -> None:
    """Raise MissingCatalog where the data directory is absent, or holds another collection."""
    path = DataDir(data_dir).catalog
    if not path.is_file() or collection_of(data_dir) != collection:
        raise MissingCatalog(path)
