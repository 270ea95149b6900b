"""Search in pictures and in their text: one list of both, and nothing changed where no text matches."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.matching.calibration import Calibration
from models.matching.log_odds import LogOddsModel
from service.search.fusion import RANK_CONSTANT, fused
from service.search.requests import PictureFilter
from service.search.results import TextSearchResult
from service.search.wording.periods import Suggestion
from tests.support.fakes import COLOURS, FakeMatcher
from tests.support.library import NAMES, Library, image_id_of, two_coloured

ALBUMS = ["Beach", "Oslo", "Garden", "Alps"]
CAPTIONS = ["our zeppelin", "grandmother with Bello", "the old lighthouse", "a birthday cake", "fireworks"]
QUESTIONS = {
    "IMG_0412": 12,
    "img_0400.jpg": 0,
    "0431": 31,
    "DSC00403": 3,
    "photo IMG_0407": 7,
    "beach 2020": 0,
    "Oslo 2021": 5,
    "garden May 2021": 6,
    "alps 2020": 3,
    "beach December 2022": 8,
    "2023-06-13": 12,
    "14 June 2023": 13,
    "october 2021": 5,
    "January 2020": 0,
    "oslo may 2022": 9,
    "zeppelin": 0,
    "a picture of Bello": 1,
    "lighthouse": 2,
    "cakes": 3,
    "Grandmother": 1,
}
MONTHS = [1, 2, 3, 4, 5, 10, 5, 8, 12, 5, 9, 11, 6, 6, 7, 10]


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Forty photographs that look alike, in albums by place and month; the first sixteen have dates."""
    library = Library(tmp_path_factory.mktemp("album"))
    for n in range(40):
        dated = datetime(2020 + n // 4, MONTHS[n], n + 1, tzinfo=UTC).timestamp() if n < len(MONTHS) else None
        left, right = NAMES[n % 8].split(" and ")
        library.add(
            f"photo {n}",
            two_coloured(left, right),
            filename=f"DSC{400 + n:05}.JPG" if n == 3 else f"IMG_{400 + n:04}.jpg",
            captions=CAPTIONS[n : n + 1],
            tags={"album": ALBUMS[n % 4]},
            taken_at=dated,
            view=False,
        )
    library.catch_up()
    yield library
    library.close()


def found_ids(outcome: TextSearchResult) -> list[str]:
    return [hit.image_id for hit in outcome.results]


def scored(outcome: TextSearchResult) -> dict[str, tuple[float | None, float | None, int | None]]:
    return {hit.image_id: (hit.score, hit.probability, hit.shortlist_rank) for hit in outcome.results}


def test_names_dates_albums_and_captions_bring_their_picture_first(album: Library) -> None:
    assert len(QUESTIONS) == 20
    for shortlist in (10, 100):  # pictures beyond the shortlist are found, too
        first = {question: album.text(question, match="both", shortlist=shortlist).results[0] for question in QUESTIONS}
        right = [first[question].image_id == image_id_of(f"photo {n}") for question, n in QUESTIONS.items()]
        assert sum(right) >= 19, [question for question, ok in zip(QUESTIONS, right, strict=True) if not ok]


@pytest.mark.slow
@given(
    query=st.lists(st.sampled_from([*COLOURS, "zebra", "AND", '"', "*"]), min_size=1, max_size=4).map(" ".join),
    k=st.integers(1, 64),
    shortlist=st.integers(64, 100),
)
def test_where_no_text_matches_nothing_changes(full: Library, query: str, k: int, shortlist: int) -> None:
    asked: dict[str, Any] = {"query": f"{query} unwritten", "k": k, "shortlist": shortlist}
    pictures, both = full.text(**asked, match="pictures"), full.text(**asked, match="both")
    assert both.results == pictures.results
    assert full.text(**asked, match="text").results == []


def test_the_tenth_of_both_lists_comes_before_the_first_of_one() -> None:
    """2 / 70 is more than 1 / 61: who is on both lists need not be far up."""
    ranking = list(range(10))
    assert fused(ranking, {9: 10})[:2] == [9, 0]
    assert fused(ranking, {20: 1})[:2] == [20, 0]  # as much, by its text
    assert fused(ranking, {20: 2})[:3] == [0, 20, 1]  # 1 / 62, as much as the second


@given(
    ranking=st.lists(st.integers(0, 30), unique=True, max_size=20),
    ranks=st.dictionaries(st.integers(0, 30), st.integers(1, 9), max_size=12),
)
def test_places_are_those_of_the_sums_of_reciprocal_ranks(ranking: Sequence[int], ranks: Mapping[int, int]) -> None:
    def total(slot: int) -> float:
        by_pictures = 1 / (RANK_CONSTANT + ranking.index(slot) + 1) if slot in ranking else 0.0
        return by_pictures + (1 / (RANK_CONSTANT + ranks[slot]) if slot in ranks else 0.0)

    order = fused(ranking, ranks)
    assert sorted(order) == sorted({*ranking, *ranks})
    assert [total(slot) for slot in order] == sorted(map(total, order), reverse=True)
    assert fused(ranking, {}) == ranking
    for better, worse in pairwise(ranking):  # what one list alone ranks keeps its order
        if better not in ranks and worse not in ranks:
            assert order.index(better) < order.index(worse)


@pytest.mark.parametrize("calibrated", [False, True])
def test_scores_are_those_of_the_pictures_alone(
    full: Library, monkeypatch: pytest.MonkeyPatch, calibrated: bool
) -> None:
    if calibrated:
        direction = LogOddsModel(2.0, -1.0, 1.0, 0.5)
        monkeypatch.setattr(full.matcher, "calibration", Calibration(text=direction, image=direction))
    pictures = scored(full.text("red and blue", k=64, match="pictures"))
    both = full.text("red and blue", k=64, match="both")
    assert scored(both) == pictures
    assert {hit.found_by for hit in both.results} == {("pictures",), ("pictures", "text")}
    assert {hit.image_id for hit in both.results if "text" in hit.found_by} == {
        image_id_of(name) for name in ("red and blue", "blue and red")
    }


def test_an_answer_begins_with_every_shorter_answer(full: Library) -> None:
    longest = found_ids(full.text("a picture of green", k=64, match="both"))
    for k in (1, 5, 20):
        assert found_ids(full.text("a picture of green", k=k, match="both")) == longest[:k]


def test_what_the_text_alone_found_has_no_score_and_says_why_it_is_there(full: Library) -> None:
    outcome = full.text("cyan and yellow", match="text", explain=True)
    assert outcome.matched is True
    assert full.text("unwritten", match="text").matched is False
    assert set(found_ids(outcome)) == {image_id_of("cyan and yellow"), image_id_of("yellow and cyan")}
    for hit in outcome.results:
        assert (hit.score, hit.probability, hit.shortlist_rank, hit.found_by) == (None, None, None, ("text",))
        assert hit.explanation is not None
        assert (hit.explanation.kind, [word.text for word in hit.explanation.words]) == ("text", ["cyan", "yellow"])
        assert list(hit.explanation.regions) == []


def test_a_limit_leaves_out_what_looks_wrong_and_not_what_is_called_so(full: Library) -> None:
    named = full.text("red", match="both", k=64, min_score=1e9, filter=PictureFilter(tags={"left": "red"}))
    assert {hit.found_by for hit in named.results} == {("text",)}
    assert len(named.results) == 8
    assert named.left_out == 0  # of the eight that pass the filter
    assert {hit.tags["left"] for hit in named.results} == {"red"}


def test_a_hit_of_both_kinds_is_explained_by_its_regions(full: Library) -> None:
    mixed = full.text("magenta", match="both", explain=True, shortlist=2, k=2)
    kinds = {hit.found_by: hit.explanation.kind for hit in mixed.results if hit.explanation}
    expected = {("pictures",): "words attend regions", ("pictures", "text"): "words attend regions", ("text",): "text"}
    assert kinds.items() <= expected.items()
    beyond = full.text("black zebra", match="both", explain=True, shortlist=10, min_score=1e9)
    assert beyond.results == []


def test_pictures_are_found_by_text_before_a_view_holds_them(tmp_path: Path) -> None:
    library = Library(tmp_path, others=[FakeMatcher("other", "other-digest")])
    name = library.add("zeppelin", two_coloured("red", "red"), view=False)
    assert found_ids(library.text("zeppelin", match="both")) == [name]
    assert found_ids(library.text("zeppelin", match="pictures")) == []
    library.catch_up()
    assert [hit.found_by for hit in library.text("zeppelin", match="both").results] == [("pictures", "text")]
    library.catalog.delete(name, now=1.0)
    assert found_ids(library.text("zeppelin", match="both")) == []
    library.close()


def test_the_newest_of_the_best_comes_first_by_date(album: Library) -> None:
    dated = album.text("Beach", match="text", sort="date", k=10)
    times = [hit.taken_at for hit in dated.results]
    assert times[0] is not None
    assert times == sorted(times, key=lambda at: (at is None, -(at or 0)))


def test_what_the_text_found_comes_first_of_a_date_alone() -> None:
    assert fused([1, 2, 3, 4], {9: 2, 4: 1}, text_first=True) == [4, 9, 1, 2, 3]
    assert fused([1, 2], {}, text_first=True) == [1, 2]


def test_a_tag_that_is_named_beside_other_words_is_offered_as_a_filter(album: Library) -> None:
    note = "There are pictures with “album: Oslo”: filter by that to look at these alone."
    assert album.text("red in Oslo", match="both").reading.note == note
    filtered = PictureFilter(tags={"album": "Oslo"})
    for other in (album.text("red in Oslo", match="both", filter=filtered), album.text("Oslo 2021", match="both")):
        assert "filter by that" not in (other.reading.note or "")


def test_a_date_beside_other_words_is_offered_as_a_filter_where_pictures_have_it(album: Library) -> None:
    def offered(query: str, **condition: Any) -> Suggestion | None:
        return album.text(query, match="both", filter=PictureFilter.model_validate(condition)).reading.suggestion

    in_may = Suggestion("red", {"gte": "2021-05", "lte": "2021-05"})
    assert offered("red in May 2021") == offered("red in May 2021", tags={"album": "Beach"}) == in_may
    assert offered("red in May 2021", tags={"album": "Oslo"}) is offered("red in May 2021", taken_at="2021") is None
    assert offered("red after 2023") is offered("red") is None
    like = album.image(album.features(image_id_of("photo 1")), target="images", query="red in May 2021")
    assert like.reading.suggestion == in_may


def test_words_of_a_text_are_not_told_as_misread(album: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(album.matcher, "near_words", lambda sentence: {"oslo": "also"})
    assert album.text("red Oslo", match="both").reading.read_as == {"oslo": "also"}
    assert album.text("Oslo", match="both").reading.read_as == {}


def test_the_name_of_a_folder_hardly_counts_where_pictures_show_what_is_asked_for(tmp_path: Path) -> None:
    """Of an album named so only those that show it come before others that do; one that a caption names does, too."""
    library = Library(tmp_path)
    for n in range(40):
        library.add(
            f"album {n}", two_coloured("red" if n < 3 else "blue", "blue"), tags={"album": "Red 2019/Zeppelins"}
        )
    for n in range(40):
        library.add(f"other {n}", two_coloured("red", "green"), filename=f"{n}.png")
    library.add("captioned", two_coloured("blue", "blue"), captions=["a red ribbon"])
    library.catch_up()
    names = {image_id_of(f"{kind} {n}"): kind for kind in ("album", "other") for n in range(40)}
    try:
        first = [names.get(one, "captioned") for one in found_ids(library.text("a red", k=20, match="both"))]
        assert first[:4] == ["captioned", "album", "album", "album"]
        assert set(first[4:10]) == {"other"}  # as a list of its own the album came first as a whole
        for question in ("zeppelins", "red 2019"):  # which pictures do not show
            found = found_ids(library.text(question, k=40, match="both"))
            assert {names.get(one) for one in found} == {"album"}, question
        by_text = found_ids(library.text("red", k=41, match="text", shortlist=100))
        assert by_text[0] == image_id_of("captioned")
        assert {names.get(one) for one in by_text[1:]} == {"album"}
    finally:
        library.close()
