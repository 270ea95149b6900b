"""Times that can be compared on a machine that others use too: measured in turns, related turn by turn."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

PEAK_SIZE = 1536  # rows and columns of the matrices whose product gives the best rate
READ_NUMBERS = 1 << 25  # 128 MB of float32: four times a large processor cache


@dataclass(frozen=True)
class Turns:
    """Seconds of every form in every turn; place n of all lists was measured at nearly the same moment."""

    seconds: Mapping[str, list[float]]

    def usual(self, name: str) -> float:
        """Median over the turns."""
        return median(self.seconds[name])

    def best(self, name: str) -> float:
        """The least disturbed turn."""
        return min(self.seconds[name])

    def ratio(self, name: str, beside: str) -> float:
        """Median over the turns of how many times longer `name` took than `beside`."""
        pairs = zip(self.seconds[name], self.seconds[beside], strict=True)
        return median(one / other for one, other in pairs)


def seconds_of(form: Callable[[], Any]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    form()
    return time.perf_counter() - began


def in_turns(forms: Mapping[str, Callable[[], Any]], rounds: int, warm: bool = False) -> Turns:
    """Every form once in each round; before, unless `warm`, one more call of each that does not count."""
    for form in forms.values() if not warm else ():
        form()
    turns = [{name: seconds_of(form) for name, form in forms.items()} for _ in range(rounds)]
    return Turns({name: [turn[name] for turn in turns] for name in forms})


@dataclass(frozen=True)
class Best:
    """What this machine does at best with the threads given: the base of every floor."""

    flops: float  # a second, of one large float32 matrix product
    reads: float  # bytes a second, from memory

    def rates(self) -> dict[str, float]:
        """For people."""
        return {"gflop_per_second": 1e-9 * self.flops, "gb_read_per_second": 1e-9 * self.reads}

    def floor(self, flops: float, num_bytes: float = 0.0) -> float:
        """Seconds below which no form can be that computes and reads so much."""
        return max(flops / self.flops, num_bytes / self.reads)


def best_rates(rounds: int = 5) -> Best:
    """Measured here and now."""
    matrix = torch.randn(PEAK_SIZE, PEAK_SIZE)
    numbers = torch.ones(READ_NUMBERS)
    turns = in_turns({"product": lambda: matrix @ matrix, "reading": lambda: torch.dot(numbers, numbers)}, rounds)
    # A dot product of a vector with itself reads memory once: the second number comes from the cache.
    return Best(2 * PEAK_SIZE**3 / turns.best("product"), 4 * READ_NUMBERS / turns.best("reading"))


def hardware() -> dict[str, Any]:
    """What the figures are of."""
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": "float32",
        "system": platform.platform(),
    }


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system knows it."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
