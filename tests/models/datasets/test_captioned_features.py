"""Captioned pictures as arrays."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import CaptionLine
from models.datasets.feature_store import ExtractedFeatures


def pictures(counts: list[int]) -> CaptionedFeatures:
    captions = [[f"picture {row} caption {turn}" for turn in range(count)] for row, count in enumerate(counts)]
    return CaptionedFeatures.from_arrays(
        np.zeros((len(counts), 2, 3), np.float16), np.ones((len(counts), 2), bool), captions, "d"
    )


def test_an_epoch_shows_every_caption_once_and_no_picture_twice_in_a_batch() -> None:
    data = pictures([5, 5, 3, 5, 3, 5])
    seen: list[str] = []
    for rows, sentences in data.batches(size=2, seed=4):
        assert len(set(rows.tolist())) == len(rows) == len(sentences)
        assert all(text.startswith(f"picture {row} ") for row, text in zip(rows, sentences, strict=True))
        seen += sentences
    assert sorted(seen) == sorted(text for texts in data.captions for text in texts)


def test_batches_repeat_with_the_seed_and_differ_between_seeds() -> None:
    data = pictures([5] * 8)
    drawn = [(1, 0), (1, 1), (2, 0), (2, 1)]
    orders = [[texts for _, texts in data.batches(4, seed, epoch)] for seed, epoch in drawn]
    assert orders == [[texts for _, texts in data.batches(4, seed, epoch)] for seed, epoch in drawn]
    assert all(one != other for one, other in combinations(orders, 2))


def test_a_batch_larger_than_the_data_is_the_data() -> None:
    assert [len(rows) for rows, _ in pictures([2, 2, 2]).batches(size=128, seed=0)] == [3, 3]


def test_no_batch_is_of_one_picture() -> None:
    assert [len(rows) for rows, _ in pictures([2, 2, 3, 0]).batches(size=2, seed=0)] == [2, 2]
    for counts in ([3], [4, 0], []):
        with pytest.raises(ValueError, match="two pictures with captions"):
            next(pictures(counts).batches(size=2, seed=0))


def test_sentences_know_their_picture() -> None:
    sentences, image_of = pictures([2, 1]).sentences()
    assert sentences == ["picture 0 caption 0", "picture 0 caption 1", "picture 1 caption 0"]
    assert image_of.tolist() == [0, 0, 1]


def test_the_first_captions_are_those_of_the_first_pictures() -> None:
    data = pictures([2, 0, 3, 1])
    assert data.first_captions(3).sentences()[0] == data.sentences()[0][:3]
    assert len(data.first_captions(3)) == 4
    assert data.first_captions(9).captions == data.captions


def test_the_first_regions_are_kept_under_another_name() -> None:
    features = np.arange(24, dtype=np.float16).reshape(2, 4, 3)
    mask = np.array([[True, True, False, False], [True] * 4])
    data = CaptionedFeatures.from_arrays(features, mask, [["a"], ["b"]], "d")
    fewer = data.first_regions(3)
    assert np.array_equal(fewer.regions([1]).vectors, features[1:, :3])
    assert fewer.regions([0]).mask.tolist() == [[True, True, False]]
    assert fewer.extractor_digest == "d-first-3"
    for count in (0, 5):
        with pytest.raises(ValueError, match=f"have 4 regions, of which {count} cannot"):
            data.first_regions(count)


def test_regions_are_copied_once_and_are_their_own() -> None:
    features = np.ones((64, 8, 512), np.float32)
    data = CaptionedFeatures.from_arrays(features, np.ones((64, 8), bool), [["a"]] * 64, "x")
    tracemalloc.start()
    try:
        regions = data.regions(slice(None))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * features.nbytes
    regions.vectors.zero_()
    assert features.all()


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in number"):
        CaptionedFeatures.from_arrays(np.zeros((2, 1, 1)), np.ones((2, 1), bool), [["a"]], "d")


def test_lines_find_their_rows_among_extracted_pictures() -> None:
    arrays = np.arange(24, dtype=np.float16).reshape(4, 2, 3)
    extracted = ExtractedFeatures(
        arrays,
        np.zeros((4, 2, 4), np.float32),
        np.zeros((4, 2), np.int16),
        np.ones((4, 2), np.float32),
        np.ones((4, 2), bool),
        ids=("a.jpg", "b.jpg", "c.jpg", "d.jpg"),
        digest="d",
    )
    joined = CaptionedFeatures.join(extracted, [CaptionLine("d.jpg", ("one",)), CaptionLine("b.jpg", ("two", "three"))])
    assert np.array_equal(joined.regions([0, 1]).vectors.numpy(), arrays[[3, 1]])
    assert joined.first(1).sentences()[0] == ["one"]
    other, known = CaptionLine("x/b.jpg", ("one",)), CaptionLine("b.jpg", ("two",))
    with pytest.raises(ValueError, match=r"1 captioned pictures were not extracted, the first is x/b\.jpg"):
        CaptionedFeatures.join(extracted, [known, other])
    with pytest.raises(ValueError, match=r"none of the 1 .* name them like x/b\.jpg, the features like a\.jpg"):
        CaptionedFeatures.join(extracted, [other])
