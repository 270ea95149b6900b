"""The collection of a data directory, which processes of a running service find there, and do not make."""

from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.database.faults import MissingCatalog
from service.storage.data_dir import DataDir


def collection_of(data_dir: Path) -> str:
    """The id of the collection in a data directory, made where there is none."""
    with closing(Catalog(DataDir(data_dir).catalog)) as catalog:
        return catalog.collection().id


def require_collection(data_dir: Path, collection: str) -> None:
    """MissingCatalog where the data directory is away, or holds another collection."""
    path = DataDir(data_dir).catalog
    if not path.is_file() or collection_of(data_dir) != collection:
        raise MissingCatalog(path)
