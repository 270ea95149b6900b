"""The peak memory of a step above its inputs, measured in a process of its own.

A process keeps freed memory, which would hide the needs of a later step, so each form is measured in a fresh process.
It first makes a step with two pairs, so that threads and libraries have allocated their memory. Then it makes the
inputs, resets the kernel's high-water mark, notes its memory and makes one step. The rise of the mark is the peak of
graph, gradients and everything else together. Only Linux has such a mark; on other systems there is no figure.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from models.bench.inputs import Sizes

PROCESS_STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"

StepFactory = Callable[[Sizes], Callable[[], object]]  # makes a step's inputs and returns the step


def peak_memory(make_step: StepFactory, sizes: Sizes) -> float | None:
    """Megabytes (2**20 bytes) above the inputs; None if the system has no high-water mark that can be reset."""
    if not CLEAR_REFS.exists():
        return None
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(memory_rise, make_step, sizes, torch.get_num_threads()).result()


def memory_rise(make_step: StepFactory, sizes: Sizes, threads: int) -> float:
    """Megabytes that one step adds to the memory of this process at its peak."""
    torch.set_num_threads(threads)
    make_step(replace(sizes, pairs=2))()
    step = make_step(sizes)
    CLEAR_REFS.write_text(RESET_PEAK)
    before = process_memory("VmRSS")
    step()
    return process_memory("VmHWM") - before


def process_memory(mark: str) -> float:
    """Megabytes of this process under the kernel's name `mark`."""
    lines = PROCESS_STATUS.read_text(encoding="utf-8").splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith(f"{mark}:"))
    return kilobytes / 1024
