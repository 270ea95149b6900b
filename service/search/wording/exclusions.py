"""Things that a question rules out, as "people" in "a beach without people": models would look for them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from index.catalog.text.search import MINUS
from models.text.content_words import is_content_word
from service.search.wording.negations import PART_OF_A_SIGN, SAID_BY_A_SIGN, negation_in

EXCLUDED_WEIGHT = 0.5  # of what is ruled out beside what is wanted: docs/lab/exclusions.md
MOST_EXCLUDED = 8  # things; each costs as much as another question
MOST_WORDS = 3  # of a thing: a longer phrase says more than what is ruled out

_NEGATION = re.compile(
    rf"""{SAID_BY_A_SIGN}
    (?:\s*,\s*)?(?:\b(?:and|but)\s+)?                          # "a dog, but no cat"
    (?:\b(?:that|which|who)\s+)?(?:\b(?:where\s+)?there\s+)?(?:\b(?:with|has|have|is|are|wearing|having|shows?)\s+)?
    (?:(?P<nobody>\b(?:nobody|no[\s-]one|noone)\b)
      |\b(?:without|w/o|excluding|except(?:ing)?(?:\s+for)?|other\s+than|minus(?=\s+(?:the|an?|any)\b)
        |(?:is|are|was|were|has|have)n['’]?t|no(?=\s+[^\W\d])|(?<!\bdo\s)not)\b
        (?!\s+(?:only|doubt)\b)(?:\s+(?:any|other)\b)?
      |{MINUS})                                                # as search engines have it
    {PART_OF_A_SIGN}""",
    re.IGNORECASE | re.VERBOSE,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words and marks that end what is ruled out, as participles do.
_ENDS = _words(
    "in on at by near behind under over next beside during with who that which while when where but is are from just"
    " only"
)
_MARKS = _words("; . : ! ? ( )")
_ARTICLES = _words("a an the")
_DETERMINERS = _ARTICLES | _words("his her my our their")
# Words with which a negation says something else: "no longer", "not far", "not all", "bus no seven".
_OTHERWISE = _words(
    "longer far all everyone everybody many much more less least yet quite very so too just even sure there is not of"
    " one two three four five six seven eight nine ten"
)
_WORD_OR_MARK = re.compile(r"[\w'’-]+|\S")
_BEYOND = ("", "", "")  # behind the last word, for those who look ahead
_BETWEEN = re.compile(r"\s*,\s*(?:(?:and|or|nor)\s+)?|\s+(?:and|or|nor)\s+", re.IGNORECASE)
_BUT = re.compile(r"^\s*but\s+", re.IGNORECASE)
_CONJUNCTION = re.compile(r"^(?:and|but)\s+", re.IGNORECASE)
_DETERMINER = rf"(?:{'|'.join(sorted(_DETERMINERS))})\b"
# Before a negation: of a word that it belongs to ("a not so old car", "with or without"), or of what is written.
_OTHER_BEFORE = re.compile(
    rf"(?:^|\s)(?:{_DETERMINER}|or|if|almost|dr\.?)\s*$|\b(?:signs?|tattoos?|words?|texts?|slogan|poster|banner|button)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=\w)\s+No(?:t)?\s")  # "Man with No Name", where the question is not a title as a whole
_ON_A_SIGN = re.compile(r"\s*no\s+(?:\w+ing|entry|exit|access)\W*", re.IGNORECASE)  # what it says is asked for
# All that is left of "photos without people": it asks for nothing that could be looked for.
_ANYTHING = re.compile(
    rf"(?:(?:{_DETERMINER}|any|some|all)\s+)*(?:(?:photo|photograph|picture|image|pic)s?|everything|anything|something)?",
    re.IGNORECASE,
)
# Captions say who is "without a shirt": what is bare then can be seen, and models have learnt it.
_SEEN_WITHOUT = re.compile(r"\b(?:cloth(?:es|ing)|pants|shirts?|shoes?|socks|trousers)$", re.IGNORECASE)
_EMPTY = re.compile(r"[(\[]\s*[)\]]|\s+(?=,)")


class Question(NamedTuple):
    """A question in two parts: what pictures are to show, nothing in particular if that is empty, and what not."""

    wanted: str
    excluded: tuple[str, ...] = ()


def parts_of(question: str) -> Question:
    """The parts of an English question; all of it is wanted where nothing is ruled out or a negation is not understood.

    What is ruled out ends at a comma, a preposition or a participle: "a man without a hat riding a bicycle" rules out a
    hat.
    """
    as_it_is = Question(question)
    if negation_in(question) is None or _ON_A_SIGN.fullmatch(question) or _NAME.search(question):
        return as_it_is
    wanted, excluded, rest = list[str](), list[str](), question
    while (negation := _NEGATION.search(rest)) is not None:
        before = rest[: negation.start()]
        things, behind = _ruled_out(negation)
        if not things or _OTHER_BEFORE.search(before):
            return as_it_is
        wanted.append(before)
        excluded += things
        rest = _BUT.sub("", rest[behind:])
    excluded = list(dict.fromkeys(excluded))
    if not 0 < len(excluded) <= MOST_EXCLUDED:
        return as_it_is
    words = _CONJUNCTION.sub("", " ".join(_EMPTY.sub("", " ".join([*wanted, rest])).split()).strip(" ,;:."))
    if _ANYTHING.fullmatch(words):
        return Question("", tuple(excluded))
    return Question(words, tuple(excluded)) if any(map(is_content_word, words.split())) else as_it_is


def _ruled_out(negation: re.Match[str]) -> tuple[list[str], int]:
    """The things that a negation rules out, none where that is not understood, and the place behind them."""
    question, begin = negation.string, negation.end()
    if single := negation["quoted"] or negation["word"]:
        return [single.strip()], begin
    found = list(_WORD_OR_MARK.finditer(question, begin))
    words = [*(word.group().lower() for word in found), *_BEYOND]
    starts = [*(word.start() for word in found), len(question)]
    if negation["nobody"]:
        is_subject = words[0] in ("is", "are") or _is_participle(words[0])  # "nobody is smiling"
        things, num = [] if is_subject else ["people"], 0
    else:
        least = _num_before_thing(words) + 1
        negations = (at for at in range(least, len(found)) if _NEGATION.match(question, starts[at]))
        most = next(negations, len(found))
        num = _num_of_things(words, least, most)
        phrase = question[begin : starts[num]]
        phrase = phrase if num == most else phrase.rstrip()  # "a hat or no cap" is not understood, "a hat or" is
        things = [thing.strip() for thing in _BETWEEN.split(phrase)]
        things = things if all(map(_is_thing, things)) else []
    return things, starts[num + _num_of_on(words[num:])]


def _num_before_thing(words: Sequence[str]) -> int:
    """The number of words that say what is not done with the thing behind them: "not looking at", "not on"."""
    if re.fullmatch(r"\w+ing", words[0]):
        num = 2 if words[1] in ("at", "by", "for", "in", "into", "on", "to", "with") else 1
    else:
        num = 1 if words[0] in ("at", "in", "on") else 0
    return num if _is_word(words[num]) else max(0, num - 1)


def _num_of_things(words: Sequence[str], least: int, most: int) -> int:
    """The number of words until the end of what is ruled out."""
    num = next((at for at in range(least, most) if _ends_at(words, at)), most)
    if words[num] in ("with", "who", "that", "which") and "and" in words[1:num]:
        return max(at for at in range(num) if words[at] == "and")  # of another: "without a hat and women with hats"
    return num


def _ends_at(words: Sequence[str], at: int) -> bool:
    word, after = words[at], words[at + 1]
    if word == ",":
        return not _is_listed(words[at + 1 :])
    if word == "and":
        return after in _ENDS | _ARTICLES or _is_participle(after)
    return word in _ENDS | _MARKS or (_is_participle(word) and words[at - 1] not in _ARTICLES)


def _is_listed(words: Sequence[str]) -> bool:
    """Whether words behind a comma belong to a list: "boats, people, or birds"."""
    at = 0
    for _ in range(MOST_WORDS + 1):
        if words[at] in ("and", "or", "nor") and words[at + 1] not in _ARTICLES | {"with"}:
            return True
        if not _is_word(words[at]) or _is_participle(words[at]):
            return False
        at += 2 if words[at + 1] == "," else 1
    return False


def _num_of_on(words: Sequence[str]) -> int:
    """The number of words of an "on" that belongs to what is ruled out: "with no hat on", "with no food on it"."""
    if words[0] != "on":
        return 0
    num = 2 if words[1] in ("it", "them") else 1
    return num if words[num] in ("", ".", ",", ")", "is", "are", "and") or words[num].endswith("ing") else 0


def _is_word(text: str) -> bool:
    return re.fullmatch(r"[\w'’-]+", text) is not None


def _is_participle(word: str) -> bool:
    return re.fullmatch(r"(?!(?:any)?thing|building|railing)\w+ing", word) is not None


def _is_thing(text: str) -> bool:
    """Whether a phrase names a thing, perhaps after what is not done with it: "hat", "a red hat", "wearing a hat"."""
    words = text.lower().split()
    if not words or words[0] in _OTHERWISE or _SEEN_WITHOUT.search(text):
        return False
    return any(_is_name(words[num:]) for num in range(_num_before_thing([*words, *_BEYOND]) + 1))


def _is_name(words: Sequence[str]) -> bool:
    words = words[words[0] in _DETERMINERS :]
    return (
        0 < len(words) <= MOST_WORDS
        and words[0][0].isalpha()
        and all(_is_word(word) and word not in _DETERMINERS for word in words)
        and words[-1] not in ("of", "on", "in", "to")
    )
