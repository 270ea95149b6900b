"""Matchers score stored pictures by the kernels as they score them by PyTorch, hubness and ensembles included."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from models.batches import Regions, Words
from models.kernels import device_library
from models.kernels.device_library import DeviceKernels
from models.kernels.library import KernelLibrary
from models.matching.calibration import Calibration
from models.matching.encoded import HUBNESS, STAGE_ONE
from models.matching.ensemble import build_ensemble
from models.matching.hubness import HubnessConfig
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.matching.log_odds import LogOddsModel
from models.matching.matcher import Matcher
from models.matching.single_matcher import SingleMatcher
from tests.support.fakes import COLOURS, D
from tests.support.small_matchers import small_matcher

SENTENCES = ["red green blue", "white"]
ROWS = np.array([3, 0, 3, 2])
assert {"red", "green", "blue", "white"} <= set(COLOURS)


def pictures(num_regions: int = 5) -> Regions:
    mask = torch.arange(num_regions) < torch.tensor([num_regions, 3, 1, 4])[:, None]
    return Regions(torch.randn(4, num_regions, D, generator=torch.Generator().manual_seed(2)), mask)


def stored(matcher: Matcher, num_regions: int = 5) -> dict[str, Any]:
    """The records of the pictures as a view keeps them: single numbers in float32, all others in half precision."""
    images, _ = matcher.encode_regions(pictures(num_regions))
    halves = {name: t if t.ndim == 1 or t.dtype == torch.bool else t.half() for name, t in images.tensors().items()}
    return {name: tensor.numpy() for name, tensor in halves.items()}


def corrected(name: str, seed: int, cosine_weight: float = 0.0, short_question: int = 0) -> SingleMatcher:
    """A matcher with a hubness correction and stage one's cosine as a part of its score, but for short questions."""
    hubness = HubnessConfig(image_weight=0.4, text_weight=0.2, neighbours=2, similarity="scores")
    banks = HubnessBanks(VectorBank.quantise(torch.randn(6, 1, 8, generator=torch.Generator().manual_seed(seed))))
    line = LogOddsModel(3.0, -1.0)
    parts: dict[str, Any] = {"cosine_weight": cosine_weight, "short_question": short_question, "short_summand": 0.6}
    calibration = replace(Calibration(text=line, image=line), hubness=hubness, **parts)
    return small_matcher(name, seed).with_calibration(calibration, banks)


def test_copies_of_a_matcher_use_its_kernels(kernels: KernelLibrary) -> None:
    matcher = corrected("scan-t2i-avg", 1)
    matcher.use_kernels(kernels)
    assert matcher.calibration is not None
    calibrated = matcher.with_calibration(replace(matcher.calibration, hubness=None))
    for other in (deepcopy(matcher), calibrated):
        assert other.kernels is kernels
        assert other.score_stored(stored(other), ROWS, other.encode_sentences(SENTENCES)[0]) is not None


def check(matcher: Matcher, kernels: KernelLibrary) -> None:
    records, (texts, _) = stored(matcher), matcher.encode_sentences(SENTENCES)
    expected = matcher.score(matcher.images_from({name: array[ROWS] for name, array in records.items()}), texts)
    assert matcher.score_stored(records, ROWS, texts) is None
    matcher.use_kernels(kernels)
    found = matcher.score_stored(records, ROWS, texts)
    assert found is not None
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    matcher.use_kernels(None)
    assert matcher.score_stored(records, ROWS, texts) is None


@pytest.mark.parametrize("name", ["scan-t2i-lse", "scan-i2t-avg", "bfan-equal", "bfan-prob", "summax-t2i", "caan"])
def test_the_scores_are_those_of_pytorch(name: str, kernels: KernelLibrary) -> None:
    check(small_matcher(name), kernels)


def test_the_hubness_correction_is_taken_off(kernels: KernelLibrary) -> None:
    matcher = corrected("scan-t2i-avg", 1)
    assert HUBNESS in stored(matcher)
    check(matcher, kernels)


@pytest.mark.parametrize("name", ["scan-i2t-avg", "bfan-equal", "bfan-prob", "caan"])
def test_what_is_taken_off_is_told_by_the_kernels(
    name: str, kernels: KernelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher, calls = corrected(name, 1), []
    (images, _), (texts, _) = matcher.encode_regions(pictures()), matcher.encode_sentences(SENTENCES)
    scores_of_tables = KernelLibrary.scores_of_tables

    def counted(*given: Any) -> torch.Tensor:
        calls.append(given)
        return scores_of_tables(*given)

    monkeypatch.setattr(KernelLibrary, "scores_of_tables", counted)
    matcher.use_kernels(kernels)
    (by_kernels, _), (asked, _) = matcher.encode_regions(pictures()), matcher.encode_sentences(SENTENCES)
    assert bool(calls) is (name != "caan")  # which has no kernel that attends to tables
    assert images.offset is not None
    assert images.offset.any()
    torch.testing.assert_close(by_kernels.offset, images.offset, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(asked.offset, texts.offset, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("short_question", [0, 1, 5])  # none of the sentences, one and both are short
@pytest.mark.parametrize("name", ["scan-t2i-avg", "bfan-equal", "caan"])
def test_the_cosine_of_stage_one_is_added(name: str, short_question: int, kernels: KernelLibrary) -> None:
    matcher = corrected(name, 1, cosine_weight=0.8, short_question=short_question)
    assert STAGE_ONE in stored(matcher)
    check(matcher, kernels)
    check(build_ensemble([matcher, corrected(name, 2)]), kernels)


def test_ensembles_score_by_the_kernels_of_their_members(kernels: KernelLibrary) -> None:
    check(build_ensemble([small_matcher("scan-t2i-avg", 1), small_matcher("scan-i2t-avg", 2)]), kernels)
    check(build_ensemble([corrected("scan-t2i-avg", 1), corrected("bfan-equal", 2)]), kernels)


@pytest.mark.parametrize("members", [["camp"], ["camp", "scan-t2i-avg"]])
def test_what_the_kernels_do_not_know_is_left_to_pytorch(members: list[str], kernels: KernelLibrary) -> None:
    made = small_matcher if len(members) == 1 else corrected  # families go together where they are calibrated
    matcher = build_ensemble([made(name, seed) for seed, name in enumerate(members)])
    matcher.use_kernels(kernels)
    texts, _ = matcher.encode_sentences(SENTENCES)
    assert matcher.score_stored(stored(matcher), ROWS, texts) is None


@pytest.mark.parametrize(
    ("num_regions", "num_words", "takes"), [(5, 64, True), (64, 3, True), (5, 65, False), (65, 3, False)]
)
def test_what_has_no_room_on_a_gpu_is_left_to_pytorch(
    monkeypatch: pytest.MonkeyPatch, num_regions: int, num_words: int, takes: bool
) -> None:
    pytest.importorskip("triton")
    launched: list[int] = []

    def launch(form: object, tables: object, places: torch.Tensor, words: Words) -> torch.Tensor:
        launched.append(words.mask.shape[1])
        return torch.zeros(places.shape)

    monkeypatch.setattr(device_library, "score_records", launch)
    for matcher in (small_matcher("bfan-equal"), build_ensemble([small_matcher("scan-t2i-avg", n) for n in (1, 2)])):
        matcher.use_kernels(DeviceKernels(torch.device("cpu"), budget=0))
        launched.clear()
        between = ["red"] * (num_words - 2)  # its beginning and its end are words too
        texts, _ = matcher.encode_sentences([" ".join(between), "white"])
        found = matcher.score_stored(stored(matcher, num_regions), ROWS, texts)
        assert (found is not None) is takes
        assert set(launched) == ({num_words} if takes else set())


def test_double_precision_is_left_to_pytorch(kernels: KernelLibrary) -> None:
    matcher = small_matcher("scan-t2i-avg")
    matcher.use_kernels(kernels)
    texts, _ = matcher.encode_sentences(SENTENCES)
    assert matcher.score_stored(stored(matcher), ROWS, texts.to(dtype=torch.float64)) is None
