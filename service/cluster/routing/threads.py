"""A thread pool per shard, so that a shard that hangs blocks neither other shards nor uploads."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from service.errors import Overloaded

THREADS_OF_A_SHARD = 16
MOST_OF_A_SHARD = 128  # requests that wait for it, including those in a thread
WAITING_RETRY_S = 5

T = TypeVar("T")


class ShardThreads:
    """Runs work that waits for shards. For one event loop, since counts change between awaits."""

    def __init__(self) -> None:
        self._threads = defaultdict[int, ThreadPoolExecutor](partial(ThreadPoolExecutor, THREADS_OF_A_SHARD, "forward"))
        self._waiting = defaultdict[int, int](int)

    async def run(self, shard: int, work: Callable[[], T]) -> T:
        """The result of work that calls this shard. Overloaded where too many requests wait for it already."""
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
