"""Two-stage search over a real catalog, slab and view: equal to plain loops, filtered, explained, never half."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.filters import Filter
from models.batches import Words
from models.matching.calibration import Calibration, LogOddsModel
from service.errors import InvalidRequest, NotFound, UnknownModel, ViewNotBuilt
from service.search.types import ImageQuestion, Outcome, TextQuestion
from tests.support.fakes import COLOURS, FakeMatcher
from tests.support.library import NAMES, NOW, Library, image_id_of, sixty_four, two_coloured


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    library = sixty_four(tmp_path_factory.mktemp("full"))
    yield library
    library.close()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library(tmp_path, others=[FakeMatcher("other", "other-digest")])
    yield library
    library.close()


def found(outcome: Outcome) -> list[str]:
    return [hit.image.image_id for hit in outcome.hits]


def scores_in_loops(library: Library, query: str) -> dict[str, float]:
    """The score of every picture, each one read, encoded and scored alone."""
    scores = {}
    for name in NAMES:
        picture, _ = library.search.stored(image_id_of(name))
        images, _ = library.matcher.encode_regions(picture.as_batch())
        words, _ = library.matcher.encode_sentences([query])
        scores[image_id_of(name)] = float(library.matcher.score(images, words)[0, 0])
    return scores


@pytest.mark.parametrize("query", ["red", "blue and yellow", "Magenta beside MAGENTA", "nothing known here"])
def test_an_exhaustive_shortlist_gives_what_plain_loops_give(full: Library, query: str) -> None:
    outcome = full.search.text(TextQuestion(text=query, k=64, shortlist=64))
    expected = scores_in_loops(full, query)
    assert set(found(outcome)) == set(expected)
    for hit in outcome.hits:
        assert hit.score == pytest.approx(expected[hit.image.image_id], abs=2e-3)  # records are fp16
    assert [hit.score for hit in outcome.hits] == sorted((hit.score for hit in outcome.hits), reverse=True)


@given(query=st.lists(st.sampled_from(list(COLOURS)), min_size=1, max_size=5).map(" ".join), k=st.integers(1, 20))
def test_hits_go_by_score_and_ties_keep_the_order_of_the_shortlist(full: Library, query: str, k: int) -> None:
    wide = full.search.text(TextQuestion(text=query, k=64, shortlist=64))
    assert sorted(hit.shortlist_rank for hit in wide.hits) == list(range(1, 65))
    assert list(wide.hits) == sorted(wide.hits, key=lambda hit: (-hit.score, hit.shortlist_rank))
    assert list(full.search.text(TextQuestion(text=query, k=k, shortlist=64)).hits) == list(wide.hits)[:k]
    narrow = full.search.text(TextQuestion(text=query, k=k, shortlist=k))
    assert sorted(hit.shortlist_rank for hit in narrow.hits) == list(range(1, k + 1))
    assert list(narrow.hits) == sorted(narrow.hits, key=lambda hit: (-hit.score, hit.shortlist_rank))


def test_the_pictures_of_the_words_come_first(full: Library) -> None:
    outcome = full.search.text(TextQuestion(text="cyan and yellow", k=2))
    assert set(found(outcome)) == {image_id_of("cyan and yellow"), image_id_of("yellow and cyan")}
    assert outcome.unknown_words == ["and"]
    assert (outcome.model, outcome.digest) == ("fake", "fake-matcher")
    assert set(outcome.milliseconds) == {"encode", "shortlist", "rerank"}


def test_a_filter_works_before_the_shortlist(full: Library) -> None:
    question = TextQuestion(text="red", k=5, shortlist=5, filter=Filter(tags={"left": "black"}))
    outcome = full.search.text(question)
    assert len(outcome.hits) == 5
    assert {hit.image.tags["left"] for hit in outcome.hits} == {"black"}
    assert found(outcome)[0] == image_id_of("black and red")
    none = full.search.text(TextQuestion(text="red", filter=Filter(tags={"left": "mauve"})))
    assert none.hits == []


def test_min_score_cuts_and_date_orders_what_is_left(full: Library) -> None:
    by_score = full.search.text(TextQuestion(text="red and blue", k=12, shortlist=64))
    threshold = by_score.hits[5].score
    cut = full.search.text(TextQuestion(text="red and blue", k=12, shortlist=64, min_score=threshold))
    assert found(cut) == [hit.image.image_id for hit in by_score.hits if hit.score >= threshold]
    dated = full.search.text(TextQuestion(text="red and blue", k=12, shortlist=64, min_score=threshold, sort="date"))
    assert sorted(found(dated)) == sorted(found(cut))
    times = [hit.image.taken_at for hit in dated.hits]
    known = [time for time in times if time is not None]
    assert known == sorted(known, reverse=True)
    assert times == known + [None] * (len(times) - len(known))
    undated = [hit.image.added_at for hit in dated.hits if hit.image.taken_at is None]
    assert undated == sorted(undated, reverse=True)


def test_captions_are_found_for_a_stored_picture(full: Library) -> None:
    picture, slot = full.search.stored(image_id_of("green and magenta"))
    outcome = full.search.image(ImageQuestion(k=10, shortlist=128, explain=True), picture, slot)
    assert outcome.hits == ()
    assert outcome.captions[0].caption.text in {"green and magenta", "magenta and green"}
    for one in outcome.captions:
        words, _ = full.matcher.encode_sentences([one.caption.text])
        images, _ = full.matcher.encode_regions(picture.as_batch())
        assert one.score == pytest.approx(float(full.matcher.score(images, words)[0, 0]), abs=2e-3)
        assert one.explained is not None
        assert one.explained.contributions is not None
        assert [word.text for word in one.explained.words] == full.matcher.words(one.caption.text)
        assert sum(one.explained.contributions) == pytest.approx(one.score, abs=1e-6)
    assert [one.score for one in outcome.captions] == sorted((one.score for one in outcome.captions), reverse=True)


def test_captions_are_filtered_by_their_pictures(full: Library) -> None:
    picture, slot = full.search.stored(image_id_of("green and magenta"))
    question = ImageQuestion(k=100, shortlist=128, filter=Filter(tags={"left": "red"}))
    outcome = full.search.image(question, picture, slot)
    assert len(outcome.captions) == 16
    assert {full.catalog.image(one.caption.image_id).tags["left"] for one in outcome.captions} == {"red"}  # type: ignore[union-attr]


def test_probabilities_are_of_the_gallery_that_was_searched(full: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the formula in plain numbers, with and without a filter."""
    meaning = Calibration(text=LogOddsModel(8.0, -2.0, 3.0, 0.5), image=LogOddsModel(6.0, -1.0, 2.0, 0.8))
    monkeypatch.setattr(full.matcher, "calibration", meaning)
    for filtered, searched in ((None, 64), (Filter(tags={"left": "red"}), 8)):
        outcome = full.search.text(TextQuestion(text="red and blue", k=64, shortlist=64, filter=filtered))
        scores = [hit.score for hit in outcome.hits]
        for n, hit in enumerate(outcome.hits):
            ahead = hit.score - max(scores[:n] + scores[n + 1 :])
            logit = 8 * hit.score - 2 + 3 * ahead - 0.5 * math.log(searched - 1)
            assert hit.probability == pytest.approx(1 / (1 + math.exp(-logit)))
    picture, slot = full.search.stored(image_id_of("green and magenta"))
    found = full.search.image(ImageQuestion(k=100, shortlist=128), picture, slot).captions
    scores = [one.score for one in found]
    for n, one in enumerate(found):
        ahead = one.score - max(scores[:n] + scores[n + 1 :])
        logit = 6 * one.score - 1 + 2 * ahead - 0.8 * math.log((128 - 2) / 2)  # every picture has two captions
        assert one.probability == pytest.approx(1 / (1 + math.exp(-logit)))
    alike = full.search.image(ImageQuestion(target="images"), picture, slot)
    assert {hit.probability for hit in alike.hits} == {None}


def test_what_is_not_probable_enough_is_left_out_and_counted(full: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    meaning = Calibration(text=LogOddsModel(8.0, -2.0, 3.0, 0.5), image=LogOddsModel(6.0, -1.0))
    monkeypatch.setattr(full.matcher, "calibration", meaning)
    everything = full.search.text(TextQuestion(text="red and blue", k=64, shortlist=64))
    assert everything.left_out == 0
    least = sorted(hit.probability or 0 for hit in everything.hits)[-5]
    some = full.search.text(TextQuestion(text="red and blue", k=64, shortlist=64, min_probability=least))
    assert found(some) == found(everything)[: len(some.hits)]
    assert len(some.hits) + some.left_out == 64
    assert 5 <= len(some.hits) < 64
    none = full.search.text(TextQuestion(text="red and blue", shortlist=64, min_probability=1.0))
    assert (none.hits, none.left_out) == ([], 64)


def test_a_stored_picture_is_not_like_itself_but_an_uploaded_copy_is(full: Library) -> None:
    own = image_id_of("red and blue")
    picture, slot = full.search.stored(own)
    question = ImageQuestion(target="images", k=5)
    alike = full.search.image(question, picture, slot)
    assert own not in found(alike)
    uploaded = full.search.detect(two_coloured("red", "blue"), 40, 20)
    copies = full.search.image(question, uploaded)
    assert own in found(copies)[:2]
    assert copies.hits[0].score == pytest.approx(1.0, abs=1e-3)
    cosines = [hit.score for hit in copies.hits]
    assert cosines == sorted(cosines, reverse=True)


def test_boxes_of_an_uploaded_picture_are_in_its_own_pixels(full: Library) -> None:
    uploaded = full.search.detect(two_coloured("red", "blue"), 400, 100)
    assert [region.box for region in uploaded.regions][:2] == [(0, 0, 400, 100), (0, 0, 200, 100)]


def test_an_empty_store_answers_with_nothing(library: Library) -> None:
    outcomes = [library.search.text(TextQuestion(text="red"))]
    uploaded = library.search.detect(two_coloured("red", "blue"), 40, 20)
    outcomes += [library.search.image(ImageQuestion(target="captions"), uploaded)]
    outcomes += [library.search.image(ImageQuestion(target="images"), uploaded)]
    assert [len(outcome.hits) + len(outcome.captions) for outcome in outcomes] == [0, 0, 0]


def test_what_is_new_is_found_and_what_is_deleted_is_not(library: Library) -> None:
    versions = {library.search.index_version(None)}
    first = library.add("first", two_coloured("red", "red"), captions=["red"])
    versions.add(library.search.index_version(None))
    second = library.add("second", two_coloured("blue", "blue"))
    versions.add(library.search.index_version(None))
    assert found(library.search.text(TextQuestion(text="red"))) == [first, second]
    library.catalog.delete(first, NOW)
    versions.add(library.search.index_version(None))
    assert found(library.search.text(TextQuestion(text="red"))) == [second]
    picture, slot = library.search.stored(second)
    assert library.search.image(ImageQuestion(), picture, slot).captions == []
    with pytest.raises(NotFound):
        library.search.stored(first)
    assert len(versions) == 4


def test_a_picture_that_vanishes_during_a_query_makes_room_for_the_next(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [library.add(name, two_coloured(name, name)) for name in COLOURS]
    before = library.search.text(TextQuestion(text="red", k=3))
    score = library.matcher.score

    def delete_meanwhile(images: object, words: Words) -> object:
        library.catalog.delete(found(before)[1], NOW)
        return score(images, words)  # type: ignore[arg-type]

    monkeypatch.setattr(library.matcher, "score", delete_meanwhile)
    during = library.search.text(TextQuestion(text="red", k=3))
    assert len(ids) == 8
    assert len(found(during)) == 3
    assert found(before)[1] not in found(during)
    assert [hit.shortlist_rank for hit in during.hits] != [1, 2, 3]


def test_a_view_that_lags_answers_with_what_it_has(library: Library) -> None:
    first = library.add("first", two_coloured("red", "red"))
    library.add("second", two_coloured("red", "blue"), view=False)
    assert found(library.search.text(TextQuestion(text="red"))) == [first]
    state = library.models.default.state(library.catalog)
    assert (state.state, state.pictures, state.missing_pictures) == ("building", 1, 1)
    library.catch_up()
    assert len(found(library.search.text(TextQuestion(text="red")))) == 2
    assert library.models.default.state(library.catalog).state == "ready"


def test_models_are_asked_by_name(library: Library) -> None:
    with pytest.raises(UnknownModel, match="Known: fake, other"):
        library.search.text(TextQuestion(text="red", model="scam"))
    assert library.search.text(TextQuestion(text="red", model="other")).hits == ()  # an empty store needs no view
    library.add("first", two_coloured("red", "red"))
    with pytest.raises(ViewNotBuilt, match="REGARD_VIEWS") as refused:
        library.search.text(TextQuestion(text="red", model="other"))
    assert refused.value.extra["build"] == {"state": "not built", "pictures": 0, "missing_pictures": 1}


def test_a_query_without_words_is_refused(library: Library) -> None:
    with pytest.raises(InvalidRequest, match="query"):
        library.search.text(TextQuestion(text="   "))
