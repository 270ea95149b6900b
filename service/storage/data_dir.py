"""The data directory: where everything that Regard stores lies."""

from dataclasses import dataclass
from pathlib import Path

from index.lock import LOCK_NAME


@dataclass(frozen=True)
class DataDir:
    """Paths below one data directory. Nothing is created or opened here."""

    root: Path

    @property
    def catalog(self) -> Path:
        """The SQLite file that says what exists."""
        return self.root / "catalog.sqlite"

    @property
    def unchecked_catalog(self) -> Path:
        """The catalog of a snapshot that is being restored, until everything of it is there."""
        return self.root / "catalog.unchecked"

    @property
    def cluster_plan(self) -> Path:
        """The plan of a cluster, in the data directory of its head alone: its pictures lie in its shards."""
        return self.root / "cluster.json"

    @property
    def shards(self) -> Path:
        """The replicas that a node of a cluster keeps, each in a data directory of its own."""
        return self.root / "shards"

    @property
    def is_cluster_node(self) -> bool:
        """Whether it is the data directory of a node with replicas, and of no collection of its own."""
        return self.shards.is_dir() and not self.catalog.exists()

    @property
    def keys(self) -> Path:
        """The API keys' digests, for the owner of the folder alone."""
        return self.root / "keys.json"

    @property
    def writer_lock(self) -> Path:
        """The file that the worker has locked."""
        return self.root / LOCK_NAME

    @property
    def originals(self) -> Path:
        """The uploaded bytes, by image id."""
        return self.root / "originals"

    @property
    def thumbnails(self) -> Path:
        """Small JPEGs without metadata, by image id."""
        return self.root / "thumbnails"

    @property
    def stripped(self) -> Path:
        """Pictures as they are shown: the originals without metadata, by image id."""
        return self.root / "stripped"

    @property
    def incoming(self) -> Path:
        """Uploads in progress."""
        return self.root / "incoming"

    @property
    def regions(self) -> Path:
        """The slab of region records, and below it those of later detectors (`regions/entries.py` names them)."""
        return self.root / "regions"

    @property
    def found(self) -> Path:
        """Regions that were found elsewhere, by image id, until the worker takes them."""
        return self.root / "found"

    @property
    def extractor(self) -> Path:
        """The description of what made the regions, where features came without pictures."""
        return self.root / "extractor"

    @property
    def views(self) -> Path:
        """The views of all models."""
        return self.root / "views"

    def view(self, digest: str) -> Path:
        """The view of the model with this digest."""
        return self.views / digest
