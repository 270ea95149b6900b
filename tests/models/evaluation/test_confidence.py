"""Intervals of recalls: against a bootstrap in loops, and that captions of one picture count as one observation."""

import tracemalloc

import numpy as np
import pytest

from models.evaluation.confidence import NUM_RESAMPLES, bootstrap_intervals, paired_intervals, resample_counts
from models.evaluation.metrics import Recalls, rsum


def picture_of_captions(pictures: int, captions: int = 5) -> np.ndarray:
    """The picture that each caption is about."""
    return np.arange(pictures).repeat(captions)


def test_intervals_are_percentiles_of_recalls_over_resampled_pictures() -> None:
    random = np.random.default_rng(1)
    picture_of = np.sort(random.integers(0, 20, 70))  # some picture has no caption, others many
    ranks = {"text_to_image": random.geometric(0.2, 70) - 1, "image_to_text": random.geometric(0.1, 20) - 1}
    intervals = bootstrap_intervals(ranks, {"text_to_image": picture_of, "image_to_text": np.arange(20)})
    with_captions = np.unique(picture_of)
    recalls = []
    for counts in resample_counts(len(with_captions)):
        resample = np.repeat(with_captions, counts.astype(int))
        recalls.append(Recalls.of(np.concatenate([ranks["text_to_image"][picture_of == one] for one in resample])).r5)
    assert intervals["text_to_image"]["r5"] == pytest.approx(np.percentile(recalls, [2.5, 97.5]))
    for direction, each in ranks.items():
        found = Recalls.of(each)
        for name, (low, high) in intervals[direction].items():
            assert low <= getattr(found, name) <= high


def test_every_resample_has_as_many_pictures_and_all_reports_have_the_same_resamples() -> None:
    assert resample_counts(30).shape == (NUM_RESAMPLES, 30)
    assert (resample_counts(30).sum(1) == 30).all()
    ranks, of = {"text_to_image": np.arange(50) % 12}, {"text_to_image": picture_of_captions(10)}
    assert bootstrap_intervals(ranks, of) == bootstrap_intervals(ranks, of)


def test_captions_that_succeed_or_fail_together_give_wider_intervals() -> None:
    random = np.random.default_rng(2)
    together = np.where(random.random(200) < 0.5, 0, 99).repeat(5)
    apart = np.where(random.random(1000) < 0.5, 0, 99)
    widths = []
    for ranks in (together, apart):
        low, high = bootstrap_intervals({"text_to_image": ranks}, {"text_to_image": picture_of_captions(200)})[
            "text_to_image"
        ]["r1"]
        widths.append(high - low)
    assert widths[0] > 1.8 * widths[1]  # the square root of five times as wide


def test_the_sum_has_an_interval_where_there_are_both_directions() -> None:
    both = {"text_to_image": np.zeros(50, int), "image_to_text": np.full(10, 7)}
    of = {"text_to_image": picture_of_captions(10), "image_to_text": np.arange(10)}
    assert bootstrap_intervals(both, of)["rsum"] == [400, 400]
    assert "rsum" not in bootstrap_intervals({"text_to_image": both["text_to_image"]}, of)


def test_differences_are_those_on_the_same_resampled_pictures() -> None:
    random = np.random.default_rng(3)
    picture_of = {"text_to_image": picture_of_captions(30, 2), "image_to_text": np.arange(30)}
    ranks = {"text_to_image": random.geometric(0.2, 60) - 1, "image_to_text": random.geometric(0.2, 30) - 1}
    others = {"text_to_image": random.geometric(0.1, 60) - 1, "image_to_text": random.geometric(0.1, 30) - 1}
    found = paired_intervals(ranks, others, picture_of)
    r10, rsums = [], []
    for counts in resample_counts(30):
        resample = np.repeat(np.arange(30), counts.astype(int))
        captions = np.concatenate([np.flatnonzero(picture_of["text_to_image"] == one) for one in resample])
        chosen = {"text_to_image": captions, "image_to_text": resample}
        one, other = ({way: Recalls.of(both[way][rows]) for way, rows in chosen.items()} for both in (ranks, others))
        r10.append(one["text_to_image"].r10 - other["text_to_image"].r10)
        rsums.append(rsum(*one.values()) - rsum(*other.values()))
    assert found["text_to_image"]["r10"] == pytest.approx(np.percentile(r10, [2.5, 97.5]))
    assert found["rsum"] == pytest.approx(np.percentile(rsums, [2.5, 97.5]))
    assert paired_intervals(ranks, ranks, picture_of)["rsum"] == [0, 0]


def test_pictures_are_resampled_inside_their_folds() -> None:
    random = np.random.default_rng(4)
    picture_of = np.sort(np.concatenate([np.arange(20), random.integers(0, 20, 50)]))
    ranks, others = random.geometric(0.2, 70) - 1, random.geometric(0.1, 70) - 1
    means, differences = [], []
    for resample in range(NUM_RESAMPLES):
        recalls = []
        for fold in range(5):
            counts = resample_counts(4, fold)[resample].astype(int)
            drawn = np.repeat(np.arange(4 * fold, 4 * fold + 4), counts)
            captions = np.concatenate([np.flatnonzero(picture_of == one) for one in drawn])
            recalls.append([Recalls.of(own[captions]).r5 for own in (ranks, others)])
        means.append(np.mean(recalls, 0)[0])
        differences.append(np.mean(recalls, 0) @ [1, -1])
    way, of = "text_to_image", {"text_to_image": picture_of}
    found = bootstrap_intervals({way: ranks}, of, 5)[way]["r5"]
    assert found == pytest.approx(np.percentile(means, [2.5, 97.5]))
    paired = paired_intervals({way: ranks}, {way: others}, of, 5)[way]["r5"]
    assert paired == pytest.approx(np.percentile(differences, [2.5, 97.5]))
    drawn_apart = [resample_counts(4, fold) for fold in range(5)]
    assert not any((drawn_apart[0] == others).all() for others in drawn_apart[1:])


def test_resamples_of_many_sizes_are_not_all_kept_and_stay_the_same() -> None:
    drawn = np.random.default_rng(0).multinomial(30, np.full(30, 1 / 30), NUM_RESAMPLES).astype(float)
    tracemalloc.start()
    try:
        for num in range(301, 331):
            resample_counts(num)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10 * 330 * NUM_RESAMPLES  # eight of them, a byte each
    assert np.array_equal(resample_counts(30), drawn)
    assert resample_counts(30).dtype == np.float64
