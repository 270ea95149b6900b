"""Load generators for searches: closed and open loops.

In a closed loop each client sends its next sentence after the answer, which shows the highest sustained rate. In an
open loop sentences arrive at a given rate whether or not earlier ones were answered; latency counts from the arrival,
as it does for people.
"""

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

Ask = Callable[[str], object]

ARRIVALS_SEED = 1


@dataclass
class LoadOutcome:
    """The latency of each answer in seconds, the number of failed searches, and the duration of the whole load."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    duration: float = 0.0

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.seconds) / self.duration if self.duration else 0.0

    def percentile(self, percent: int) -> float:
        """The latency percentile in seconds; infinite without answers."""
        if not self.seconds:
            return float("inf")
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Shared:
    """An iterator that several threads consume."""

    def __init__(self, items: Iterator[str]) -> None:
        self._items, self._lock = items, threading.Lock()

    def take(self) -> str | None:
        """The next item; None after the last."""
        with self._lock:
            return next(self._items, None)


def _answer(ask: Ask, sentence: str, since: float, outcome: LoadOutcome) -> None:
    try:
        ask(sentence)
    except (OSError, ValueError):  # refused, or no answer: must not count as a fast one
        outcome.failed += 1
    else:
        outcome.seconds.append(time.perf_counter() - since)


def closed_loop(askers: list[Ask], sentences: Iterator[str], seconds: float) -> LoadOutcome:
    """A closed loop of all askers for `seconds`, or until there are no more sentences; each has its own thread."""
    shared, began = Shared(sentences), time.perf_counter()

    def run(ask: Ask) -> LoadOutcome:
        own = LoadOutcome()
        while time.perf_counter() - began < seconds and (sentence := shared.take()) is not None:
            _answer(ask, sentence, time.perf_counter(), own)
        return own

    with ThreadPoolExecutor(len(askers)) as pool:
        return joined(list(pool.map(run, askers)), 0.0, began)


def open_loop(askers: list[Ask], sentences: Iterator[str], rate: float, seconds: float) -> LoadOutcome:
    """An open loop: sentences arrive as a Poisson process with `rate` per second for `seconds`.

    There should be enough askers for all waiting sentences; if all are busy, latency still counts from the arrival.
    """
    generator, arrivals, at = random.Random(ARRIVALS_SEED), [], 0.0
    while (at := at + generator.expovariate(rate)) < seconds:
        arrivals.append(at)
    shared, lock, waiting, began = Shared(sentences), threading.Lock(), iter(arrivals), time.perf_counter()

    def run(ask: Ask) -> LoadOutcome:
        own = LoadOutcome()
        while True:
            with lock:
                arrival = next(waiting, None)
            sentence = None if arrival is None else shared.take()
            if arrival is None or sentence is None:
                return own
            due = began + arrival
            time.sleep(max(0.0, due - time.perf_counter()))
            _answer(ask, sentence, due, own)

    with ThreadPoolExecutor(len(askers)) as pool:
        return joined(list(pool.map(run, askers)), seconds, began)


def joined(parts: list[LoadOutcome], seconds: float, began: float) -> LoadOutcome:
    """The joined outcomes of several askers. The duration since `began` is at least `seconds`."""
    duration = max(seconds, time.perf_counter() - began)
    return LoadOutcome([one for part in parts for one in part.seconds], sum(part.failed for part in parts), duration)


def median_ratio(ours: list[LoadOutcome], beside: list[LoadOutcome]) -> float | None:
    """The median over the turns of our rate divided by that of `beside`; None if one of those is 0."""
    pairs = [(one.rate, other.rate) for one, other in zip(ours, beside, strict=True)]
    return statistics.median(one / other for one, other in pairs) if all(other for _, other in pairs) else None
