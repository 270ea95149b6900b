"""Work that finds no memory on its device: done once more in half the batch, then refused for a while."""

import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from service.errors import Overloaded

T = TypeVar("T")

MEMORY_RETRY_S = 5  # other work has given its memory back by then

log = logging.getLogger(__name__)


def split_once(work: Callable[[int], T], size: int) -> T:
    """`work` in batches of `size`; where these find no memory, once more in batches of half that.

    torch.OutOfMemoryError where these find none either.
    """
    try:
        return work(size)
    except torch.OutOfMemoryError:
        if size < 2:
            raise
    # After the block, since the exception keeps what the first attempt has made so far.
    give_memory_back()
    log.warning("the device has no memory for a batch of %d: it is halved", size)
    return work(-(-size // 2))


def without_memory(fault: BaseException) -> BaseException:
    """Overloaded in the place of a want of memory, which passes; any other fault as it is."""
    if not isinstance(fault, torch.OutOfMemoryError):
        return fault
    give_memory_back()
    log.error("the device has no memory for what a request asks: %s", fault)
    return Overloaded(
        "The accelerator has no memory left for this just now; try again shortly.", retry_after=MEMORY_RETRY_S
    )


def give_memory_back() -> None:
    """Let go of memory that PyTorch keeps on a GPU for later."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
