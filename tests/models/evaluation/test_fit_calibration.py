"""A calibration is fitted on captioned pictures, assessed on others, kept beside the weights and used from then on."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.scan_precomp import PUBLISHED_FEATURES
from models.evaluation.calibration_report import rsum_of
from models.evaluation.evaluate import score_all_pairs
from models.evaluation.fit_calibration import CalibrationPlan, best_cosine_weight, calibrate, fuse, with_short_questions
from models.evaluation.fit_hubness import HubnessPlan, ratio_of_spreads
from models.evaluation.ranks import Ranks
from models.evaluation.scored_pairs import (
    Direction,
    ScoredPairs,
    answers_with_and_without,
    best_answers,
    deal_galleries,
)
from models.matching.calibration import Calibration, brier_skill_score, expected_calibration_error
from models.matching.checkpoint import BadCheckpoint, load_matcher, load_uncalibrated, save_calibration, save_matcher
from models.matching.log_odds import LogOddsModel, Uncalibratable, prior_log_odds
from models.matching.single_matcher import SingleMatcher
from tests.support.cli_runner import Regard
from tests.support.fakes import COLOURS
from tests.support.small_matchers import small_matcher, small_weights

HUBNESS = HubnessPlan(neighbours=3, bank_size=8)
PLAN = CalibrationPlan(hubness=HUBNESS)


def captioned_features(matcher: SingleMatcher, count: int = 120, noise: float = 0.2) -> CaptionedFeatures:
    """Pictures whose regions look, to this untrained matcher, much like the words of their captions."""
    random = np.random.default_rng(5)
    captions = [[" ".join(random.choice(list(COLOURS), 4)) for _ in range(2)] for _ in range(count)]
    bias, weight = (matcher.reranker.get_parameter(f"region_encoder.fc.{name}").detach() for name in ("bias", "weight"))
    words = torch.cat([matcher.encode_sentences(pair)[0].vectors.reshape(1, 12, 8) for pair in captions])
    vectors = words + noise * torch.randn(words.shape, generator=torch.Generator().manual_seed(1))
    features = (vectors - bias) @ torch.linalg.pinv(weight).T
    return CaptionedFeatures.from_arrays(
        features.half().numpy(), np.ones((count, 12), bool), captions, "fake-extractor"
    )


def test_answers_are_the_best_of_each_question_in_a_gallery() -> None:
    image_of = torch.tensor([0, 0, 1, 2, 2, 2])
    whole = ScoredPairs(torch.randn(6, 3, generator=torch.Generator().manual_seed(3)), image_of)
    pairs = whole.among(torch.tensor([2, 0]))
    assert pairs.image_of.tolist() == [1, 1, 0, 0, 0]
    found = best_answers(pairs, "text")
    expected = [(float(whole.scores[q, k]), int(image_of[q]) == k) for q in (0, 1, 3, 4, 5) for k in (0, 2)]
    assert sorted(zip(found.scores.tolist(), found.correct.tolist(), strict=True)) == sorted(expected)
    assert set(found.prior_log_odds) == {0.0}  # two pictures, one of them right
    of_pictures = best_answers(pairs, "image")
    assert sorted(of_pictures.scores) == pytest.approx(sorted(score for score, _ in expected))
    assert of_pictures.correct.sum() == 5


def test_a_picture_with_five_captions_has_five_right_answers_beforehand() -> None:
    image_of = torch.arange(4).repeat_interleave(5)
    pairs = ScoredPairs(torch.randn(20, 4, generator=torch.Generator().manual_seed(3)), image_of)
    assert set(best_answers(pairs, "image").prior_log_odds) == {prior_log_odds(20, 5.0)}
    assert set(best_answers(pairs, "text").prior_log_odds) == {prior_log_odds(4, 1.0)}


@pytest.mark.parametrize("direction", ["text", "image"])
def test_without_its_answers_a_question_gets_the_best_of_the_others(direction: Direction) -> None:
    image_of = torch.tensor([0, 0, 1, 2, 2, 2])
    pairs = ScoredPairs(torch.randn(6, 3, generator=torch.Generator().manual_seed(3)), image_of)
    found = answers_with_and_without(pairs, direction)
    table = pairs.scores if direction == "text" else pairs.scores.T
    own = (image_of[:, None] == torch.arange(3)) if direction == "text" else (torch.arange(3)[:, None] == image_of)
    firsts = [float(row.max()) for row in table]
    others = [float(row[~right].max()) for row, right in zip(table, own, strict=True)]
    assert found.scores.tolist() == pytest.approx(firsts + others)
    assert found.correct.tolist() == [True] * len(firsts) + [False] * len(others)
    assert found.prior_log_odds[0] == found.prior_log_odds[-1]  # a gallery of the same size


def test_galleries_share_no_picture() -> None:
    dealt = deal_galleries(torch.arange(100, 205), 20, seed=1)
    assert [len(gallery) for gallery in dealt] == [20] * 5
    assert len(set(torch.cat(dealt).tolist())) == 100
    assert min(torch.cat(dealt).tolist()) >= 100


def test_halves_share_no_picture_and_too_few_are_refused() -> None:
    own, others = CalibrationPlan(held_out=0.4).split(200)
    assert (len(own), len(others)) == (120, 80)
    assert sorted([*own.tolist(), *others.tolist()]) == list(range(200))
    with pytest.raises(ValueError, match="to judge by"):
        CalibrationPlan(held_out=0.1).split(200)


@pytest.mark.parametrize("plan", [PLAN, CalibrationPlan(hubness=HubnessPlan(share=0.0))])
def test_a_calibration_is_served_as_it_was_assessed(plan: CalibrationPlan, tmp_path: Path) -> None:
    folder, made = tmp_path / "model", small_matcher("scan-t2i-avg")
    with torch.no_grad():
        made.reranker.get_parameter("sentence_encoder.embed.weight").mul_(40)  # words as different as after a training
    save_matcher(made, folder)
    plain = load_uncalibrated(folder)
    data = captioned_features(plain)
    sentences = [" ".join(pair) for pair in zip(COLOURS, [*COLOURS][::-1], strict=True)]
    calibration, banks, report = calibrate(plain, data, sentences, plan)
    json.dumps(report)
    digest = save_calibration(folder, calibration, banks)
    served = load_matcher(folder)
    assert served.calibration == calibration
    assert plain.calibration is None
    assert digest == served.digest != plain.digest
    _, others = plan.split(len(data))
    pairs = score_all_pairs(served, data)[0]
    assert Ranks.of(pairs.among(others)).report()["rsum"] == pytest.approx(report["rsum"]["held_out"]["as_served"])
    answers = best_answers(pairs.among(others), "text")
    predicted = calibration.text.probability(answers.scores, answers.margins, answers.prior_log_odds)
    judged = report["held_out"]["text"][str(len(others))]
    assert judged["answers"] == len(predicted)
    assert judged["error"] < 0.1
    first = predicted.reshape(-1, 10)[:, 0], answers.correct.reshape(-1, 10)[:, 0]
    assert judged["first"]["answers"] == len(first[0]) == len(predicted) / 10
    assert judged["first"]["error"] == pytest.approx(expected_calibration_error(*first))
    assert judged["first"]["brier_skill"] == pytest.approx(brier_skill_score(*first))
    assert predicted[answers.correct].mean() > 1.5 * predicted[~answers.correct].mean()


def test_the_command_writes_a_calibration_and_reports_how_good_it_is(regard: Regard, tmp_path: Path) -> None:
    folder, data = tmp_path / "model", tmp_path / "data"
    data.mkdir()
    made = small_matcher("scan-t2i-avg", extractor=PUBLISHED_FEATURES)
    with torch.no_grad():
        made.reranker.get_parameter("sentence_encoder.embed.weight").mul_(40)
    save_matcher(made, folder)
    pictures = captioned_features(load_uncalibrated(folder))
    np.save(data / "dev_ims.npy", pictures.features)
    (data / "dev_caps.txt").write_text("".join(f"{captions[0]}\n" for captions in pictures.captions))
    fixed = ["calibrate", folder, "--precomp", data, "--device", "cpu"]
    status, output, _ = regard(*fixed, "--bank-split", "dev", "--bank", 20, "--best", 3, "--json")
    report = json.loads(output)
    assert (status, report["pictures"]) == (0, {"fitted": 60, "held_out": 60})
    served = load_matcher(folder)
    assert served.digest == report["digest"]
    assert served.calibration is not None
    assert served.calibration.hubness is not None
    assert load_file(folder / "hubs.safetensors")["bank"].shape == (20, served.word_dim)
    told_by_pictures = ["--bank-split", "dev", "--bank", 20, "--typical-pictures", "--fit-share", "--stage-one"]
    status, output, _ = regard(*fixed, *told_by_pictures, "--json")
    assert (status, json.loads(output)["hubs"]["picture_bank"]) == (0, 20)
    hubness = load_matcher(folder).hubness
    assert hubness is not None
    assert hubness.banks.pictures is not None
    status, output, _ = regard(*fixed, "--share", 0)
    assert status == 0
    assert "fitted on 60 pictures, judged by 60 others" in output
    assert output.count("calibration error") == 2
    plain = load_matcher(folder).calibration
    assert plain is not None
    assert plain.hubness is None
    assert not (folder / "hubs.safetensors").exists()
    status, _, errors = regard(*fixed, "--bank-split", "dev", "--bank", 5000)
    assert status == 1
    assert "there are only 120" in errors
    np.save(data / "dev_ims.npy", np.zeros((3, 2, 16)))
    (data / "dev_caps.txt").write_text("red\n" * 3)
    assert regard(*fixed, "--share", 0)[0] == 1


@pytest.mark.slow
def test_what_a_fitted_correction_is_said_to_gain_is_what_is_served(tmp_path: Path) -> None:
    made = small_matcher("scan-t2i-avg")
    with torch.no_grad():
        made.reranker.get_parameter("sentence_encoder.embed.weight").mul_(40)
    save_matcher(made, tmp_path)
    plain = load_uncalibrated(tmp_path)
    data = captioned_features(plain)
    sentences = [text for captions in data.captions for text in captions]
    for pictures in (None, data):
        for hubness in (replace(HUBNESS, stage_one=True, share=0.0), replace(HUBNESS, stage_one=True, fit_share=True)):
            plan = replace(PLAN, hubness=hubness)
            calibration, banks, report = calibrate(plain, data, sentences, plan, pictures)
            assert banks is not None
            assert report["hubs"]["bank"] == len(banks.sentences) == 8
            assert ("picture_bank" in report["hubs"]) is (banks.pictures is not None) is (pictures is not None)
            fitted = calibration.hubness
            assert fitted is not None
            assert hubness.fit_share or (fitted.image_weight, fitted.text_weight) == (0.0, 0.0)
            assert fitted.stage_one_weight > 0
            both = score_all_pairs(plain.with_calibration(calibration, banks), data)
            for which, pairs in zip(("rsum", "rsum_of_stage_one"), both, strict=True):
                for half, chosen in zip(("fitted", "held_out"), PLAN.split(len(data)), strict=True):
                    expected = Ranks.of(pairs.among(chosen)).report()["rsum"]
                    assert report[which][half]["as_served"] == pytest.approx(expected, abs=0.5)
                on_own = report[which]["fitted"]
                assert on_own["as_served"] >= on_own["without_hubs_corrected"]
            assert (
                report["rsum_of_stage_one"]["fitted"]["as_served"]
                > 1.01 * (report["rsum_of_stage_one"]["fitted"]["without_hubs_corrected"])
            )


@pytest.mark.parametrize("short_question", [0, 3, 4])  # all captions have four words
def test_as_much_of_stage_one_is_fused_as_ranks_best(tmp_path: Path, short_question: int) -> None:
    made = small_matcher("scan-t2i-avg")
    with torch.no_grad():
        made.reranker.get_parameter("sentence_encoder.embed.weight").mul_(40)
    save_matcher(made, tmp_path)
    plain = load_uncalibrated(tmp_path)
    data = captioned_features(plain)
    sentences = [text for captions in data.captions for text in captions]
    own, others = PLAN.split(len(data))
    for hubness in (HubnessPlan(share=0.0), replace(HUBNESS, stage_one=True)):
        plan = CalibrationPlan(hubness=hubness, fuse_stage_one=True, short_question=short_question)
        calibration, banks, report = calibrate(plain, data, sentences, plan)
        assert calibration.cosine_weight == report["cosine_weight"]
        if short_question < 4:  # else no caption that asks has it in its score
            assert report["rsum"]["fitted"]["as_served"] >= report["rsum_without_stage_one"]["fitted"]
        pairs = score_all_pairs(plain.with_calibration(calibration, banks), data)[0]
        for half, chosen in (("fitted", own), ("held_out", others)):
            expected = Ranks.of(pairs.among(chosen)).report()["rsum"]
            assert report["rsum"][half]["as_served"] == pytest.approx(expected, abs=1.0)  # embeddings are rounded


def test_short_questions_have_their_own_scores_on_the_level_of_the_others() -> None:
    image_of, short = torch.tensor([0, 0, 1]), torch.tensor([True, False, True])
    whole = ScoredPairs(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), image_of)
    by_sentence = ScoredPairs(torch.tensor([[4.0, 7.0], [6.0, 7.0], [9.0, 8.0]]), image_of)
    found, summand = with_short_questions(whole, by_sentence, short, torch.tensor([0, 1]))
    assert summand == pytest.approx((2 + 4 + 6 - 7 - 7 - 9) / 3)
    expected = torch.tensor([[4.0 + summand, 7.0 + summand], [3.0, 4.0], [9.0 + summand, 8.0 + summand]])
    torch.testing.assert_close(found.of("text"), expected)
    assert with_short_questions(whole, by_sentence, short, torch.tensor([0]))[1] == -3.0  # its own two sentences alone
    assert with_short_questions(whole, by_sentence, short, torch.tensor([0, 1]), short)[1] == (2 + 6 - 7 - 9) / 2
    assert with_short_questions(whole, by_sentence, short, torch.tensor([1]), ~short)[1] == 0.0  # it has no long one
    assert found.of("image") is whole.scores
    assert torch.equal(found.image_of, image_of)


def test_the_weight_of_stage_one_is_the_best_of_those_tried() -> None:
    generator = torch.Generator().manual_seed(0)
    image_of = torch.arange(60) // 2
    right = (image_of[:, None] == torch.arange(30)).float()
    noisy, clean = (ScoredPairs(right + s * torch.randn(60, 30, generator=generator), image_of) for s in (1.0, 0.3))
    own = torch.arange(0, 30, 2)
    assert best_cosine_weight(clean, ScoredPairs(torch.randn(60, 30, generator=generator), image_of), own) < 0.2
    best = best_cosine_weight(noisy, clean, own)
    assert best > 0
    for share in (0.0, 0.3, 1.0, 3.0):
        other = ratio_of_spreads(noisy.among(own).scores, clean.among(own).scores) * share
        assert rsum_of(fuse(noisy, clean, best).among(own)) >= rsum_of(fuse(noisy, clean, other).among(own)) - 1e-6


def test_pictures_held_out_have_no_say_in_the_weight_of_stage_one() -> None:
    generator = torch.Generator().manual_seed(0)
    image_of = torch.arange(60) // 2
    right = (image_of[:, None] == torch.arange(30)).float()
    noisy, clean = (ScoredPairs(right + s * torch.randn(60, 30, generator=generator), image_of) for s in (1.0, 0.3))
    own = torch.arange(0, 30, 2)
    others = noisy.scores.clone()
    others[(image_of % 2 == 1), :] *= 7
    others[:, 1::2] *= 7
    assert best_cosine_weight(ScoredPairs(others, image_of), clean, own) == best_cosine_weight(noisy, clean, own) > 0


@pytest.mark.parametrize("which", [0, 1])
def test_scores_that_are_all_alike_have_no_ratio_of_spreads(which: int) -> None:
    scores = [torch.randn(4, 4, generator=torch.Generator().manual_seed(0)), torch.ones(4, 4)]
    with pytest.raises(Uncalibratable, match="alike"):
        ratio_of_spreads(scores[which], scores[1 - which])


def test_a_share_of_zero_without_stage_one_corrects_nothing() -> None:
    assert not HubnessPlan(share=0.0).needs_bank
    assert HubnessPlan(share=0.0, fit_share=True).corrects_scores
    assert not HubnessPlan(share=0.0, stage_one=True).corrects_scores


def test_other_weights_lose_the_calibration_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    folder = small_weights(tmp_path, "scan-t2i-avg")
    before = load_matcher(folder).digest
    model = LogOddsModel(2.0, 1.0)
    digests = {before, save_calibration(folder, Calibration(text=model, image=model))}
    digests.add(save_calibration(folder, Calibration(text=model, image=LogOddsModel(3.0, 1.0))))
    assert len(digests) == 3
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["calibration.json", "config.json", "digest", "model.safetensors", "vocabulary.json"]
    )
    text = (folder / "calibration.json").read_text()
    (folder / "calibration.json").write_text(text.replace("3.0", "4.0"))
    with pytest.raises(BadCheckpoint, match="damaged or edited"):
        load_matcher(folder)
    (folder / "calibration.json").unlink()
    with pytest.raises(BadCheckpoint, match="damaged or edited"):
        load_matcher(folder)
    save_matcher(small_matcher("scan-t2i-avg"), folder)
    assert load_matcher(folder).digest == before
