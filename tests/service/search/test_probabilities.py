"""Probabilities of results, and whether anything matches a question at all."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from models.matching.calibration import Calibration
from models.matching.log_odds import LogOddsModel
from models.matching.match_verdict import MatchTest
from service.search.requests import PictureFilter
from service.search.results import SearchResult
from tests.support.fakes import FakeMatcher
from tests.support.library import Library, image_id_of
from tests.support.not_none import not_none


def found_ids(outcome: SearchResult[Any]) -> list[str]:
    return [hit.image_id for hit in outcome.results]


def test_probabilities_are_of_the_whole_gallery(full: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the formula in plain numbers."""
    meaning = Calibration(text=LogOddsModel(8.0, -2.0, 3.0, 0.5), image=LogOddsModel(6.0, -1.0, 2.0, 0.8))
    monkeypatch.setattr(full.matcher, "calibration", meaning)
    outcome = full.text("red and blue", k=64, shortlist=64)
    scores = [not_none(hit.score) for hit in outcome.results]
    for n, hit in enumerate(outcome.results):
        ahead = scores[n] - max(scores[:n] + scores[n + 1 :])
        logit = 8 * scores[n] - 2 + 3 * ahead - 0.5 * math.log(64 - 1)
        assert hit.probability == pytest.approx(1 / (1 + math.exp(-logit)))
    picture = full.features(image_id_of("green and magenta"))
    own = image_id_of("green and magenta")
    found = full.image(picture, own, k=100, shortlist=128).results
    scores = [not_none(one.score) for one in found]
    for n, one in enumerate(found):
        ahead = scores[n] - max(scores[:n] + scores[n + 1 :])
        logit = 6 * scores[n] - 1 + 2 * ahead - 0.8 * math.log((128 - 2) / 2)  # every picture has two captions
        assert one.probability == pytest.approx(1 / (1 + math.exp(-logit)))
    alike = full.image(picture, own, target="images")
    assert {hit.probability for hit in alike.results} == {None}


def test_whether_anything_matches_goes_by_the_best_picture(full: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the formula in plain numbers, on both sides of both thresholds."""
    line = LogOddsModel(8.0, -2.0, 3.0, 0.5)

    def verdicts(absent_below: float, present_from: float) -> tuple[bool | None, bool | None]:
        test = MatchTest(line, absent_below, present_from)
        meaning = Calibration(text=line, image=line, text_match=test, image_match=test)
        monkeypatch.setattr(full.matcher, "calibration", meaning)
        picture = full.features(image_id_of("green and magenta"))
        own = image_id_of("green and magenta")
        of_captions = full.image(picture, own, k=5, shortlist=64)
        assert full.image(picture, own, target="images").matched is None
        return full.text("red and blue", k=5, shortlist=64, match="pictures").matched, of_captions.matched

    monkeypatch.setattr(full.matcher, "calibration", Calibration(text=line, image=line))
    best = full.text("red and blue", k=2, shortlist=64, match="pictures").results
    assert full.text("red and blue", match="pictures").matched is None
    first, second = (hit.score or 0 for hit in best)
    probability = 1 / (1 + math.exp(-(8 * first - 2 + 3 * (first - second) - 0.5 * math.log(64 - 1))))
    assert verdicts(0.0, probability - 1e-4)[0] is True
    assert verdicts(0.0, probability + 1e-4)[0] is None
    assert verdicts(probability + 1e-4, 1.0)[0] is False
    assert verdicts(0.0, 0.0)[1] is True
    assert verdicts(1.0, 1.0)[1] is False


def test_words_of_a_picture_match_and_keyboard_noise_does_not(full: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    line = LogOddsModel(8.0, -2.0)
    sure, never = MatchTest(line, 0.0, 0.0), MatchTest(line, 1.0, 1.0)
    for test, expected in ((sure, True), (never, False)):
        meaning = Calibration(text=line, image=line, text_match=test)
        monkeypatch.setattr(full.matcher, "calibration", meaning)
        assert full.text("red and blue", match="pictures").matched is expected
        assert full.text("red met een hond", match="pictures").matched is False  # no English
        # Nobody can tell whether what was to be left out is left out.
        assert full.text("red without blue", match="pictures").matched is (None if expected else False)
        for noise in ("xqzv wrtk", "!!!", "? xqzv !"):
            assert full.text(noise, match="pictures").matched is False
        both = full.text("red and blue", match="both")
        assert (both.matched, both.matched_by_pictures) == (True, expected)  # a caption says so
        assert full.text("red and blue", match="text").matched_by_pictures is None


def test_of_a_few_words_it_is_not_said_that_nothing_matches(full: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    line = LogOddsModel(8.0, -2.0)
    monkeypatch.setattr(type(full.matcher), "short_question", property(lambda _: 3))
    for threshold, (short, long) in ((1.0, (None, False)), (0.0, (True, True))):
        meaning = Calibration(text=line, image=line, text_match=MatchTest(line, threshold, threshold))
        monkeypatch.setattr(full.matcher, "calibration", meaning)
        assert full.text("red and blue", match="pictures").matched is short
        assert full.text("red and blue .", match="pictures").matched is long  # marks count, as they do for its scores
        assert full.text("xqzv wrtk", match="pictures").matched is False  # but keyboard noise


@pytest.mark.parametrize(("question", "offset"), [("Red and blue", 0.0), ("red and BLUE", 0.25)])
def test_whether_anything_matches_a_short_question_goes_by_the_best_score_before_its_offset(
    full: Library, monkeypatch: pytest.MonkeyPatch, question: str, offset: float
) -> None:
    """Against the formula in plain numbers, on both sides of the threshold. Questions are kept as they were encoded, so
    that these are in letters that no other test asks in."""
    best = not_none(full.text("red and blue", match="pictures").results[0].score)
    texts, score = FakeMatcher.texts_from, FakeMatcher.score
    taken_off = torch.full((1,), offset)
    monkeypatch.setattr(FakeMatcher, "short_question", property(lambda _: 3))
    monkeypatch.setattr(FakeMatcher, "texts_from", lambda *args: replace(texts(*args), offset=taken_off))
    monkeypatch.setattr(FakeMatcher, "score", lambda *args: score(*args) - args[2].offset[:, None])
    never = MatchTest(LogOddsModel(8.0, -2.0), 1.0, 1.0)
    probability = 1 / (1 + math.exp(-(6 * best - 3)))
    for threshold, matched in ((probability - 1e-4, True), (probability + 1e-4, None)):
        short = MatchTest(LogOddsModel(6.0, -3.0), 0.0, threshold)
        meaning = Calibration(text=never.log_odds, image=never.log_odds, text_match=never, short_match=short)
        monkeypatch.setattr(full.matcher, "calibration", meaning)
        for chosen in (None, PictureFilter(tags={"left": "red"})):
            outcome = full.text(question, k=64, shortlist=64, match="pictures", filter=chosen)
            assert outcome.results[0].score == pytest.approx(best - offset)
            assert outcome.matched is matched
        assert full.text("red and blue .", match="pictures").matched is False  # four words


@pytest.mark.parametrize("shortlist", [5, 20, 64])
@pytest.mark.parametrize("tags", [{"left": "red"}, {"left": "black", "number": {"gte": 60}}, {"number": 9}])
def test_a_filter_changes_no_probability(
    full: Library, monkeypatch: pytest.MonkeyPatch, tags: dict[str, Any], shortlist: int
) -> None:
    meaning = Calibration(text=LogOddsModel(8.0, -2.0, 3.0, 0.5), image=LogOddsModel(6.0, -1.0, 2.0, 0.8))
    monkeypatch.setattr(full.matcher, "calibration", meaning)
    chosen = PictureFilter.model_validate({"tags": tags})
    whole = full.text("red and blue", k=shortlist, shortlist=shortlist)
    filtered = full.text("red and blue", k=5, shortlist=shortlist, filter=chosen)
    assert filtered.results
    probabilities = {hit.image_id: hit.probability for hit in whole.results}
    for hit in filtered.results:
        assert hit.probability == pytest.approx(probabilities.get(hit.image_id, hit.probability))
    likely = [hit.probability or 0 for hit in filtered.results]
    assert likely == sorted(likely, reverse=True)
    picture = full.features(image_id_of("green and magenta"))
    own = image_id_of("green and magenta")
    of_captions = {one.caption_id: one.probability for one in full.image(picture, own, k=64, shortlist=64).results}
    for one in full.image(picture, own, k=5, shortlist=64, filter=chosen).results:
        assert one.probability == pytest.approx(of_captions.get(one.caption_id, one.probability))


def test_what_is_not_probable_enough_is_left_out_and_counted(full: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    meaning = Calibration(text=LogOddsModel(8.0, -2.0, 3.0, 0.5), image=LogOddsModel(6.0, -1.0))
    monkeypatch.setattr(full.matcher, "calibration", meaning)
    everything = full.text("red and blue", k=64, shortlist=64)
    assert everything.left_out == 0
    least = sorted(hit.probability or 0 for hit in everything.results)[-5]
    some = full.text("red and blue", k=64, shortlist=64, min_probability=least)
    assert found_ids(some) == found_ids(everything)[: len(some.results)]
    assert len(some.results) + some.left_out == 64
    assert 5 <= len(some.results) < 64
    none = full.text("red and blue", shortlist=64, min_probability=1.0)
    assert (none.results, none.left_out) == ([], 64)
