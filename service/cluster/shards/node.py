"""A complete replica of a shard: the service of one data directory, called by routers instead of browsers."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from index.catalog.catalog import Catalog
from index.views.slab import Corrupt
from models.extractors.base import Extractor
from service.api.app import create_app
from service.api.services import build_services
from service.cluster.asgi_calls import AppRequest, AppResponse, AppThread
from service.cluster.messages import Behind, check_placement
from service.cluster.shards.journal import JournalEntry, Position
from service.cluster.shards.journal_erasure import erasing
from service.cluster.shards.lists import ShardLists
from service.cluster.shards.replica import Files, Sibling, opened_replica
from service.cluster.shards.replica_copy import DirectoryCopies
from service.cluster.shards.search import ShardSearch
from service.cluster.shards.unfound import Unfound
from service.model_loading import LoadedModels
from service.processes.supervisor import supervised_worker
from service.search.local_gallery import LocalGalleries
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.regions.found_regions import serialised_regions
from service.storage.regions.stores import RegionStores
from service.worker.open_wakeups import open_notifier

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplicaStatus:
    """The state of a replica that `regard cluster status` shows."""

    position: Position
    counts: Mapping[str, int]
    settled: bool
    free_bytes: int


class StoredRegions:
    """Serialized regions of stored pictures, so that other replicas need not find them again."""

    def __init__(self, catalog: Catalog, regions: RegionStores, extractor: Extractor) -> None:
        self._catalog, self._regions, self._extractor = catalog, regions, extractor

    def serialised(self, image_id: str) -> bytes | None:
        """The regions of a picture; None where the detector in service has not found any, or they are damaged."""
        image, store = self._catalog.image(image_id), self._regions.of(self._extractor.digest)
        if image is None or image.slot is None or image.extractor != self._extractor.digest or store is None:
            return None
        try:
            slab = store.open()
            slab.check(image.slot)
            record = {name: rows[0] for name, rows in slab.read([image.slot]).items()}
        except (Corrupt, OSError) as fault:
            log.warning("the regions of picture %s do not travel: %s", image_id, fault)
            return None
        return serialised_regions(self._extractor, record) if record["mask"].any() else None


class ShardNode:
    """The engine of one data directory: web side, worker, journal. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        """Open `settings.data_dir` and start. Raises Misconfigured, Locked and what else ends `regard serve`."""
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            loaded = LoadedModels.from_settings(settings)
            notifier = stack.enter_context(
                closing(open_notifier(settings.redis_url, DataDir(settings.data_dir).catalog))
            )
            self.services = build_services(settings, loaded, notifier.wake)
            services, storage, collection = self.services, self.services.storage, self.services.collection
            app = create_app(services)
            self._app = stack.enter_context(closing(AppThread(app, app.router.lifespan_context(app))))
            stored = StoredRegions(storage.catalog, storage.regions, loaded.extractor)
            self.replica = opened_replica(
                settings.data_dir, storage.catalog, storage.originals, notifier.wake, stored.serialised
            )
            stack.enter_context(erasing(self.replica.erase_descriptions))
            self.copies = DirectoryCopies(settings.data_dir, self.replica)
            galleries = LocalGalleries(storage.catalog, storage.regions, services.models, loaded.extractor)
            self.search = ShardSearch(storage.catalog, galleries, self._accelerate)
            self.lists = ShardLists(
                storage.catalog, storage.originals, collection.pictures, collection.progress, stored.serialised
            )
            self._methods = {"http": self.http, **methods_of(self.search, self.lists)}
            stack.enter_context(supervised_worker(settings, storage.catalog.collection().id))
            self._joined = False
            self._waiting: Unfound | None = None
            self._open = stack.pop_all()

    def join(self, sequence: int, settles: bool) -> None:
        """Answer searches from now on. Raises Behind where a change up to `sequence` is missing.

        A replica that `settles` answers only once the pictures now queued can be found, as its siblings find them.
        """
        if self.replica.position().sequence < sequence:
            raise Behind(f"change {sequence} was not made here")
        if settles:
            self._waiting = Unfound(self.services.storage.catalog, self.services.collection.pictures)
        elif not self._joined:
            self._waiting = None
        self._joined = True

    def has_joined(self) -> bool:
        """Whether the writer of its shard has readmitted it since it started."""
        return self._joined

    def has_settled(self) -> bool:
        """Whether it answers searches."""
        waiting = self._waiting
        if waiting is not None and waiting.are_found() and self._waiting is waiting:
            self._waiting = None
        return self._joined and self._waiting is None

    def ask(self, at_least: int, method: str, arguments: Sequence[Any], num_shards: int | None = None) -> Any:
        """The answer of `http` or of a method of `search` or `lists`, by its name.

        Raises Behind where a change up to `at_least` is missing, NewerPlacement where pictures were released to shards
        beyond the `num_shards` that the caller knows.
        """
        self._check(at_least)
        answer = self._methods[method](*arguments)
        check_placement(num_shards, self.replica.placed_among())
        return answer

    def http(self, request: AppRequest) -> AppResponse:
        """The response of this directory's own web side."""
        return self._app.call(request)

    def _check(self, at_least: int) -> None:
        if not self.has_settled():
            raise Behind("this replica has not caught up yet")
        if self.replica.position().sequence < at_least:
            raise Behind(f"change {at_least} was not made here")

    def follow(self, sibling: Sibling) -> Position:
        """Catch up from a sibling."""
        return self.replica.catch_up(sibling)

    def apply(self, entry: JournalEntry, files: Files) -> Any:
        """Make a change."""
        return self.replica.apply(entry, files)

    def status(self) -> ReplicaStatus:
        """The state of this replica for operators."""
        return ReplicaStatus(
            position=self.replica.position(),
            counts=self.services.storage.catalog.counts(),
            settled=self.has_settled(),
            free_bytes=self.services.storage.space.free,
        )

    def close(self) -> None:
        """Stop the worker and the web side, and close all files."""
        self._open.close()

    def _accelerate(self, work: "Any") -> Any:
        return self.services.capacity.accelerator.enqueue(0, work).result()


def methods_of(*parts: object) -> dict[str, Callable[..., Any]]:
    """The public methods of parts, by name. ValueError where two parts share a name."""
    methods: dict[str, Callable[..., Any]] = {}
    for part in parts:
        for name, method in inspect.getmembers(part, inspect.ismethod):
            if name in methods:
                raise ValueError(f"{method.__qualname__} has the name of another part's method")
            if not name.startswith("_"):
                methods[name] = method
    return methods


def replica_folder(root: Path, shard: int, replica: int, generation: int = 0) -> Path:
    """The data directory of a replica, below that of the node."""
    return DataDir(root).shards / (f"{shard}-{replica}" + (f"-{generation}" if generation else ""))
