"""Questions in languages with a glossary are read as English, and English ones are left alone."""

import json
import os
from pathlib import Path

import pytest

from models.text.spellings import words_of_captions, words_of_english_texts
from service.search.wording.foreign_words import FUNCTION_WORDS
from service.search.wording.glossary import LANGUAGES, glossaries
from service.search.wording.languages import language_of
from service.search.wording.parsed_query import parse_query
from service.search.wording.translation import translation_of
from tests.support.library import Library


@pytest.mark.parametrize(
    ("question", "english"),
    [
        ("Hund im Schnee", "dog in the snow"),
        ("ein großer schwarzer Hund", "a big black dog"),
        ("zwei Kinder spielen am Strand", "two children playing at the beach"),
        ("Strandhaus", "beach house"),
        ("grün-weißer Bus mit Leuten", "green-white bus with people"),
        ("ma grand-mère", "my grandmother"),
        ("Hund in der Stadt", "dog in the city"),
        ("rotes Auto", "red car"),
        ("un chien noir dans l'herbe", "a black dog in the grass"),
        ("des chevaux blancs", "of the white horses"),
        ("L’homme à vélo", "the man at bicycle"),
        ("un niño con un globo rojo", "a boy with a red balloon"),
        ("perros grandes en la playa", "big dog in the beach"),
        ("un cane che corre sulla spiaggia", "a dog that running on the beach"),
        ("una ragazza con i capelli rossi", "a girl with the red hair"),
        ("Hund mit Bello", "dog with Bello"),  # no glossary has the name
        ("Giraffe vor Bäumen", "giraffe in front of trees"),
        ("lago", "lake"),  # Spanish or Italian
        ("Hund, Katze!", "dog, cat"),
        ("Kinder am Strand 2021", "children at the beach"),
        ("niemand auf der Straße", "on the street"),  # without what is ruled out
        ("plage, pas de gens", "beach"),
    ],
)
def test_a_question_is_read_word_by_word(question: str, english: str) -> None:
    assert parse_query(question).wanted_or_all == english


@pytest.mark.parametrize(
    "question",
    [
        *("chat", "pain", "kind", "gift", "brief", "hell", "main", "sale", "mare", "a dog", "pizza", "taxi"),
        *("São Paulo", "van gogh", "Max", "Rosa Parks", "film noir", "kindergarten", "Vogel bird house"),
        *("een hond op het strand", "собака на пляже", "cachorro na praia", "...", "2021", "IMG_0412"),
    ],
)
def test_english_names_and_other_languages_stay_as_they_are(question: str) -> None:
    assert translation_of(question) is None


def test_the_answer_says_what_was_read(full: Library) -> None:
    german, english = (full.text(query, match="pictures") for query in ("Rot und Blau", "red and blue"))
    assert [(hit.image_id, hit.score) for hit in german.results] == [
        (hit.image_id, hit.score) for hit in english.results
    ]
    assert german.reading.read_as == {"rot": "red", "blau": "blue"}
    assert german.reading.note == "Read as “red and blue”, word by word: models read English alone."
    assert german.matched == english.matched


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_that_tells_a_language_is_in_no_english_text(language: str) -> None:
    glossary = glossaries()[language]
    assert len(glossary.entries) > 700
    assert [word for word, entry in glossary.entries.items() if entry.telling and word in words_of_captions()] == []
    assert [word for word in FUNCTION_WORDS[language].split() if glossary.find(word) is None] == []


@pytest.mark.parametrize("question", ["{}", "a {}", "{} drinking water"])
def test_no_word_of_an_english_caption_is_taken_for_another_language(question: str) -> None:
    """Though some are inflected words of others: giraffe, vase, statue, grass."""
    assert [word for word in words_of_captions() if translation_of(question.format(word)) is not None] == []


def test_only_words_of_the_glossary_itself_tell_their_language_alone() -> None:
    """Other words of English texts do not, as Linda and Einstein, that look inflected or composed."""
    foreign = {word for language in LANGUAGES for word in glossaries()[language].entries}
    english = words_of_english_texts() - words_of_captions() - foreign
    assert len(english) > 10_000
    assert [word for word in english if translation_of(word) is not None and language_of(word) is None] == []


@pytest.mark.realdata
def test_no_caption_of_a_photograph_is_taken_for_another_language() -> None:
    lines = (Path(os.environ["REGARD_TEST_DATA"]) / "flickr8k" / "captions.jsonl").read_text(encoding="utf-8")
    captions = [caption for line in lines.splitlines() for caption in json.loads(line)["captions"]]
    assert [caption for caption in captions if translation_of(caption) is not None] == []
