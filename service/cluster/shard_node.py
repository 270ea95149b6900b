"""A replica of a shard, whole: what one machine runs on a data directory, asked by routers instead of browsers."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.api.app import create_app
from service.api.services import build_services
from service.cluster.asgi_calls import AppRequest, AppResponse, AppThread
from service.cluster.journal import Entry, Position
from service.cluster.messages import Behind
from service.cluster.shard_lists import ShardLists
from service.cluster.shard_replica import Files, Sibling, opened_replica
from service.cluster.shard_search import ShardSearch
from service.model_loading import LoadedModels
from service.search.local_gallery import LocalGalleries
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.worker.supervisor import supervised_worker
from service.worker.wakeups import open_notifier

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplicaStatus:
    """What `regard cluster status` shows of a replica."""

    position: Position
    counts: Mapping[str, int]
    searchable: int
    free_bytes: int


class ShardNode:
    """The engine of one data directory: web side, worker, journal. Safe from many threads."""

    def __init__(self, settings: Settings, with_worker: bool = True) -> None:
        """Open `settings.data_dir` and start. Misconfigured, Locked and whatever else `regard serve` ends with."""
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            loaded = LoadedModels.from_settings(settings)
            notifier = stack.enter_context(
                closing(open_notifier(settings.redis_url, DataDir(settings.data_dir).catalog))
            )
            self.services = build_services(settings, loaded, notifier.wake)
            services = self.services
            app = create_app(services)
            self._app = stack.enter_context(closing(AppThread(app, app.router.lifespan_context(app))))
            self.replica = opened_replica(settings.data_dir, services.catalog, services.originals, notifier.wake)
            galleries = LocalGalleries(services.catalog, services.regions, services.models, loaded.extractor)
            self.search = ShardSearch(services.catalog, galleries, self._accelerate)
            self.lists = ShardLists(services.catalog, services.originals, services.pictures, services.progress)
            if with_worker:
                stack.enter_context(supervised_worker(settings))
            self._joined_at: int | None = None
            self._open = stack.pop_all()

    def join(self, sequence: int) -> None:
        """Answer searches from now on: every change up to this one was made. Behind where it was not."""
        if self.replica.position().sequence < sequence:
            raise Behind(f"change {sequence} was not made here")
        self._joined_at = sequence

    def has_joined(self) -> bool:
        """Whether it answers searches."""
        return self._joined_at is not None

    def ask(self, at_least: int, method: str, arguments: Sequence[Any]) -> Any:
        """A call of one of `search`'s or `lists`' methods. Behind where a change up to `at_least` is missing."""
        if not self.has_joined():
            raise Behind("this replica has not caught up yet")
        if self.replica.position().sequence < at_least:
            raise Behind(f"change {at_least} was not made here")
        return getattr(self.lists if hasattr(self.lists, method) else self.search, method)(*arguments)

    def http(self, request: AppRequest) -> AppResponse:
        """The response of this directory's own web side."""
        return self._app.call(request)

    def follow(self, sibling: Sibling) -> Position:
        """Catch up from a sibling."""
        return self.replica.catch_up(sibling)

    def apply(self, entry: Entry, files: Files) -> Any:
        """Make a change."""
        return self.replica.apply(entry, files)

    def status(self) -> ReplicaStatus:
        """How this replica is."""
        snapshot = self.services.models.default.snapshot()
        return ReplicaStatus(
            position=self.replica.position(),
            counts=self.services.catalog.counts(),
            searchable=snapshot.counts.images if snapshot else 0,
            free_bytes=self.services.space.free,
        )

    def close(self) -> None:
        """Stop the worker and the web side, and close all files."""
        self._open.close()

    def _accelerate(self, work: "Any") -> Any:
        return self.services.accelerator.enqueue(0, work).result()


def replica_folder(root: Path, shard: int, replica: int) -> Path:
    """The data directory of a replica, below that of the node."""
    return root / "shards" / f"{shard}-{replica}"
