"""Questions in other languages are told so, and English ones are not, with what English borrowed."""

import json
import os
from pathlib import Path

import pytest

from service.search.wording.foreign_words import FUNCTION_WORDS, NOUNS, PERHAPS_NAMES
from service.search.wording.glossary import LANGUAGES
from service.search.wording.languages import ANOTHER, is_in_another_language, language_of
from service.search.wording.query_notes import FoundCounts
from tests.support.notes import note_for


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
    said = "word by word" if language in LANGUAGES else f"This looks like {language}"
    assert said in (note_for(query) or "")


def test_one_short_word_tells_a_language_beside_a_word_that_is_no_english() -> None:
    assert language_of("hund im schnee", ["hund"]) == "German"
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
    ("query", "language"),
    [
        *((query, "German") for query in ("Haus", "Blume", "Gras", "Kinder", "Berg", "Baum", "Strand")),
        *(("Kinder am Strand", "German"), ("soleil", "French"), ("mujer", "Spanish"), ("uomini", "Italian")),
        ("lago", ANOTHER),  # Spanish or Italian
        *((query, None) for query in ("kinder egg", "Berg lake", "Haus Wittgenstein", "Gare du Nord", "the Strand")),
    ],
)
def test_what_may_be_a_name_tells_a_language_beside_words_of_it_alone(query: str, language: str | None) -> None:
    assert language_of(query) == language


def test_the_language_is_not_told_where_texts_hold_the_words() -> None:
    assert "This looks like Dutch" in (note_for("hond op het strand") or "")
    assert note_for("hond op het strand", found=FoundCounts(3, 1)) is None


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


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("Frau mit Hut", "German"),
        ("coucher du ciel", "French"),
        ("mi perro", "Spanish"),
        ("tramonto sul mare", "Italian"),
        ("pies na plaży", "Polish"),
        ("kočka na gauči", "Czech"),
        ("plajda köpek", "Turkish"),
        ("koira rannalla", "Finnish"),
        ("anjing di pantai", "Indonesian"),
        ("câine pe plajă", "Romanian"),
        ("người đàn ông đội mũ", ANOTHER),
        ("gato no sofá", ANOTHER),  # Spanish or Portuguese
    ],
)
def test_short_phrases_are_told(query: str, language: str) -> None:
    assert language_of(query) == language


@pytest.mark.parametrize(
    "query",
    [
        *("São Paulo", "Rio de Janeiro", "Škoda", "Łódź", "Krzysztof Kieślowski", "Zürich", "café", "smörgåsbord"),
        *("Cirque du Soleil", "Jardin du Luxembourg", "Playa del Carmen", "Ina Garten", "Thomas Mann", "El Niño"),
        *("kinder egg", "bolo tie", "topi antelope", "nonna birthday", "Vogel bird house"),
        *("Ålesund Tromsø", "São João"),
    ],
)
def test_names_and_borrowed_words_are_no_other_language(query: str) -> None:
    assert language_of(query) is None
    assert not is_in_another_language(query, query.lower().split())


def test_a_word_that_is_no_english_makes_a_noun_of_another_language_sure() -> None:
    assert not is_in_another_language("plage")
    assert not is_in_another_language("plage", ["plage"])
    assert is_in_another_language("la plage bondée", ["bondée", "plage"])
    assert not is_in_another_language("pain au chocolat", ["chocolat"])


def test_a_language_has_a_word_once_and_its_nouns_are_in_small_letters() -> None:
    assert FUNCTION_WORDS.keys() == NOUNS.keys() | {"English"}
    assert PERHAPS_NAMES.keys() <= NOUNS.keys()
    for words in [*FUNCTION_WORDS.values(), *NOUNS.values(), *PERHAPS_NAMES.values()]:
        assert len(words.split()) == len(set(words.split()))
        assert words == words.lower()


@pytest.mark.realdata
def test_no_caption_of_a_photograph_is_taken_for_another_language() -> None:
    lines = (Path(os.environ["REGARD_TEST_DATA"]) / "flickr8k" / "captions.jsonl").read_text(encoding="utf-8")
    captions = [caption for line in lines.splitlines() for caption in json.loads(line)["captions"]]
    assert len(captions) > 30_000
    assert [caption for caption in captions if language_of(caption)] == []
