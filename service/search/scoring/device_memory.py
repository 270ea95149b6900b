"""Recovery from a lack of memory on the device: half the batch is tried once, then the work is refused."""

import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from service.errors import Overloaded

T = TypeVar("T")

MEMORY_RETRY_S = 5  # after which other work should have freed its memory

log = logging.getLogger(__name__)


def split_once(work: Callable[[int], T], size: int) -> T:
    """The result of `work` in batches of `size` or, where memory is too short for these, of half that.

    torch.OutOfMemoryError where it is too short for those as well.
    """
    try:
        return work(size)
    except torch.OutOfMemoryError:
        if size < 2:
            raise
    # Outside the except block, since the exception keeps the first attempt's tensors alive.
    give_memory_back()
    log.warning("the device has no memory for a batch of %d: it is halved", size)
    return work(-(-size // 2))


def without_memory(fault: BaseException) -> BaseException:
    """Overloaded in place of an out-of-memory error, which is temporary; any other fault as it is."""
    if not isinstance(fault, torch.OutOfMemoryError):
        return fault
    give_memory_back()
    log.error("the device has no memory for what a request asks: %s", fault)
    return Overloaded(
        "The accelerator has no memory left for this just now; try again shortly.", retry_after=MEMORY_RETRY_S
    )


def give_memory_back() -> None:
    """Return memory to the GPU that PyTorch keeps for reuse."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
