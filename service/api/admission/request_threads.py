"""The threads that requests are answered in, besides the event loop: a kind for each way of waiting."""

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from models.single_threads import SingleThreads, usual_threads

SEARCH_THREADS = 16  # queries that wait side by side for an accelerator or for other machines
LOOKUP_THREADS = 8  # what comes before a query that is not light: its view, its cost, a kept answer
CHANGE_THREADS = 8  # changes that wait side by side for the catalog, which makes them one by one
HEALTH_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class RequestThreads:
    """Threads by what is done in them."""

    search: Executor
    """For queries that wait for others."""
    light: Executor
    """For light queries, from their beginning to their end; as many as processors."""
    first: Executor
    """In which searches for a sentence begin: where most are light, they end there too."""
    lookup: Executor
    changes: Executor
    """For what writes the catalog: where another process keeps it, nothing else waits."""
    health: Executor

    @classmethod
    def started(cls, processes: int, light_first: bool) -> "RequestThreads":
        """Threads of one of `processes` web processes on a port; with `light_first` searches for a sentence begin in
        light ones."""
        light = SingleThreads(max(1, usual_threads() // processes), "light").executor
        lookup = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="lookup")
        return cls(
            search=SingleThreads(SEARCH_THREADS, "search").executor,
            light=light,
            first=light if light_first else lookup,
            lookup=lookup,
            changes=ThreadPoolExecutor(CHANGE_THREADS, thread_name_prefix="change"),
            health=ThreadPoolExecutor(HEALTH_THREADS, thread_name_prefix="health"),
        )

    def close(self) -> None:
        """Let them end what they do, queries first."""
        for threads in (self.search, self.light, self.lookup, self.changes, self.health):
            threads.shutdown()
