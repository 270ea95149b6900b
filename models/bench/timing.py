"""Times that can be compared on a machine that others use too: measured in turns, compared turn by turn."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

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
        """Median over the turns of how many times longer `name` took than `beside`."""
        pairs = zip(self.seconds[name], self.seconds[beside], strict=True)
        return statistics.median(one / other for one, other in pairs)


def seconds_of_call(form: Callable[[], Any]) -> float:
    """Seconds that one call takes."""
    began = time.perf_counter()
    form()
    return time.perf_counter() - began


def time_interleaved(forms: Mapping[str, Callable[[], Any]], rounds: int, warm: bool = False) -> InterleavedTimes:
    """Every form timed once in each round; unless `warm`, each is called once before, which does not count."""
    for form in forms.values() if not warm else ():
        form()
    turns = [{name: seconds_of_call(form) for name, form in forms.items()} for _ in range(rounds)]
    return InterleavedTimes({name: [turn[name] for turn in turns] for name in forms})


@dataclass(frozen=True)
class MachineRates:
    """The best rates of this machine with the threads given: the base of every floor."""

    flops: float  # a second, of one large float32 matrix product
    reads: float  # bytes a second, from memory

    def as_dict(self) -> dict[str, float]:
        """The rates in units for people."""
        return {"gflop_per_second": 1e-9 * self.flops, "gb_read_per_second": 1e-9 * self.reads}

    def floor(self, flops: float, num_bytes: float = 0.0) -> float:
        """Seconds below which no form can be that computes and reads so much."""
        return max(flops / self.flops, num_bytes / self.reads)


def measure_rates(rounds: int = 5) -> MachineRates:
    """The rates of this machine, measured now."""
    matrix = torch.randn(PEAK_SIZE, PEAK_SIZE)
    numbers = torch.ones(READ_NUMBERS)
    turns = time_interleaved(
        {"product": lambda: matrix @ matrix, "reading": lambda: torch.dot(numbers, numbers)}, rounds
    )
    # A dot product of a vector with itself reads memory once: the second number comes from the cache.
    return MachineRates(2 * PEAK_SIZE**3 / turns.fastest("product"), 4 * READ_NUMBERS / turns.fastest("reading"))


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
