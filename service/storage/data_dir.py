"""The data directory, which contains everything that Regard stores."""

from dataclasses import dataclass
from pathlib import Path

from index.lock import LOCK_NAME


@dataclass(frozen=True)
class DataDir:
    """Paths below a data directory. Nothing is created or opened here."""

    root: Path

    @property
    def catalog(self) -> Path:
        """The SQLite file that is the system of record."""
        return self.root / "catalog.sqlite"

    @property
    def unchecked_catalog(self) -> Path:
        """The catalog of a snapshot while it is being restored and checked."""
        return self.root / "catalog.unchecked"

    @property
    def cluster_plan(self) -> Path:
        """The plan of a cluster, present only in the data directory of its head: the pictures lie in its shards."""
        return self.root / "cluster.json"

    @property
    def shards(self) -> Path:
        """The replicas of a cluster's node, each in a data directory of its own."""
        return self.root / "shards"

    @property
    def is_cluster_node(self) -> bool:
        """Whether it is the data directory of a node with replicas, without a collection of its own."""
        return self.shards.is_dir() and not self.catalog.exists()

    @property
    def keys(self) -> Path:
        """The digests of the API keys, readable only by the folder's owner."""
        return self.root / "keys.json"

    @property
    def writer_lock(self) -> Path:
        """The file that the worker locks."""
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
        """Pictures as displayed: the originals without metadata, by image id."""
        return self.root / "stripped"

    @property
    def incoming(self) -> Path:
        """Uploads in progress."""
        return self.root / "incoming"

    @property
    def regions(self) -> Path:
        """The slab of region records, and below it those of later detectors (named by `regions/entries.py`)."""
        return self.root / "regions"

    @property
    def found(self) -> Path:
        """Regions found by other machines, by image id, until the worker takes them."""
        return self.root / "found"

    @property
    def extractor(self) -> Path:
        """The description of the extractor of features that came without pictures."""
        return self.root / "extractor"

    @property
    def views(self) -> Path:
        """The views of all models."""
        return self.root / "views"

    def view(self, digest: str) -> Path:
        """The view of the model with this digest."""
        return self.views / digest
