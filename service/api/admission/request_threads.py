"""The thread pools that answer requests: one for each kind of waiting."""

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from models.single_threads import SingleThreads, usual_threads

SEARCH_THREADS = 16  # queries that wait in parallel for an accelerator or for other machines
LOOKUP_THREADS = 8  # steps before a query that is not light: its view, its cost, a cached answer
CHANGE_THREADS = 8  # changes that wait in parallel for the catalog, which makes them one by one
HEALTH_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class RequestThreads:
    """Thread pools by their purpose."""

    search: Executor
    """For queries that wait for the accelerator or for other machines."""
    light: Executor
    """For light queries, from beginning to end; as many threads as processors."""
    first: Executor
    """For the beginning of searches for a sentence, and the end of light ones."""
    lookup: Executor
    changes: Executor
    """For changes of the catalog, so that nothing else waits while another process locks it."""
    health: Executor

    @classmethod
    def started(cls, processes: int, light_first: bool) -> "RequestThreads":
        """The pools of one of `processes` web processes on a port; with `light_first` searches for a sentence begin in
        the light pool."""
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
        """Finish the work of all threads, queries first."""
        for threads in (self.search, self.light, self.lookup, self.changes, self.health):
            threads.shutdown()
