"""The report against a slow definition of two-stage search."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.confidence import paired_intervals
from models.evaluation.evaluate import (
    evaluate,
    evaluate_gallery,
    score_all_pairs,
    shortlist_recalls,
)
from models.evaluation.metrics import Recalls, Shortlists, mask_outside_shortlist
from models.evaluation.ranks import Ranks
from models.evaluation.scored_pairs import ScoredPairs
from models.matching.checkpoint import new_matcher
from models.matching.ensemble import build_ensemble
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.small_matchers import fused_but_for_short_questions

WORDS = ("a", "dog", "runs", "on", "grass", "red", "blue", "sky")


def small_matcher(name: str = "scan-t2i-avg", seed: int = 3) -> SingleMatcher:
    torch.manual_seed(seed)
    encoders = EncoderConfig(num_words=12, feature_dim=6, word_dim=5, width=8)
    vocabulary = Vocabulary((*SPECIALS, *WORDS))
    return new_matcher(name, encoders, StageOneConfig(width=8, embed_dim=4), vocabulary, "x").eval()


def pictures(num: int) -> CaptionedFeatures:
    random = np.random.default_rng(5)
    features = random.normal(size=(num, 3, 6)).astype(np.float16)
    captions = [[" ".join(random.choice(WORDS, 4)) for _ in range(2)] for _ in range(num)]
    return CaptionedFeatures.from_arrays(features, np.ones((num, 3), bool), captions, "x")


def test_a_shortlist_keeps_the_best_of_stage_one_alone() -> None:
    scores, stage_one = torch.arange(8.0).view(2, 4), torch.tensor([[4.0, 3, 2, 1], [1, 2, 3, 4]])
    kept = mask_outside_shortlist(scores, stage_one, 2)
    assert kept.tolist() == [[0, 1, -np.inf, -np.inf], [-np.inf, -np.inf, 6, 7]]


def test_a_tie_of_stage_one_counts_against_the_model() -> None:
    scores, image_of = torch.eye(6), torch.arange(6)
    for stage_one, expected in ((torch.zeros(6, 6), 0.0), (torch.eye(6), 100.0)):
        found = Ranks.of(ScoredPairs(scores, image_of), Shortlists(stage_one, 3)).report()
        assert [found[way]["r1"] for way in ("text_to_image", "image_to_text")] == [expected, expected]


def test_two_stages_equal_a_search_one_query_at_a_time() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(20, 10, generator=generator)
    stage_one = scores + torch.randn(20, 10, generator=generator)
    image_of = torch.arange(10).repeat_interleave(2)
    found = Ranks.of(ScoredPairs(scores, image_of), Shortlists(stage_one, 3)).report()
    kept = shortlist_recalls(ScoredPairs(scores, image_of), ScoredPairs(stage_one, image_of), [3])
    positions, within, of_best = [], 0, []
    for q in range(20):
        shortlist = sorted(range(10), key=lambda k: -stage_one[q, k].item())[:3]
        within += image_of[q].item() in shortlist
        order = sorted(shortlist, key=lambda k: -scores[q, k].item())
        positions.append(order.index(int(image_of[q])) if image_of[q].item() in order else 9)
    for k in range(10):
        best = sorted(range(20), key=lambda q: -scores[q, k].item())[:10]
        shortlist = sorted(range(20), key=lambda q: -stage_one[q, k].item())[:3]
        of_best.append(len(set(best) & set(shortlist)) / 10)
    assert kept["shortlist_recall"]["3"]["text_to_image"] == pytest.approx(100 * within / 20)
    assert kept["top10_kept"]["3"]["text_to_image"] == pytest.approx(30)  # three of all ten pictures
    assert kept["top10_kept"]["3"]["image_to_text"] == pytest.approx(100 * np.mean(of_best))
    assert found["text_to_image"] == Recalls.of(np.array(positions)).as_dict()


def test_what_a_shortlist_keeps_for_a_picture_goes_by_the_scores_for_pictures() -> None:
    scores, for_pictures, stage_one = torch.randn(3, 40, 20, generator=torch.Generator().manual_seed(0))
    image_of = torch.arange(20).repeat_interleave(2)
    both = ScoredPairs(scores, image_of, for_pictures)
    by_stage_one = ScoredPairs(stage_one, image_of)
    kept = shortlist_recalls(both, by_stage_one, [8])["top10_kept"]["8"]
    of_text, of_images = (
        shortlist_recalls(ScoredPairs(one, image_of), by_stage_one, [8])["top10_kept"]["8"]
        for one in (scores, for_pictures)
    )
    assert of_text["image_to_text"] != of_images["image_to_text"]
    assert kept == {"text_to_image": of_text["text_to_image"], "image_to_text": of_images["image_to_text"]}


def test_a_shortlist_of_everything_changes_nothing() -> None:
    report = evaluate(small_matcher(), pictures(12), shortlists=(5, 12, 50)).report
    assert list(report["two_stage"]) == ["5", "12"]
    assert report["shortlist_recall"]["12"]["text_to_image"] == 100
    assert report["top10_kept"]["12"]["text_to_image"] == 100 > report["top10_kept"]["5"]["text_to_image"]
    assert report["two_stage"]["12"]["text_to_image"] == report["exhaustive"]["text_to_image"]
    low, high = report["two_stage"]["12"]["interval"]["rsum"]
    assert low <= report["exhaustive"]["rsum"] <= high
    assert (report["images"], report["captions"]) == (12, 24)


@torch.no_grad()
def test_every_caption_is_scored_with_every_picture() -> None:
    matcher, data = small_matcher(), pictures(7)
    scores, stage_one = score_all_pairs(matcher, data, batch=3)
    images, image_embeddings = matcher.encode_regions(data.regions(slice(None)))
    texts, embeddings = matcher.encode_sentences(data.sentences()[0])
    assert scores.for_pictures is None
    torch.testing.assert_close(scores.scores, matcher.score(images, texts))
    torch.testing.assert_close(stage_one.scores, embeddings @ image_embeddings.T)
    assert torch.equal(scores.image_of, data.sentences()[1])


@torch.no_grad()
def test_captions_are_scored_as_questions_and_as_answers() -> None:
    matcher = fused_but_for_short_questions("scan-t2i-avg", 2)
    vectors = np.random.default_rng(0).standard_normal((5, 3, matcher.feature_dim)).astype(np.float16)
    captions = [["red"], ["a red wall", "blue"], ["green black"], ["a b c d"], ["white white white", "red"]]
    data = CaptionedFeatures.from_arrays(vectors, np.ones((5, 3), bool), captions, "x")
    scores, _ = score_all_pairs(matcher, data, batch=2, held=3)
    images, _ = matcher.encode_regions(data.regions(slice(None)))
    texts, _ = matcher.encode_sentences(data.sentences()[0])
    torch.testing.assert_close(scores.of("text"), matcher.score(images, texts))
    answers = matcher.texts_from(texts.words, asked=False)
    torch.testing.assert_close(scores.of("image"), matcher.score(images, answers))
    short = torch.tensor([len(text.split()) <= 2 for text in data.sentences()[0]])
    assert torch.equal(scores.of("text")[~short], scores.of("image")[~short])
    assert not torch.isclose(scores.of("text")[short], scores.of("image")[short]).any()


def test_the_number_of_pictures_held_at_once_changes_no_score() -> None:
    matcher, data = small_matcher(), pictures(7)
    whole, parts = score_all_pairs(matcher, data), score_all_pairs(matcher, data, batch=2, held=3)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one.scores, other.scores)


def test_pictures_without_captions_are_searched_too() -> None:
    matcher, data = small_matcher(), pictures(12)
    some_captioned = replace(data, captions=[*data.captions[:4], *([()] * 8)])
    report = evaluate_gallery(matcher, some_captioned, shortlists=(5, 12)).report
    image_of = torch.arange(4).repeat_interleave(2)
    scores, stage_one = (ScoredPairs(pairs.scores[:8], image_of) for pairs in score_all_pairs(matcher, data))
    assert (report["images"], report["captions"]) == (12, 8)
    assert report["exhaustive"] == Ranks.of(scores, directions=("text_to_image",)).report()
    assert list(report["two_stage"]["5"]) == ["text_to_image", "interval"]
    kept = shortlist_recalls(scores, stage_one, (5, 12), ("text_to_image",))
    assert {name: report[name] for name in kept} == kept
    assert evaluate_gallery(matcher, some_captioned.first_captions(3), shortlists=()).report["captions"] == 3
    with pytest.raises(ValueError, match="no picture has a caption"):
        evaluate_gallery(matcher, some_captioned.first_captions(0))


def test_an_ensemble_scores_the_mean_of_its_members() -> None:
    members, data = [small_matcher(seed=1), small_matcher("scan-i2t-avg", seed=2)], pictures(7)
    scores = score_all_pairs(build_ensemble(members), data)[0].scores
    each = [score_all_pairs(member, data)[0].scores for member in members]
    torch.testing.assert_close(scores, torch.stack(each).mean(0))


def test_folds_are_evaluated_apart_and_averaged() -> None:
    scores = torch.randn(30, 15, generator=torch.Generator().manual_seed(1))
    image_of = torch.arange(15).repeat_interleave(2)
    found = Ranks.in_folds(ScoredPairs(scores, image_of)).report()
    parts = [scores[6 * fold : 6 * fold + 6, 3 * fold : 3 * fold + 3] for fold in range(5)]
    alone = [Ranks.of(ScoredPairs(part, torch.arange(3).repeat_interleave(2))).report() for part in parts]
    assert found["rsum"] == pytest.approx(sum(report["rsum"] for report in alone) / 5)
    for direction in ("text_to_image", "image_to_text"):
        for measure in ("r1", "r5", "r10", "median_rank"):
            mean = sum(report[direction][measure] for report in alone) / 5
            assert found[direction][measure] == pytest.approx(mean)
    low, high = found["interval"]["rsum"]
    assert low < found["rsum"] < high


def test_folds_of_two_models_are_compared_question_by_question() -> None:
    scores = torch.randn(2, 80, 40, generator=torch.Generator().manual_seed(1))
    image_of = torch.arange(40).repeat_interleave(2)
    searches = [Ranks.in_folds(ScoredPairs(own, image_of)) for own in scores]
    for own, found in zip(scores, searches, strict=True):
        for question in range(80):
            fold = 8 * (question // 16)
            among = own[question, fold : fold + 8]
            assert found.by_direction["text_to_image"][question] == (among > among[question // 2 - fold]).sum()
        for picture in range(40):
            fold = 16 * (picture // 8)
            best = own[2 * picture : 2 * picture + 2, picture].max()
            assert found.by_direction["image_to_text"][picture] == (own[fold : fold + 16, picture] > best).sum()
    one, other = searches
    difference = one.minus(other)
    assert difference["rsum"] == pytest.approx(one.recalls()["rsum"] - other.recalls()["rsum"])
    picture_of = {"text_to_image": image_of.numpy(), "image_to_text": np.arange(40)}
    assert difference["interval"] == paired_intervals(one.by_direction, other.by_direction, picture_of, 5)


def test_five_folds_are_reported_beside_the_whole() -> None:
    report = evaluate(small_matcher(), pictures(10), shortlists=(5,), fold5=True).report
    assert report["fold5"]["rsum"] >= report["exhaustive"]["rsum"]
    assert "fold5" not in evaluate(small_matcher(), pictures(10), shortlists=(5,)).report
    with pytest.raises(ValueError, match="12 pictures do not make 5 equal folds"):
        evaluate(small_matcher(), pictures(12), shortlists=(5,), fold5=True)


def test_a_reranker_stands_beside_its_own_stage_one() -> None:
    report = evaluate(small_matcher(), pictures(12), shortlists=(5,)).report
    difference = report["difference"]
    assert difference["rsum"] == pytest.approx(report["exhaustive"]["rsum"] - report["stage_one"]["rsum"])
    assert difference["image_to_text"]["r5"] == pytest.approx(
        report["exhaustive"]["image_to_text"]["r5"] - report["stage_one"]["image_to_text"]["r5"]
    )
    low, high = difference["interval"]["rsum"]
    assert low <= difference["rsum"] <= high


def test_each_half_is_a_gallery_of_its_own() -> None:
    matcher, data = small_matcher(), pictures(13)
    halves = evaluate(matcher, data, shortlists=(), halves=True).report["halves"]
    assert "halves" not in evaluate(matcher, data, shortlists=()).report
    for name, chosen in (("first", slice(0, 6)), ("second", slice(6, 13))):
        alone = evaluate(matcher, data.pictures(chosen), shortlists=()).report
        assert (halves[name]["images"], halves[name]["captions"]) == (alone["images"], alone["captions"])
        for search in ("exhaustive", "stage_one", "difference"):
            assert halves[name][search] == alone[search]


def test_features_of_another_width_and_pictures_without_captions_are_refused() -> None:
    wide = np.ones((2, 3, 7), np.float16)
    with pytest.raises(ValueError, match="reads features of 6 numbers, these have 7"):
        evaluate(small_matcher(), CaptionedFeatures.from_arrays(wide, np.ones((2, 3), bool), [["a dog"]] * 2, "x"))
    without_caption = replace(pictures(2), captions=[["a dog"], []])
    with pytest.raises(ValueError, match="needs a caption"):
        evaluate(small_matcher(), without_caption)
