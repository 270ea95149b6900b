"""Questions that models cannot read as they were meant are told so, and ordinary ones are left alone."""

import json
import os
from pathlib import Path

import pytest

from service.search.query_notes import is_in_another_language, language_of, negation_in, note_on

ORDINARY = (
    "a dog runs on the beach",
    "pizza",
    "Two men in red shirts",
    "people at a de facto border",
    "a la carte menu on a table",
    "le mans race cars",
    "notebook and nothingness",
    "IMG_0412",
    "",
    "☃",
)


@pytest.mark.parametrize("query", ORDINARY)
def test_ordinary_questions_have_no_note(query: str) -> None:
    assert note_on(query) is None


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("a kitchen without people", "without"),
        ("No dogs on a beach", "No"),
        ("a man who isn't wearing a hat", "isn't"),
        ("a man who doesn’t smile", "doesn’t"),
        ("everything except cats", "except"),
    ],
)
def test_a_word_that_rules_something_out_is_named(query: str, word: str) -> None:
    assert negation_in(query) == word
    assert f"“{word}” is hardly understood" in (note_on(query) or "")


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("ein Hund läuft am Strand", "German"),
        ("zwei Kinder spielen mit dem Ball", "German"),
        ("un chien court sur la plage", "French"),
        ("un perro corre por la playa", "Spanish"),
        ("un cane che corre sulla spiaggia", "Italian"),
        ("um cachorro com uma bola na praia", "Portuguese"),
        ("een hond op het strand", "Dutch"),
        ("собака на пляже", "another language than English"),
        ("海辺の犬", "another language than English"),
        ("κορίτσι στην παραλία", "another language than English"),
    ],
)
def test_another_language_is_named(query: str, language: str) -> None:
    assert language_of(query) == language
    assert f"This looks like {language}" in (note_on(query) or "")


def test_one_short_word_tells_a_language_beside_a_word_that_is_no_english() -> None:
    assert language_of("hund im schnee", ["hund"]) == "German"
    assert "This looks like German" in (note_on("hund im schnee", 0, ["hund"]) or "")
    assert language_of("kasten im park") is None
    assert language_of("a hund im schnee", ["hund"]) is None
    assert language_of("dgo park", ["dgo"]) is None
    assert language_of("dog im park", ["im"]) is None
    assert language_of("a black dgo near the im", ["dgo"]) is None


def test_a_noun_tells_a_language_where_no_english_stands_beside_it() -> None:
    assert language_of("Hund") == "German"
    assert language_of("Sie spielt Fußball am Strand", ["fußball"]) == "German"
    assert language_of("a Hund in the snow") is None
    assert language_of("perro grande") == "Spanish"


@pytest.mark.parametrize(
    "query",
    [
        *("la vie en rose", "pain au chocolat", "femme fatale", "dia de los muertos parade", "cafe au lait"),
        *("los angeles skylne", "van gogh paintng", "i am runing", "i do yoga", "Hund", "ein Hund in the snow"),
    ],
)
def test_borrowed_expressions_and_single_words_are_no_other_language_for_sure(query: str) -> None:
    assert not is_in_another_language(query)


@pytest.mark.parametrize(
    "query",
    ["un chien dans la neige", "ein Hund läuft durch das Wasser", "zwei Kinder mit dem Ball", "собака на пляже"],
)
def test_whole_sentences_are_in_another_language_for_sure(query: str) -> None:
    assert is_in_another_language(query)


def test_a_language_is_told_before_what_is_ruled_out() -> None:
    assert "German" in (note_on("eine Küche ohne den Hund not") or "")


def test_what_is_left_of_words_that_only_ask_is_said() -> None:
    assert note_on("Is there a zebra?") == "Searched for “a zebra”."
    note = note_on("show me photos of a kitchen without people")
    assert note is not None
    assert note.startswith("Searched for “a kitchen without people”. “without” is hardly understood")


def test_pictures_that_cannot_be_found_yet_are_told_where_they_are_more_than_come_in_at_a_time() -> None:
    assert note_on("pizza", 10) is None
    assert note_on("pizza", 11) == "11 pictures that are stored cannot be found yet."


@pytest.mark.realdata
def test_no_caption_of_a_photograph_is_taken_for_another_language() -> None:
    lines = (Path(os.environ["REGARD_TEST_DATA"]) / "flickr8k" / "captions.jsonl").read_text(encoding="utf-8")
    captions = [caption for line in lines.splitlines() for caption in json.loads(line)["captions"]]
    assert len(captions) > 30_000
    assert [caption for caption in captions if language_of(caption)] == []
