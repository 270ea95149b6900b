"""Two-stage search over a real catalog, slab and view: equal to plain loops, filtered, explained, never half."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.catalog.catalog import Catalog
from index.records import PictureChange
from models.batches import Words
from service.errors import InvalidRequest, NotFound, UnknownModel, ViewNotBuilt
from service.search.requests import ImageSearchRequest, PictureFilter, TextSearchRequest
from service.search.results import RankedCaption, RankedPicture, SearchResult
from service.storage.data_dir import DataDir
from tests.support.fakes import COLOURS, FakeMatcher
from tests.support.library import NAMES, NOW, Library, image_id_of, two_coloured
from tests.support.not_none import not_none


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library(tmp_path, others=[FakeMatcher("other", "other-digest")])
    yield library
    library.close()


def found_ids(outcome: SearchResult[Any]) -> list[str]:
    return [hit.image_id for hit in outcome.results]


def scores_in_loops(library: Library, query: str) -> dict[str, float]:
    """The score of every picture, each one read, encoded and scored alone."""
    scores = {}
    for name in NAMES:
        picture = library.features(image_id_of(name))
        images, _ = library.matcher.encode_regions(picture.as_batch())
        words, _ = library.matcher.encode_sentences([query])
        scores[image_id_of(name)] = float(library.matcher.score(images, words)[0, 0])
    return scores


@pytest.mark.parametrize("query", ["red", "blue and yellow", "Magenta beside MAGENTA", "nothing known here"])
def test_an_exhaustive_shortlist_gives_what_plain_loops_give(full: Library, query: str) -> None:
    outcome = full.text(query, k=64, shortlist=64)
    expected = scores_in_loops(full, query)
    assert set(found_ids(outcome)) == set(expected)
    for hit in outcome.results:
        assert hit.score == pytest.approx(expected[hit.image_id], abs=2e-3)  # records are fp16
    scores = [not_none(hit.score) for hit in outcome.results]
    assert scores == sorted(scores, reverse=True)


@given(query=st.lists(st.sampled_from(list(COLOURS)), min_size=1, max_size=5).map(" ".join), k=st.integers(1, 20))
def test_hits_go_by_score_and_ties_keep_the_order_of_the_shortlist(full: Library, query: str, k: int) -> None:
    wide = full.text(query, k=64, shortlist=64)
    assert sorted(not_none(hit.shortlist_rank) for hit in wide.results) == list(range(1, 65))
    assert list(wide.results) == sorted(wide.results, key=lambda hit: (-not_none(hit.score), hit.shortlist_rank))
    assert list(full.text(query, k=k, shortlist=64).results) == list(wide.results)[:k]
    narrow = full.text(query, k=k, shortlist=k)
    assert sorted(not_none(hit.shortlist_rank) for hit in narrow.results) == list(range(1, k + 1))
    assert list(narrow.results) == sorted(narrow.results, key=lambda hit: (-not_none(hit.score), hit.shortlist_rank))


def test_the_pictures_of_the_words_come_first(full: Library) -> None:
    outcome = full.text("cyan and yellow", k=2)
    assert set(found_ids(outcome)) == {image_id_of("cyan and yellow"), image_id_of("yellow and cyan")}
    assert outcome.reading.unknown_words == ["and"]
    assert (outcome.origin.model, outcome.origin.model_digest) == ("fake", "fake-matcher")
    assert set(outcome.timings_ms) == {"encode", "shortlist", "rerank", "text"}


def test_words_that_only_ask_are_not_scored(full: Library) -> None:
    plain, asking = (full.text(query, k=5, explain=True) for query in ("red.png", "a photo of red.png"))
    assert asking.results == plain.results
    assert any(hit.found_by != "pictures" for hit in asking.results)  # by its file's name
    assert (plain.reading.note, asking.reading.note) == (None, "Searched for “red.png”.")
    assert asking.reading.query == "a photo of red.png"
    assert asking.reading.unknown_words == plain.reading.unknown_words


def test_a_time_is_looked_for_in_texts_alone(full: Library) -> None:
    plain, dated = (full.text(query, k=5, explain=True) for query in ("red and white", "red and white, 2021"))
    assert dated.reading.unknown_words == plain.reading.unknown_words == ["and"]
    assert [hit.score for hit in dated.results] == [hit.score for hit in plain.results]
    assert all(word.text != "2021" for hit in dated.results if hit.explanation for word in hit.explanation.words)
    assert "“2021” is not read as a time" in (dated.reading.note or "")


def test_a_date_that_no_picture_has_matches_nothing(full: Library) -> None:
    for date in ("May 2019", "december"):
        outcome = full.text(date, match="both")
        assert (outcome.matched, outcome.reading.note) == (False, f"No picture's date or text says “{date}”.")
    assert len(outcome.results) == outcome.origin.k  # the nearest all the same
    assert full.text("May 2019", match="pictures").reading.note is None
    named = full.text("IMG_0412", match="both")
    assert (named.matched, named.reading.note) == (False, "No picture's name or other text says “IMG_0412”.")
    assert full.text("red.jpg", match="both").matched is False


def test_a_filter_works_before_the_shortlist(full: Library) -> None:
    outcome = full.text("red", k=5, shortlist=5, filter=PictureFilter(tags={"left": "black"}))
    assert len(outcome.results) == 5
    assert {hit.tags["left"] for hit in outcome.results} == {"black"}
    assert found_ids(outcome)[0] == image_id_of("black and red")
    none = full.text("red", filter=PictureFilter(tags={"left": "mauve"}))
    assert none.results == []


def test_min_score_cuts_and_date_orders_what_is_left(full: Library) -> None:
    by_score = full.text("red and blue", k=12, shortlist=64)
    threshold = not_none(by_score.results[5].score)
    cut = full.text("red and blue", k=12, shortlist=64, min_score=threshold)
    assert found_ids(cut) == [hit.image_id for hit in by_score.results if not_none(hit.score) >= threshold]
    dated = full.text("red and blue", k=12, shortlist=64, min_score=threshold, sort="date")
    assert sorted(found_ids(dated)) == sorted(found_ids(cut))
    times = [hit.taken_at for hit in dated.results]
    known = [time for time in times if time is not None]
    assert known == sorted(known, reverse=True)
    assert times == known + [None] * (len(times) - len(known))
    undated = [hit.added_at for hit in dated.results if hit.taken_at is None]
    assert undated == sorted(undated, reverse=True)


def test_captions_are_found_for_a_stored_picture(full: Library) -> None:
    picture = full.features(image_id_of("green and magenta"))
    own = image_id_of("green and magenta")
    outcome = full.image(picture, own, k=10, shortlist=128, explain=True)
    assert {type(hit) for hit in outcome.results} == {RankedCaption}
    assert outcome.results[0].text in {"green and magenta", "magenta and green"}
    for one in outcome.results:
        words, _ = full.matcher.encode_sentences([one.text])
        images, _ = full.matcher.encode_regions(picture.as_batch())
        assert one.score == pytest.approx(float(full.matcher.score(images, words)[0, 0]), abs=2e-3)
        assert one.explanation is not None
        assert one.explanation.contributions is not None
        assert [word.text for word in one.explanation.words] == full.matcher.words(one.text)
        assert sum(one.explanation.contributions) == pytest.approx(one.score, abs=1e-6)
    assert [one.score for one in outcome.results] == sorted((one.score for one in outcome.results), reverse=True)


def test_captions_are_filtered_by_their_pictures(full: Library) -> None:
    picture = full.features(image_id_of("green and magenta"))
    own = image_id_of("green and magenta")
    outcome = full.image(picture, own, k=100, shortlist=128, filter=PictureFilter(tags={"left": "red"}))
    assert len(outcome.results) == 16
    assert {full.catalog.image(one.image_id).tags["left"] for one in outcome.results} == {"red"}  # type: ignore[union-attr]


def test_a_stored_picture_is_not_like_itself_but_an_uploaded_copy_is(full: Library) -> None:
    own = image_id_of("red and blue")
    picture = full.features(own)
    alike = full.image(picture, own, target="images", k=5)
    assert own not in found_ids(alike)
    uploaded = full.search.detect(two_coloured("red", "blue"), 40, 20)
    copies = full.image(uploaded, target="images", k=5)
    assert own in found_ids(copies)[:2]
    assert copies.results[0].score == pytest.approx(1.0, abs=1e-3)
    cosines = [hit.score for hit in copies.results]
    assert cosines == sorted(cosines, reverse=True)


def test_boxes_of_an_uploaded_picture_are_in_its_own_pixels(full: Library) -> None:
    uploaded = full.search.detect(two_coloured("red", "blue"), 400, 100)
    assert [region.box for region in uploaded.regions][:2] == [(0, 0, 400, 100), (0, 0, 200, 100)]


def test_an_empty_store_answers_with_nothing(library: Library) -> None:
    outcomes: list[SearchResult[Any]] = [library.text("red")]
    uploaded = library.search.detect(two_coloured("red", "blue"), 40, 20)
    outcomes += [library.image(uploaded, target="captions")]
    outcomes += [library.image(uploaded, target="images")]
    assert [len(outcome.results) for outcome in outcomes] == [0, 0, 0]


def test_what_is_new_is_found_and_what_is_deleted_is_not(library: Library) -> None:
    versions = {library.version}
    first = library.add("first", two_coloured("red", "red"), captions=["red"])
    versions.add(library.version)
    second = library.add("second", two_coloured("blue", "blue"))
    versions.add(library.version)
    assert found_ids(library.text("red")) == [first, second]
    library.catalog.delete(first, NOW)
    versions.add(library.version)
    assert found_ids(library.text("red")) == [second]
    picture = library.features(second)
    assert library.image(picture, second).results == []
    with pytest.raises(NotFound):
        library.features(first)
    assert len(versions) == 4


def test_a_picture_that_vanishes_during_a_query_makes_room_for_the_next(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [library.add(name, two_coloured(name, name)) for name in COLOURS]
    before = library.text("red", k=3)
    score = library.matcher.score

    def delete_meanwhile(images: object, words: Words) -> object:
        library.catalog.delete(found_ids(before)[1], NOW)
        return score(images, words)  # type: ignore[arg-type]

    monkeypatch.setattr(library.matcher, "score", delete_meanwhile)
    during = library.text("red", k=3)
    assert len(ids) == 8
    assert len(found_ids(during)) == 3
    assert found_ids(before)[1] not in found_ids(during)
    assert [hit.shortlist_rank for hit in during.results] != [1, 2, 3]


def test_what_was_shown_before_a_change_is_shown_as_it_is_now(library: Library) -> None:
    shown = library.add("shown", two_coloured("red", "red"), ["a red wall"], {"place": "Rome"}, taken_at=NOW)
    library.add("other", two_coloured("red", "blue"))
    elsewhere = Catalog(DataDir(library.folder).catalog)  # as another process has it

    def first() -> RankedPicture:
        return next(hit for hit in library.text("red").results if hit.image_id == shown)

    try:
        assert (first().captions, first().tags) == (("a red wall",), {"place": "Rome"})
        elsewhere.change(shown, PictureChange(captions=["red paint"], tags={"place": None}, filename="new.png"))
        assert (first().captions, first().tags, first().filename) == (("red paint",), {}, "new.png")
        elsewhere.change(shown, PictureChange(taken_at=None))
        assert first().taken_at is None
        elsewhere.delete(shown, NOW)
        assert shown not in found_ids(library.text("red"))
        elsewhere.restore(shown, NOW)
        assert first().filename == "new.png"
        slot = first().slot
        assert slot is not None
        elsewhere.region_stores.note_records(library.extractor.digest, [slot], {slot: "it cannot be read"}, NOW)
        assert shown not in found_ids(library.text("red"))
        elsewhere.region_stores.note_records(library.extractor.digest, [slot], {}, NOW)
        assert first().filename == "new.png"
    finally:
        elsewhere.close()


def test_a_picture_whose_regions_could_not_be_read_passes_no_filter(library: Library) -> None:
    ids = [library.add(name, two_coloured("red", name), tags={"place": "Rome"}) for name in ("red", "blue")]
    chosen = PictureFilter(tags={"place": "Rome"})
    assert found_ids(library.text("red", filter=chosen)) == ids
    blank = library.catalog.image(ids[0])
    assert blank is not None
    assert blank.slot is not None
    unreadable = {blank.slot: "it cannot be read"}
    library.catalog.region_stores.note_records(library.extractor.digest, [blank.slot], unreadable, NOW)
    assert found_ids(library.text("red", filter=chosen)) == ids[1:]


def test_a_caption_whose_picture_is_deleted_during_a_query_is_not_shown(library: Library) -> None:
    gone = library.add("gone", two_coloured("red", "red"), ["red"])
    kept = library.add("kept", two_coloured("red", "blue"), ["red and blue"])
    asked = library.features(kept)
    assert found_ids(library.image(asked)) == [kept, gone]
    begun = library.search.begin(ImageSearchRequest())
    library.catalog.delete(gone, NOW)
    assert found_ids(library.search.image(begun, asked, None)) == [kept]


def test_a_view_that_lags_answers_with_what_it_has(library: Library) -> None:
    first = library.add("first", two_coloured("red", "red"))
    library.add("second", two_coloured("red", "blue"), view=False)
    assert found_ids(library.text("red")) == [first]
    state = library.models.default.state(library.catalog)
    assert (state.state, state.pictures, state.missing_pictures) == ("building", 1, 1)
    library.catch_up()
    assert len(found_ids(library.text("red"))) == 2
    assert library.models.default.state(library.catalog).state == "ready"


def test_models_are_asked_by_name(library: Library) -> None:
    with pytest.raises(UnknownModel, match="Known: fake, other"):
        library.text("red", model="scam")
    assert not library.text("red", model="other").results  # an empty store needs no view
    first = library.add("first", two_coloured("red", "red"), ["a barn"])
    with pytest.raises(ViewNotBuilt, match="REGARD_VIEWS") as refused:
        library.text("barn", model="other")
    assert found_ids(library.text("barn", model="other", match="text", explain=True)) == [first]  # nor do texts
    assert refused.value.extra["build"] == {"state": "not built", "pictures": 0, "missing_pictures": 1}


def test_a_query_without_words_is_refused(library: Library) -> None:
    with pytest.raises(InvalidRequest, match="query"):
        library.search.text(library.search.begin(TextSearchRequest.model_construct(query="   ")))
