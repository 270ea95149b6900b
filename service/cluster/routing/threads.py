"""Threads for requests that wait for one shard: one that hangs holds its own, and no other shard's nor an upload's."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from service.errors import Overloaded

THREADS_OF_A_SHARD = 16
MOST_OF_A_SHARD = 128  # requests, those in a thread included
WAITING_RETRY_S = 5

T = TypeVar("T")


class ShardThreads:
    """Runs what waits for shards. For one event loop: every count changes between two awaits."""

    def __init__(self) -> None:
        self._threads = defaultdict[int, ThreadPoolExecutor](partial(ThreadPoolExecutor, THREADS_OF_A_SHARD, "forward"))
        self._waiting = defaultdict[int, int](int)

    async def run(self, shard: int, work: Callable[[], T]) -> T:
        """The result of work that asks this shard. Overloaded where too much waits for it already."""
        if self._waiting[shard] >= MOST_OF_A_SHARD:
            raise Overloaded(
                f"{MOST_OF_A_SHARD} requests wait for shard {shard}, and no more do; try again shortly.",
                retry_after=WAITING_RETRY_S,
            )
        self._waiting[shard] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads[shard], work)
        finally:
            self._waiting[shard] -= 1
