"""Shards without machines between them: libraries of coloured pictures, whose replicas answer in threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

from service.cluster.messages import check_placement
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut, Replica
from service.cluster.routing.sharded_gallery import ShardedGalleries
from service.cluster.shards.search import ShardSearch
from service.search.engine import SearchEngine
from service.search.local_gallery import LocalGalleries
from service.search.query import Accelerate, run_here
from tests.support.library import Library


class LocalReplica(Replica):
    """A replica in this process. If `fault` is set, every call raises it."""

    name = ""

    def __init__(self, name: str, search: ShardSearch) -> None:
        self.name = name
        self.fault: Exception | None = None
        self.hold: Callable[[], None] = lambda: None
        self.placed_among = 0
        self.known: int | None = None
        self.calls: list[str] = []
        self._search = search
        self._threads = ThreadPoolExecutor(4)

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call in a thread."""
        self.calls.append(method)
        return self._threads.submit(self._run, method, arguments)

    def _run(self, method: str, arguments: Sequence[Any]) -> Any:
        self.hold()
        if self.fault is not None:
            raise self.fault
        answer = getattr(self._search, method)(*arguments)
        check_placement(self.known, self.placed_among)
        return answer

    def close(self) -> None:
        """Wait for all calls, since a closed library cannot be read."""
        self._threads.shutdown()

    def requiring(self, at_least: int, num_shards: int) -> Self:
        """Itself, which is asked by one that knows of so many shards."""
        self.known = num_shards
        return self


def replica_of(name: str, library: Library, accelerate: Accelerate = run_here) -> LocalReplica:
    """A replica that answers from a library."""
    galleries = LocalGalleries(library.catalog, library.regions, library.models, library.extractor)
    return LocalReplica(name, ShardSearch(library.catalog, galleries, accelerate))


def engine_over(
    shards: Sequence[Sequence[Replica]], library: Library, deadline_s: float = 30.0, round_trips: int = 2
) -> SearchEngine:
    """A search engine over shards, with the models of a library."""
    galleries = ShardedGalleries(
        FanOut(shards, deadline_s),
        library.models,
        library.extractor.digest,
        lambda: Placement(len(shards)),
        round_trips,
    )
    return SearchEngine(galleries, library.models, library.extractor)
