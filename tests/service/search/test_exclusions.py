"""Questions that rule something out: they are split in two parts, of which one counts against a picture."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.matching.calibration import Calibration
from models.matching.log_odds import LogOddsModel
from service.search.reading import NO_PROBABILITIES
from service.search.requests import ImageSearchRequest
from service.search.wording.exclusions import EXCLUDED_WEIGHT, Question, parts_of
from service.search.wording.parsed_query import parse_query
from service.search.wording.query_notes import FoundCounts
from tests.support.fakes import COLOURS
from tests.support.library import Library, image_id_of
from tests.support.not_none import not_none
from tests.support.notes import note_for


@pytest.mark.parametrize(
    ("question", "wanted", "excluded"),
    [
        ("a beach without people", "a beach", ["people"]),
        ("a beach without any people in the morning", "a beach in the morning", ["people"]),
        ("a street with no cars and no people", "a street", ["cars", "people"]),
        ("a street without cars or people", "a street", ["cars", "people"]),
        ("the sea without boats, people, or birds", "the sea", ["boats", "people", "birds"]),
        ("a street with no cars, people walking", "a street, people walking", ["cars"]),
        ("a man without a hat riding a bicycle", "a man riding a bicycle", ["a hat"]),
        ("a man with no hat on is smiling", "a man is smiling", ["hat"]),
        ("a man not wearing a hat", "a man", ["wearing a hat"]),
        ("a man who isn't wearing a hat", "a man", ["wearing a hat"]),
        ("a woman who is not looking at the camera", "a woman", ["looking at the camera"]),
        ("a child not on a swing", "a child", ["on a swing"]),
        ("a street without a building", "a street", ["a building"]),
        ("a kitchen, but no people", "a kitchen", ["people"]),
        ("not a dog but a cat", "a cat", ["a dog"]),
        ("nobody on the beach", "on the beach", ["people"]),
        ("a dog -snow", "a dog", ["snow"]),
        ('dog -"red ball" -snow grass', "dog grass", ["red ball", "snow"]),
        ("-snow a dog", "a dog", ["snow"]),
        ("no one on the beach", "on the beach", ["people"]),
        ("a bench with no one on it", "a bench", ["people"]),
        ("man without hat and woman with hat", "man and woman with hat", ["hat"]),
        ("dinner without meat, fish and eggs", "dinner", ["meat", "fish", "eggs"]),
        ("a street with no cars, people walking or cycling", "a street, people walking or cycling", ["cars"]),
        ("a street where there are no cars", "a street", ["cars"]),
        ("beach without people just sand", "beach just sand", ["people"]),
        ("a dog (not a cat)", "a dog", ["a cat"]),
        ("without people: beach", "beach", ["people"]),
        ("dog -“red ball” -cat -cat", "dog", ["red ball", "cat"]),
        ("red dog NOT blue", "red dog", ["blue"]),
        ("a lawn without the dog’s ball", "a lawn", ["the dog’s ball"]),
        ("a race with no all-terrain cars or on-lookers", "a race", ["all-terrain cars", "on-lookers"]),
        ("everything except dogs", "", ["dogs"]),  # nothing else is asked for
        ("there are no people", "", ["people"]),
        ("no people", "", ["people"]),
        ("photos without people or cars", "", ["people", "cars"]),
        ("-snow", "", ["snow"]),
        ("not a dog", "", ["a dog"]),
        ("nobody", "", ["people"]),
    ],
)
def test_a_question_is_split_into_what_it_asks_for_and_what_it_rules_out(
    question: str, wanted: str, excluded: list[str]
) -> None:
    assert parts_of(question) == Question(wanted, tuple(excluded))


@pytest.mark.parametrize(
    "question",
    [
        *("without", "a dog without", "no", "No smoking!", "no entry", "do not enter"),
        *("a man without a shirt", "a girl with no shoes on"),  # captions say so of what pictures show
        *("a man wearing no hat climbs a steep cliff", "a room without very big old dirty windows"),  # too long
        *("nobody is wearing a hat", "knock knock no one is there", "not everyone is smiling", "no one but me"),
        *("a railway no longer in use", "not far from the beach", "people with or without masks", "to be or not to be"),
        *("a not so happy dog", "a no smoking area", "what is not a dog", "the no button", "bus no seven", "tv not on"),
        *("Dr No poster", "Man with No Name", "a sculpture by Not Vital", "protest sign no war", "tattoo no regrets"),
        *(
            "red not '",
            "red without - blue",
            "red not 5",
            "no there is people in the beach",
            "not of cars",
            "Artist -Title.jpg",
        ),
        " ".join(["a dog", *(f"-{letter}x" for letter in "abcdefghi")]),  # more than a question has
        *("a T-shirt", "black-and-white", "2019 - 2020", "a - b", "-5 degrees", "a child never alone"),
    ],
)
def test_other_questions_are_read_as_they_are(question: str) -> None:
    assert parts_of(question) == Question(question)


@given(
    st.text(st.sampled_from("a -n,.\"'"), max_size=30)
    | st.lists(
        st.sampled_from(
            [
                *("a", "red", "not", "no", "without", "-red", "and", "or", "but"),
                *(",", "wearing", "on", "nobody", '-"x y"', "with"),
            ]
        ),
        max_size=12,
    ).map(" ".join)
)
def test_every_word_of_the_parts_is_of_the_question_and_something_is_wanted(question: str) -> None:
    wanted, excluded = parts_of(question)
    assert wanted == question or excluded
    words = {*question.lower().replace('"', " ").replace("-", " ").replace(",", " ").split(), "people"}
    for part in (wanted, *excluded) if excluded else ():
        assert words.issuperset(part.lower().replace("-", " ").replace(",", " ").replace('"', " ").split())


def by_id(library: Library, query: str) -> dict[str, float | None]:
    return {hit.image_id: hit.score for hit in library.text(query, k=64, shortlist=64, match="pictures").results}


@given(
    wanted=st.sampled_from(list(COLOURS)),
    excluded=st.lists(st.sampled_from(list(COLOURS)), min_size=1, max_size=3, unique=True),
)
def test_excluded_things_are_subtracted_from_the_score(full: Library, wanted: str, excluded: list[str]) -> None:
    scores = by_id(full, " ".join([wanted, *(f"-{colour}" for colour in excluded)]))
    each = [by_id(full, colour) for colour in (wanted, *excluded)]
    assert len(scores) == 64
    for image_id, score in scores.items():
        of_wanted, *of_excluded = (of_colour[image_id] for of_colour in each)
        assert of_wanted is not None
        assert score == pytest.approx(of_wanted - EXCLUDED_WEIGHT * sum(filter(None, of_excluded)), abs=1e-5)
    assert list(scores.values()) == sorted(scores.values(), key=lambda score: -(score or 0.0))


@given(excluded=st.lists(st.sampled_from(list(COLOURS)), min_size=1, max_size=3, unique=True))
def test_where_nothing_else_is_asked_for_pictures_go_by_what_they_do_not_show(
    full: Library, excluded: list[str]
) -> None:
    outcome = full.text(f"photos without {' or '.join(excluded)}", k=64, shortlist=64, explain=True, match="pictures")
    each = [by_id(full, colour) for colour in excluded]
    for hit in outcome.results:
        assert hit.score == pytest.approx(-sum(of_colour[hit.image_id] or 0.0 for of_colour in each), abs=1e-5)
        assert hit.probability is None
        assert hit.explanation is not None
        assert sum(hit.explanation.contributions or ()) == pytest.approx(hit.score, abs=1e-5)
        assert all(word.excluded for word in hit.explanation.words)
    assert outcome.matched is None


def test_a_question_that_only_rules_something_out_has_no_probabilities(
    full: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = LogOddsModel(1.0, 0.0)
    monkeypatch.setattr(full.matcher, "calibration", Calibration(text=line, image=line))
    least, plain = (full.text("no red", match="pictures", min_probability=least) for least in (0.9, None))
    assert least.results == plain.results
    assert least.reading.note == f"{plain.reading.note} {NO_PROBABILITIES}"


def test_a_picture_without_the_excluded_thing_comes_first(full: Library) -> None:
    plain = full.text("red", k=20, shortlist=64, match="pictures").results
    assert any("blue" in hit.filename for hit in plain)
    less = full.text("red without blue or green", k=8, shortlist=64, match="pictures").results
    assert not any("blue" in hit.filename or "green" in hit.filename for hit in less)


def test_a_short_shortlist_leaves_excluded_things_out(full: Library) -> None:
    for query in ("red without blue", "red -blue"):
        outcome = full.text(query, k=8, shortlist=8, match="pictures")
        assert not any("blue" in hit.filename for hit in outcome.results)


def test_contributions_add_up_to_the_score_and_those_of_excluded_words_count_against_it(full: Library) -> None:
    plain = full.text("blue", k=64, shortlist=64, explain=True, match="pictures").results
    of_blue = {hit.image_id: not_none(hit.score) for hit in plain}
    outcome = full.text("red and white without blue", k=10, shortlist=64, explain=True, match="pictures")
    for hit in outcome.results:
        why = hit.explanation
        assert why is not None
        assert why.contributions is not None
        assert why.shares is not None
        assert [word.text for word in why.words if not word.special] == ["red", "and", "white", "blue"]
        assert [word.text for word in why.words if word.excluded] == ["<start>", "blue", "<end>"]
        assert len(why.words) == len(why.contributions) == len(why.attention or ()) == len(why.shares)
        assert sum(why.contributions) == pytest.approx(hit.score, abs=1e-5)
        assert sum(map(sum, why.shares)) == pytest.approx(hit.score, abs=1e-5)
        blue = [word.text for word in why.words].index("blue")
        assert why.contributions[blue] == pytest.approx(-EXCLUDED_WEIGHT * of_blue[hit.image_id], abs=1e-5)


def test_words_beside_a_picture_may_rule_something_out(full: Library) -> None:
    def ranks(query: str) -> dict[str, int]:
        request = ImageSearchRequest(image_id=image_id_of("red and white"), target="images", query=query, k=63)
        query_begun = full.search.begin(request)
        results = full.search.like_stored(query_begun, image_id_of("red and white")).results
        return {hit.filename: hit.rank for hit in results}

    with_blue, without_blue = ranks("red"), ranks("red without blue")
    assert without_blue["red and blue.png"] > with_blue["red and blue.png"]
    assert ranks("without blue")["red and blue.png"] > ranks("blue")["red and blue.png"]


def test_there_is_no_verdict_that_a_picture_without_it_is_there() -> None:
    assert parse_query("red -blue").excluded == ("blue",)
    assert parse_query("ein Strand ohne Menschen").excluded == ("people",)
    assert parse_query("").excluded == ()


def test_the_note_says_what_comes_later() -> None:
    assert note_for("a street without cars or people", found=FoundCounts(3)) == (
        "Pictures that show “cars” or “people” come later."
    )
    assert note_for("a dog -cat") == "“cat” is left out."  # of one picture's explanation
