"""Load is counted as it is felt: failures apart, delays from the arrival, rates over the whole time."""

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from service.bench.load import Ask, LoadOutcome, closed_loop, median_ratio, open_loop
from service.bench.synthetic import random_sentences

LONG_S = 1000.0  # the sentences end earlier


def numbered(count: int) -> Iterator[str]:
    return map(str, range(count))


def test_a_closed_loop_asks_one_after_the_other_and_every_sentence_once() -> None:
    asked: list[str] = []
    at_once, most, lock = 0, 0, threading.Lock()

    def ask(sentence: str) -> None:
        nonlocal at_once, most
        with lock:
            asked.append(sentence)
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.002)
        with lock:
            at_once -= 1

    outcome = closed_loop([ask] * 3, numbered(30), LONG_S)
    assert most <= 3
    assert sorted(asked, key=int) == list(numbered(30))
    assert len(outcome.seconds) == 30
    assert outcome.failed == 0
    assert min(outcome.seconds) >= 0.002
    assert outcome.rate == len(asked) / outcome.duration
    assert outcome.duration >= 0.02


def test_a_closed_loop_ends_with_its_time() -> None:
    asked = closed_loop([lambda _: time.sleep(0.01)], map(str, itertools.count()), 0.05)
    assert len(asked.seconds) <= 5
    assert asked.duration >= 0.05


def test_a_failure_is_no_answer() -> None:
    def ask(sentence: str) -> None:
        if int(sentence) % 2:
            raise OSError("refused")

    outcome = closed_loop([ask], numbered(10), LONG_S)
    assert (outcome.failed, len(outcome.seconds)) == (5, 5)


def test_an_open_loop_counts_from_the_arrival() -> None:
    """One asker that takes 20 ms, and arrivals every 5 ms: each waits for all before it."""
    outcome = open_loop([lambda _: time.sleep(0.02)], numbered(1000), rate=200, seconds=0.1)
    assert len(outcome.seconds) >= 5
    assert max(outcome.seconds) >= 0.02 * (len(outcome.seconds) - 1) - 0.1


def resting(seconds: float) -> Ask:
    return lambda _: time.sleep(seconds)


def test_an_open_loop_offers_the_rate_whatever_the_answers_take() -> None:
    quick, slow = (open_loop([resting(rest)] * 16, numbered(1000), rate=100, seconds=0.3) for rest in (0.0, 0.03))
    assert len(quick.seconds) == len(slow.seconds) > 10


def test_percentiles_and_ratios() -> None:
    outcome = LoadOutcome([0.1 * n for n in range(1, 11)], 0, 5.0)
    assert outcome.rate == 2.0
    assert outcome.percentile(50) == pytest.approx(0.6)
    assert outcome.percentile(99) == pytest.approx(1.0)
    assert LoadOutcome().percentile(50) == float("inf")
    half = LoadOutcome([0.1] * 5, 0, 5.0)
    assert median_ratio([half, half], [outcome, outcome]) == 0.5
    assert median_ratio([outcome], [LoadOutcome()]) is None


def test_sentences_are_hardly_ever_asked_twice() -> None:
    drawn = list(itertools.islice(random_sentences(1), 2000))
    assert len(set(drawn)) > 1990
    assert drawn == list(itertools.islice(random_sentences(1), 2000))
    assert drawn[0] != next(random_sentences(2))
