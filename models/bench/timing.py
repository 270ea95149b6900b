"""Times that can be compared on a shared machine: measured in turns, compared turn by turn."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear

from models.batches import Words
from models.kernels.forms import BLOCK, KernelForm
from models.kernels.library import KernelLibrary

CALLS_OF_A_RUN = 3
RATE_ROUNDS = 5
PEAK_SIZE = 1536  # rows and columns of the matrices whose product gives the best rate
READ_NUMBERS = 1 << 25  # 128 MB of float32: four times a large processor cache


@dataclass(frozen=True)
class InterleavedTimes:
    """Seconds of every form in every turn; the n-th numbers of all forms were measured at nearly the same moment."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """Median over the turns."""
        return statistics.median(self.seconds[name])

    def fastest(self, name: str) -> float:
        """The least disturbed turn."""
        return min(self.seconds[name])

    def ratio(self, name: str, beside: str) -> float:
        """Median over the turns of the time of `name` divided by that of `beside`."""
        pairs = zip(self.seconds[name], self.seconds[beside], strict=True)
        return statistics.median(mine / other for mine, other in pairs)


def seconds_of_call(form: Callable[[], Any]) -> float:
    """Seconds that one call takes, including its work on a GPU."""
    finish_device()
    began = time.perf_counter()
    form()
    finish_device()
    return time.perf_counter() - began


def finish_device() -> None:
    """Wait until a GPU, if this process uses one, has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def time_interleaved(forms: Mapping[str, Callable[[], Any]], rounds: int, warm: bool = False) -> InterleavedTimes:
    """Times of every form, once in each round; unless `warm`, each is first called once without being timed."""
    for form in forms.values() if not warm else ():
        form()
    turns = [{name: seconds_of_call(form) for name, form in forms.items()} for _ in range(rounds)]
    return InterleavedTimes({name: [turn[name] for turn in turns] for name in forms})


def time_runs_interleaved(
    forms: Mapping[str, Callable[[], Any]], rounds: int
) -> tuple[InterleavedTimes, InterleavedTimes]:
    """Times of the first and the last of CALLS_OF_A_RUN consecutive calls of every form in each round.

    In the first, the processor's cache holds another form's data; in the last, its own.
    """
    for form in forms.values():
        form()
    turns = [
        {name: [seconds_of_call(form) for _ in range(CALLS_OF_A_RUN)] for name, form in forms.items()}
        for _ in range(rounds)
    ]
    first, last = (InterleavedTimes({name: [turn[name][n] for turn in turns] for name in forms}) for n in (0, -1))
    return first, last


@dataclass(frozen=True)
class MachineRates:
    """The best rates of this machine with the current threads, from which every floor follows."""

    flops: float  # a second, of float32 matrix products
    reads: float  # bytes a second, from memory
    products: Mapping[str, float] = field(default_factory=dict)  # operations a second by each library

    def as_dict(self) -> dict[str, float]:
        """The rates in GFLOP/s and GB/s."""
        each = {f"{name}_gflop_per_second": 1e-9 * rate for name, rate in self.products.items()}
        return {"gflop_per_second": 1e-9 * self.flops, "gb_read_per_second": 1e-9 * self.reads, **each}

    def floor(self, flops: float, num_bytes: float = 0.0) -> float:
        """The least seconds that any form needs for these operations and bytes."""
        return max(flops / self.flops, num_bytes / self.reads)


def measure_rates(kernels: KernelLibrary | None = None, device: str = "cpu") -> MachineRates:
    """The rates of this machine, measured now: the best of PyTorch's matrix product and, on a CPU, those of oneDNN and
    of `kernels`."""
    matrix = torch.randn(PEAK_SIZE, PEAK_SIZE, device=device)
    numbers = torch.ones(READ_NUMBERS, device=device)
    square = 2.0 * PEAK_SIZE**3
    forms: dict[str, tuple[float, Callable[[], Any]]] = {"blas": (square, lambda: matrix @ matrix)}
    if device == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        blocked = matrix.to_mkldnn()
        forms["onednn"] = square, lambda: linear(blocked, blocked)
    if device == "cpu" and kernels is not None:
        forms["kernel"] = kernel_product(kernels)
    calls = {name: call for name, (_, call) in forms.items()}
    turns = time_interleaved({**calls, "reading": lambda: torch.dot(numbers, numbers)}, RATE_ROUNDS)
    products = {name: flops / turns.fastest(name) for name, (flops, _) in forms.items()}
    # A dot product of a vector with itself reads memory once: the second number comes from the cache.
    return MachineRates(max(products.values()), 4 * READ_NUMBERS / turns.fastest("reading"), products)


def kernel_product(kernels: KernelLibrary) -> tuple[float, Callable[[], Any]]:
    """The operations and a call of the kernels' matrix product, for one picture that stays in the cache.

    The maximum of every column, which the call also computes, is not counted.
    """
    regions, width, words = 36, 1024, BLOCK
    records = {"vectors": np.ones((1, regions, width), np.float16), "mask": np.ones((1, regions), np.bool_)}
    rows = np.zeros(max(1, PEAK_SIZE // 4), np.int64)
    sentence = Words(torch.ones(1, words, width), torch.ones(1, words, dtype=torch.bool))
    form = KernelForm(words_attend=True)
    flops = 2.0 * regions * width * words * len(rows)
    return flops, lambda: kernels.scores(form, records, rows, sentence, torch.get_num_threads())


def hardware() -> dict[str, Any]:
    """The hardware and software that figures are measured on."""
    return {
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": "float32",
        "system": platform.platform(),
    }


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system knows it."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
