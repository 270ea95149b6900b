"""Known, misspelt and no words, by a small lexicon; the distance against its definition in loops."""

import random

import numpy as np
import pytest

from models.text.lexicon import LETTERS, LetterTable, Lexicon, sound_of
from tests.support.project_files import ROOT

COMMON = ("bicycle", "elephant", "umbrella", "elegant", "giraffe", "horse", "sandwich", "which", "sand", "board")
LEXICON = Lexicon((*COMMON, "icicle", "corgi", "grass", "bake", "run", "merry"), len(COMMON))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("bycicle", "bicycle"),
        ("elefant", "elephant"),
        ("umbrela", "umbrella"),
        ("girafe", "giraffe"),
        ("hrose", "horse"),
        ("sandwhich", "sandwich"),  # though it is made of sand and which
        ("umbrellla", "umbrella"),
        ("bicycle", None),
        ("icicle", None),
        ("corgy", None),  # corgi is known and not common
        ("sandboard", None),
        ("grassy", None),
        ("baking", None),
        ("running", None),
        ("merrily", None),
        ("hors", "horse"),
        ("hor", None),
        ("labradoodle", None),
    ],
)
def test_a_word_is_read_as_the_common_word_that_was_meant(written: str, read: str | None) -> None:
    assert LEXICON.correction(written) == read


def distance_in_loops(one: str, other: str) -> int:
    rows = [[i + j if 0 in (i, j) else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            replaced = rows[i - 1][j - 1] + (one[i - 1] != other[j - 1])
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, replaced)
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


def test_distances_are_those_of_the_definition() -> None:
    draw = random.Random(0)
    words = ["".join(draw.choice("abc") for _ in range(draw.randrange(1, 9))) for _ in range(200)]
    table = LetterTable(words)
    for word in words[:30]:
        expected = [distance_in_loops(word, other) for other in words]
        assert table.distances(word, np.arange(len(words))).tolist() == expected


def test_sounds() -> None:
    assert sound_of("elephant") == sound_of("elefant")
    assert sound_of("bicycle") == sound_of("bycicle")
    assert sound_of("cat") != sound_of("sat")


def test_letters_that_no_word_has_are_noise() -> None:
    pages = "".join((ROOT / "docs" / page).read_text("utf-8") for page in ("design.md", "glossary.md", "http.md"))
    lexicon = Lexicon(sorted(set(LETTERS.findall(pages.lower()))), 0)
    for noise in ("xkcdvb", "qwrtz", "asdfghjk", "zzzzq"):
        assert lexicon.is_noise(noise)
    for word in (*lexicon.words, "umbrella", "pelican", "singing", "xq"):
        assert not lexicon.is_noise(word)


def test_a_lexicon_without_common_words_corrects_nothing() -> None:
    assert Lexicon(["horse"], 0).correction("hrose") is None


def test_words_that_are_right_or_whose_reading_is_given_go_before_the_rules() -> None:
    lexicon = Lexicon(
        (*COMMON, "frisbe", "frisbee"), len(COMMON), {"hors", "zzzzq"}, {"frisbe": "frisbee", "dgo": "dog"}
    )
    assert lexicon.correction("hors") is None
    assert not lexicon.is_noise("zzzzq")
    assert lexicon.correction("frisbe") == "frisbee"  # though captions made it known
    assert lexicon.correction("dgo") == "dog"  # shorter than the rules judge
    assert "hors" not in lexicon


@pytest.mark.parametrize(
    ("drawn_out", "read"),
    [
        ("sooo", "so"),
        ("coooool", "cool"),
        ("horseeee", "horse"),
        ("xxxxq", None),
        ("shhh", None),
        ("cooler", None),
        ("muuug", "muug"),
    ],
)
def test_letters_that_are_drawn_out_are_there_once_or_twice(drawn_out: str, read: str | None) -> None:
    lexicon = Lexicon(["so", "cool", "horse", "col"], 3, {"soo", "sh", "coool", "muug"})
    assert lexicon.correction(drawn_out) == read
