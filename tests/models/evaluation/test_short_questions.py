"""Short questions against plain loops over ranked pictures."""

import numpy as np
import pytest
import torch

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.coco_boxes import BoxedPictures, PictureObjects
from models.evaluation.class_names import TEMPLATES, from_template
from models.evaluation.short_questions import assess_class_search, measure_short_questions
from models.text.request_words import subject_of
from tests.support.small_matchers import small_matcher

WORDS = ("dog", "dogs", "cup", "cups", "photo", "there")


def boxed_pictures(count: int = 12) -> tuple[CaptionedFeatures, BoxedPictures]:
    random = np.random.default_rng(4)
    features = random.normal(size=(count, 3, 16)).astype(np.float16)
    shown = [{name for name, every in (("dog", 2), ("cup", 3), ("kite", 6)) if k % every == 0} for k in range(count)]
    objects = [PictureObjects(f"{k}.jpg", {}, frozenset(own)) for k, own in enumerate(shown)]
    data = CaptionedFeatures.from_arrays(features, np.ones((count, 3), bool), [()] * count, "fake-extractor")
    return data, BoxedPictures(objects, ["kite", "cup", "dog"])


def test_measures_are_those_of_a_loop_over_ranked_pictures() -> None:
    random = np.random.default_rng(6)
    scores, right = random.normal(size=(4, 20)), random.random((4, 20)) < 0.3
    right[3] = False
    right[3, scores[3].argmin()] = True
    found = assess_class_search(scores, right, ["a", "b", "c", "d"])
    shares, firsts, precisions = [], [], []
    for own, wanted in zip(scores, right, strict=True):
        ranked = sorted(range(20), key=lambda k: -own[k])
        shares.append(sum(wanted[k] for k in ranked[:5]) / min(5, wanted.sum()))
        firsts.append(wanted[ranked[0]])
        at = [n for n, k in enumerate(ranked, 1) if wanted[k]]
        precisions.append(np.mean([number / rank for number, rank in enumerate(at, 1)]))
    assert found["hits_of_possible"] == pytest.approx(np.mean(shares))
    assert found["first_right"] == pytest.approx(np.mean(firsts))
    assert found["mean_average_precision"] == pytest.approx(np.mean(precisions))
    assert "d" in found["without_hit"]
    for name, (low, high) in found["interval"].items():
        assert low <= found[name] <= high


def test_who_gives_every_picture_the_same_score_finds_none() -> None:
    right = np.arange(20)[None] < 3
    for scores in (np.zeros((1, 20)), np.full((1, 20), np.nan)):
        found = assess_class_search(scores, right, ["a"])
        assert (found["first_right"], found["hits_of_possible"], found["without_hit"]) == (0.0, 0.0, ["a"])


@torch.no_grad()
def test_every_template_asks_for_every_class_that_enough_pictures_show() -> None:
    matcher = small_matcher("scan-t2i-avg", words=WORDS)
    data, objects = boxed_pictures()
    found = measure_short_questions(matcher, data, objects)
    assert found["classes"] == {"cup": 4, "dog": 6}
    assert list(found["templates"]) == list(TEMPLATES)
    assert measure_short_questions(matcher, data, objects, least=2)["classes"]["kite"] == 2
    images, image_embeddings = matcher.encode_regions(data.regions(slice(None)))
    right = np.array([[name in picture.shown for picture in objects.pictures] for name in ("cup", "dog")])
    for template in TEMPLATES:
        texts, embeddings = matcher.encode_sentences(
            [subject_of(from_template(template, name)) for name in ("cup", "dog")]
        )
        alone = assess_class_search(matcher.score(images, texts).double().numpy(), right, ["cup", "dog"])
        stage_one = assess_class_search((embeddings @ image_embeddings.T).double().numpy(), right, ["cup", "dog"])
        assert found["templates"][template] == {"exhaustive": alone, "stage_one": stage_one}
    with pytest.raises(ValueError, match="7 pictures or more"):
        measure_short_questions(matcher, data, objects, least=7)
