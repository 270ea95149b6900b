"""A model that takes longer counts for more, measured where it runs."""

import logging
from typing import Any

import pytest
from torch import Tensor

from models.kernels.library import KernelLibrary
from models.matching.encoded import EncodedImages, EncodedTexts
from service.search.scoring.pair_costs import MOST, REPEATS, PairCosts
from tests.support.fakes import FakeMatcher, R
from tests.support.kernels import load_kernels
from tests.support.small_matchers import small_matcher


class Timed(FakeMatcher):
    """Takes so many seconds for every call of `score`."""

    def __init__(self, digest: str, seconds: float, now: list[float]) -> None:
        super().__init__(digest, digest)
        self._seconds, self._now = seconds, now

    def score(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        self._now[0] += self._seconds
        return super().score(images, texts)


class Broken(FakeMatcher):
    """Cannot score."""

    def score(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        raise RuntimeError("no kernel")


def test_weights_are_relative_to_the_fastest_model() -> None:
    now = [0.0]
    light, heavy, absurd = Timed("light", 1.0, now), Timed("heavy", 8.0, now), Timed("absurd", 1e6, now)
    costs = PairCosts(lambda: now[0])
    assert [costs.weight(model) for model in (light, heavy)] == [1.0, 1.0]
    costs.measure([heavy, light, absurd], R)
    assert [costs.weight(model) for model in (light, heavy, absurd)] == [1.0, 8.0, MOST]


def test_what_is_loaded_later_is_measured_later_and_nothing_twice() -> None:
    now = [0.0]
    heavy, light = Timed("heavy", 8.0, now), Timed("light", 1.0, now)
    costs = PairCosts(lambda: now[0])
    costs.measure([heavy], R)
    assert costs.weight(heavy) == 1.0
    before = now[0]
    costs.measure([heavy, light], R)
    assert now[0] == before + REPEATS * 1.0  # of the light one alone
    assert [costs.weight(model) for model in (heavy, light)] == [8.0, 1.0]


def test_a_model_that_fails_keeps_its_weight_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    broken, light, heavy = Broken("broken", "broken"), Timed("light", 1.0, now), Timed("heavy", 2.0, now)
    costs = PairCosts(lambda: now[0])
    with caplog.at_level(logging.ERROR):
        costs.measure([broken, light, heavy], R)
    assert [costs.weight(model) for model in (broken, light, heavy)] == [1.0, 1.0, 2.0]
    assert "broken" in caplog.text


def test_a_model_that_the_kernels_know_costs_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    kernels, matcher, slow = load_kernels(), small_matcher("scan-t2i-avg"), Timed("slow", 4.0, now)

    def scored(*arguments: Any) -> Tensor:
        now[0] += 1.0
        return KernelLibrary.scores(kernels, *arguments)

    def refused(*arguments: Any) -> Tensor:
        raise AssertionError("scored by PyTorch")

    monkeypatch.setattr(kernels, "scores", scored)
    monkeypatch.setattr(matcher, "score", refused)
    matcher.use_kernels(kernels)
    costs = PairCosts(lambda: now[0])
    costs.measure([matcher, slow], R)
    assert [costs.weight(one) for one in (matcher, slow)] == [1.0, 4.0]


def test_a_clock_that_stands_still_weighs_all_alike() -> None:
    costs = PairCosts(lambda: 0.0)
    costs.measure([FakeMatcher()], R)
    assert costs.weight(FakeMatcher()) == 1.0
