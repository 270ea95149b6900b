"""Data directories as replicas of shards, without machines or models: killed, restarted, and called in threads."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from index.catalog.catalog import Catalog
from index.catalog.ingestion.jobs import JobKey
from index.records import JobStatus, NewPicture
from service.api.stored_pictures import LocalPictures
from service.cluster.directing.shard_writer import ShardWriter
from service.cluster.operations import TakeIn
from service.cluster.shards.journal import Journal, Position
from service.cluster.shards.lists import ShardLists
from service.cluster.shards.replica import ShardReplica
from service.storage.data_dir import DataDir
from service.storage.originals import Originals, image_id_of
from service.storage.regions.found_regions import FoundRegions
from tests.support.catalogs import make_ready

NOW = 1_700_000_000.0
FILES_SAY: dict[str, Any] = {"captions": ["of the file"], "tags": {"keywords": "of the file"}, "taken_at": 1e9}


class CatalogJobs:
    """Jobs that are done as soon as no picture of theirs is queued."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def job(self, job_id: str) -> JobStatus | None:
        """The job."""
        return self._catalog.jobs.find(job_id)

    def jobs(self, after: JobKey | None, limit: int) -> list[JobStatus]:
        """Jobs after a place in their list."""
        return self._catalog.jobs.page(after, limit)


class Directory:
    """A replica on its own data directory; while it is `down`, every call of it fails."""

    def __init__(self, folder: Path, siblings: "list[Directory]") -> None:
        self.name, self.folder, self.siblings = folder.name, folder, siblings
        self.down, self.joined, self.settles = False, False, False
        self.answer_lost: Callable[[str], bool] = lambda method: False
        self._threads = ThreadPoolExecutor(1)
        self.open()

    def open(self) -> None:
        """Start, also after a kill."""
        folders = DataDir(self.folder)
        self.catalog = Catalog(folders.catalog)
        self.originals = Originals(self.folder)
        self.journal = Journal(self.folder / "journal.sqlite")
        self.found = FoundRegions(self.folder)
        self.replica = ShardReplica(self.catalog, self.originals, self.journal, self.found, lambda: None)
        self.joined = False
        self.pictures = LocalPictures(self.catalog, [])  # type: ignore[arg-type]  # no model, no view
        self.lists = ShardLists(self.catalog, self.originals, self.pictures, CatalogJobs(self.catalog))

    def close(self) -> None:
        self.catalog.close()
        self.journal.close()

    def begin(self, method: str, *arguments: Any) -> "Future[Any]":
        return self._threads.submit(self._run, method, arguments)

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call for a router."""
        return self._threads.submit(self._ask, method, arguments)

    def _ask(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if self.down or not self.joined:
            raise ConnectionError(f"{self.name} does not answer")
        return getattr(self.lists, method)(*arguments)

    def detect(self, only: str | None = None) -> None:
        """Give every queued picture, or that of one id, its regions, and what its file says, as a worker would."""
        queued = [one.image_id for one in self.catalog.queue.waiting(1000) if only in (None, one.image_id)]
        make_ready(self.catalog, *queued, **FILES_SAY)

    def _run(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if self.down:
            raise ConnectionError(f"{self.name} is down")
        if method == "follow":
            sibling = self.siblings[arguments[0]]
            if sibling.down:
                raise ConnectionError(f"{sibling.name} is down")
            result: Any = self.replica.catch_up(sibling.replica)
        elif method == "join":
            self.joined, self.settles = True, arguments[1]
            result = None
        elif method == "has_joined":
            result = self.joined
        else:
            result = getattr(self.replica, method)(*arguments)
        if self.answer_lost(method):
            raise TimeoutError("the answer was lost")
        return result

    def state(self) -> tuple[Position, list[tuple[str, str, tuple[str, ...], dict[str, Any]]], set[str]]:
        """All that replicas share."""
        images = self.catalog.list_images(None, 1000)
        files = {path.stem for path in (self.folder / "originals").rglob("*.png")}
        described = [(one.image_id, one.filename, one.captions, dict(one.tags)) for one in images]
        return self.replica.position(), sorted(described), files


def take_in(*names: str, job_id: str = "job") -> tuple[TakeIn, dict[str, bytes]]:
    files = {}
    for name in names:
        digest = sha256(name.encode()).hexdigest()
        files[image_id_of(digest)] = name.encode()
    pictures = [
        NewPicture(
            image_id=image_id, filename=f"{content.decode()}.png", extension="png", num_bytes=len(content), captions=[]
        )
        for image_id, content in files.items()
    ]
    return TakeIn(job_id=job_id, pictures=pictures, now=NOW, kept_since=0.0), files


def writer_of(replicas: list[Directory], quorum: int = 1) -> ShardWriter:
    """The writer of a shard with these replicas."""
    return ShardWriter(0, replicas, quorum, timeout_s=30.0)
