"""Vectors learnt from captions: the formula in plain loops, files, and words that stand in the same places."""

import json
import math
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from models.training.caption_word_vectors import associations, captions_in, learn, nearest

CAPTIONS = [f"a {animal} {verb} on the {place}" for animal in ("dog", "puppy", "cat") for verb in ("runs", "sleeps")
            for place in ("grass", "sofa")] * 2 + ["red kites fly high above tall trees"] * 2  # fmt: skip


def test_associations_are_the_formula() -> None:
    sentences = [["a", "dog", "on", "a", "sofa"], ["dog", "a", "?", "dog", "x", "y", "z", "sofa"]]
    words = ["a", "dog", "on", "sofa"]
    counts: dict[tuple[str, str], float] = defaultdict(float)
    for sentence in sentences:
        for i, first in enumerate(sentence):
            for j, second in enumerate(sentence):
                if i != j and abs(i - j) <= 5 and first in words and second in words:
                    counts[first, second] += (6 - abs(i - j)) / 5
    total = {word: sum(n for (first, _), n in counts.items() if first == word) for word in words}
    smooth = sum(n**0.75 for n in total.values())
    found = associations(sentences, words).to_dense()
    for i, first in enumerate(words):
        for j, second in enumerate(words):
            n = counts[first, second]
            expected = max(0.0, math.log(n * smooth / (total[first] * total[second] ** 0.75))) if n else 0.0
            assert found[i, j].item() == pytest.approx(expected, abs=1e-5)


def test_words_in_the_same_places_are_near_each_other_and_the_same_every_time() -> None:
    vectors, parts = learn(CAPTIONS, dim=6)
    again, _ = learn(CAPTIONS, dim=6)
    assert torch.equal(vectors.vectors, again.vectors)
    torch.testing.assert_close(vectors.vectors.norm(dim=1), torch.ones(len(vectors.words)))
    assert nearest(vectors, parts, "dog", 1)[0][0] in ("puppy", "cat")
    assert nearest(vectors, parts, "kite", 1)[0][0] == "kites"  # which the captions do not hold


def test_more_numbers_than_words_are_refused() -> None:
    with pytest.raises(ValueError, match="as many words"):
        learn(CAPTIONS, dim=100)


def test_captions_are_read_from_lines_of_a_split_from_coco_and_from_text(tmp_path: Path) -> None:
    lines = [{"image": "1", "captions": ["one", "two"], "split": "train"}, {"image": "2", "captions": ["three"]},
             {"image": "3", "captions": ["four"], "split": "test"}]  # fmt: skip
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "c.json").write_text(json.dumps({"annotations": [{"caption": "one"}, {"caption": "two"}]}))
    (tmp_path / "c.txt").write_text("one\n\ntwo\n")
    assert captions_in(tmp_path / "c.jsonl") == ["one", "two", "three"]
    assert captions_in(tmp_path / "c.json") == captions_in(tmp_path / "c.txt") == ["one", "two"]
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(ValueError, match="annotations"):
        captions_in(tmp_path / "bad.json")
