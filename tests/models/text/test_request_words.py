"""Words that only ask are left out of a question; whatever says what a picture shows stays."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.evaluation.class_names import TEMPLATES, from_template
from models.text.request_words import subject_of


@pytest.mark.parametrize(
    "marked",
    [
        *("a photo of [a pizza]", "A Photo of [a Pizza]", "photos of [two dogs on a beach]"),
        *("all my pictures of [Anna]", "an image showing [a red bus]", "show me a picture of [a cat]"),
        *("please find me [some dogs]", "find [a man in a red shirt]", "search for [bicycles]", "show us [the lake]"),
        *("find pictures of [snow]", "We would like pictures of [our dog]", "I want to see [snow]"),
        *("I’m looking for [a boat]", "is there [a zebra]?", "Are there photos of [a lake] ?"),
        *("do you have pictures of [cats]?", "a photo of [a man taking a photo of a dog]", "find [Minka]"),
        *("Can you please show me [a bus]?", "show me all pictures with [a bus]", "find photos with [two dogs]"),
        *("show me [photos with and without snow]", "which photos show [a picture with a gold frame]"),
        *("where is [the picture with the gold frame]?", "are there any photos with [snow]?"),
        *("hey, could you find [the bus]", "let me see a photo of [a dog]", "where is [my cat]?"),
        *("where did I see [a cat]", "I need a picture of [a train]", "looking for pics of [trains] please"),
        *("which photos have [dogs]", "in which photo is [Minka]", "[Minka], please!", "got any [zebras]?"),
    ],
)
def test_words_that_ask_are_left_out(marked: str) -> None:
    before, subject, after = re.split(r"[\[\]]", marked)
    assert subject_of(before + subject + after) == subject


@pytest.mark.parametrize("question", ["ａ ｄｏｇ", "𝓪 𝓭𝓸𝓰"])
def test_letters_of_other_forms_are_read_as_plain_ones(question: str) -> None:
    assert subject_of(question) == "a dog"


@pytest.mark.parametrize(
    "question",
    [
        "a blurry picture of a dog",  # says something of the picture
        *("a dog runs on the beach", "There are two dogs", "a photo", "pictures of", "a wall with pictures"),
        *("photos with frames", "show me", "show jumping", "show US flags", "show Jumping", "get Out", "get a grip"),
        *("Find Nemo", "find nemo", "hi there", "an old photo of a dog", "shots of tequila", "please", "red, green,"),
        *("giving thanks", "a cake with the words thank you", "a sign that says please"),
        *("a picture with a golden frame", "is it a dog?", "find me", "we want peace", "I want you poster"),
        *("is there?", "findings on a table", "a picture frame", "a man looking for his keys", "what is on the table?"),
        *("a photo of ...", "a photo of \N{BLACK SQUARE}", "", "☃"),
    ],
)
def test_other_questions_stay_as_they_are(question: str) -> None:
    assert subject_of(question) == question


@given(st.text(max_size=60))
def test_a_subject_is_a_part_of_the_question_and_has_a_word_if_it_has(question: str) -> None:
    subject = subject_of(question)
    plain = unicodedata.normalize("NFKC", question)
    assert subject in plain
    assert re.search(r"\w", subject) or subject == plain


@pytest.mark.parametrize("name", ["dog", "orange", "wine glass"])
def test_an_object_is_asked_for_alike_in_all_wordings_with_an_article(name: str) -> None:
    subjects = {subject_of(from_template(template, name)) for template in TEMPLATES}
    assert subjects == {from_template(template, name) for template in ("X", "a X", "Xs")}
