"""How much memory a step takes above its inputs: the high-water mark of a process of its own.

A process that has measured before keeps freed memory, which would hide what the next step takes. So each form gets a
fresh one. It first does the same with two pairs (threads and libraries take their memory then), makes the inputs, notes
what it holds, resets the kernel's mark and makes one step: what the mark rose by is the peak of graph, gradients and
everything else together. Linux alone has such a mark; elsewhere there is no figure.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from models.bench.encoding import Sizes

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"

Prepared = Callable[[Sizes], Callable[[], object]]  # makes the inputs, gives the step


def peak_of(prepared: Prepared, sizes: Sizes) -> float | None:
    """Megabytes (2**20 bytes) above the inputs; None where the system keeps no mark that can be reset."""
    if not CLEAR.exists():
        return None
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(risen, prepared, sizes, torch.get_num_threads()).result()


def risen(prepared: Prepared, sizes: Sizes, threads: int) -> float:
    """What one step adds to the memory of this process."""
    torch.set_num_threads(threads)
    prepared(replace(sizes, pairs=2))()
    step = prepared(sizes)
    CLEAR.write_text(RESET_PEAK)
    before = held("VmRSS")
    step()
    return held("VmHWM") - before


def held(mark: str) -> float:
    """Megabytes by the name that the kernel has for them."""
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith(f"{mark}:"))
    return kilobytes / 1024
