"""Load on what answers sentences: clients that ask one after the other, or arrivals that wait for nobody.

A closed loop shows the rate that can be kept up; in an open loop sentences arrive at a given rate whether or not the
ones before were answered, and a delay counts from the arrival, as it does for people.
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
    """Seconds of each answer, how many questions were refused or failed, and how long all of it took."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    duration: float = 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.duration if self.duration else 0.0

    def percentile(self, percent: int) -> float:
        """Seconds within which this `percent` of the answers came; infinite where none came."""
        if not self.seconds:
            return float("inf")
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Shared:
    """An iterator that several threads take from."""

    def __init__(self, items: Iterator[str]) -> None:
        self._items, self._lock = items, threading.Lock()

    def take(self) -> str | None:
        """The next item; None after the last."""
        with self._lock:
            return next(self._items, None)


def _answer(ask: Ask, sentence: str, since: float, outcome: LoadOutcome) -> None:
    try:
        ask(sentence)
    except (OSError, ValueError):  # refused, or no answer: counted, never taken for a fast one
        outcome.failed += 1
    else:
        outcome.seconds.append(time.perf_counter() - since)


def closed_loop(askers: list[Ask], sentences: Iterator[str], seconds: float) -> LoadOutcome:
    """Every asker asks, one question after the other, for `seconds`; each runs in a thread of its own.

    It ends earlier where the sentences end.
    """
    shared, began = Shared(sentences), time.perf_counter()

    def run(ask: Ask) -> LoadOutcome:
        own = LoadOutcome()
        while time.perf_counter() - began < seconds and (sentence := shared.take()) is not None:
            _answer(ask, sentence, time.perf_counter(), own)
        return own

    with ThreadPoolExecutor(len(askers)) as pool:
        return joined(list(pool.map(run, askers)), 0.0, began)


def open_loop(askers: list[Ask], sentences: Iterator[str], rate: float, seconds: float) -> LoadOutcome:
    """Questions that arrive at random (Poisson) at `rate` a second for `seconds`.

    There must be enough askers for all that wait at a time; where all are busy the delay still counts from the arrival.
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
    """The outcomes of several askers as one; its time ends with the last of them, and not before `seconds`."""
    duration = max(seconds, time.perf_counter() - began)
    return LoadOutcome([one for part in parts for one in part.seconds], sum(part.failed for part in parts), duration)


def median_ratio(ours: list[LoadOutcome], beside: list[LoadOutcome]) -> float | None:
    """Median over the turns of how many times the rate of `beside` ours is; None where there was no rate."""
    pairs = [(one.rate, other.rate) for one, other in zip(ours, beside, strict=True)]
    return statistics.median(one / other for one, other in pairs) if all(other for _, other in pairs) else None
