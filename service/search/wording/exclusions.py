"""Things that a question rules out, as "people" in "a beach without people": models would look for them."""

import re
from typing import NamedTuple

from index.catalog.text.search import MINUS
from models.text.content_words import is_content_word
from service.search.wording.negations import PART_OF_A_SIGN, SAID_BY_A_SIGN, negation_in

EXCLUDED_WEIGHT = 0.5  # of what is ruled out beside what is wanted: docs/lab/exclusions.md
MOST_EXCLUDED = 8  # things; each costs as much as another question

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
_ENDS = "in on at by near behind under over next beside during with who that which while when where but is are from"
_ING = r"(?!(?:any)?thing\b|building\b|railing\b)\w+ing\b"
# After a comma: "boats, people, or birds".
_LISTED = rf"\s*(?:(?!{_ING})[\w'-]+\s*,?\s+){{0,3}}(?:and|or|nor)\b(?!\s+(?:with|an?|the)\b)"
_END = re.compile(
    rf"\s*,(?!{_LISTED})|\s*[;.:!?()]|\s+(?:and\s+)?(?:{'|'.join(_ENDS.split())}|just|only)\b|\s+and\s+(?=(?:an?|the)\b)"
    rf"|(?<!\ba)(?<!\ban)(?<!\bthe)\s+(?:and\s+)?{_ING}",
    re.IGNORECASE,
)
_OF_ANOTHER = re.compile(r"\s+(?:with|who|that|which)\b", re.IGNORECASE)  # "without a hat and women with hats"
# "with no hat on", "with no food on it".
_WORN = re.compile(r"\s+on(?:\s+(?:it|them))?(?=\s*[.,)]|\s*$|\s+(?:is|are|and|\w+ing)\b)", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*,\s*(?:(?:and|or|nor)\s+)?|\s+(?:and|or|nor)\s+", re.IGNORECASE)
_CONJUNCTION = re.compile(r"\s*\b(?:and|but)\s+", re.IGNORECASE)
_DOING = r"(?:\w+ing\s+(?:(?:at|by|for|in|into|on|to|with)\s+)?|(?:at|in|on)\s+)?"  # "not looking at", "not on"
_DETERMINER = r"(?:an?|the|his|her|my|our|their)\b"
# Words with which a negation says something else: "no longer", "not far", "not all", "bus no seven".
_OTHERWISE = (
    r"(?:longer|far|all|everyone|everybody|many|much|more|less|least|yet|quite|very|so|too|just|even|sure|there|is|not|of"
    r"|one|two|three|four|five|six|seven|eight|nine|ten)\b"
)
# A thing in up to three words: a longer phrase says more than what is ruled out.
_THING = re.compile(
    rf"(?!{_OTHERWISE}){_DOING}(?:{_DETERMINER}\s+)?(?=[^\W\d_])"
    rf"(?:(?!{_DETERMINER})[\w'-]+(?:\s+|$)){{1,3}}(?<!\bof)(?<!\bon)(?<!\bin)(?<!\bto)",
    re.IGNORECASE,
)
_BEGINNING = re.compile(rf"\s*{_DOING}\S", re.IGNORECASE)
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
        if not things or (before.strip() and _OTHER_BEFORE.search(before)):
            return as_it_is
        wanted.append(before)
        excluded += things
        rest = rest[behind:]
        if (conjunction := _CONJUNCTION.match(rest)) and conjunction.group().strip().lower() == "but":
            rest = rest[conjunction.end() :]
    excluded = list(dict.fromkeys(excluded))
    if not 0 < len(excluded) <= MOST_EXCLUDED:
        return as_it_is
    words = " ".join(_EMPTY.sub("", " ".join([*wanted, rest])).split()).strip(" ,;:.")
    words = words[beginning.end() :] if (beginning := _CONJUNCTION.match(words)) else words
    if _ANYTHING.fullmatch(words):
        return Question("", tuple(excluded))
    return Question(words, tuple(excluded)) if any(map(is_content_word, words.split())) else as_it_is


def _ruled_out(negation: re.Match[str]) -> tuple[list[str], int]:
    """The things that a negation rules out, none where that is not understood, and the place behind them."""
    question, begin = negation.string, negation.end()
    if single := negation["quoted"] or negation["word"]:
        return [single.strip()], begin
    if negation["nobody"]:
        is_subject = re.match(rf"\s+(?:is|are|{_ING})", question[begin:], re.IGNORECASE)  # "nobody is smiling"
        return [] if is_subject else ["people"], _behind(question, begin)
    beginning = _BEGINNING.match(question, begin)
    ends = (pattern.search(question, beginning.end() if beginning else begin) for pattern in (_END, _NEGATION))
    end = min((found.start() for found in ends if found), default=len(question))
    if _OF_ANOTHER.match(question, end) and (last := question.rfind(" and ", begin, end)) > 0:
        end = last
    things = [thing.strip() for thing in _BETWEEN.split(question[begin:end])]
    are_understood = all(_THING.fullmatch(thing) and not _SEEN_WITHOUT.search(thing) for thing in things)
    return things if are_understood else [], _behind(question, end)


def _behind(question: str, end: int) -> int:
    """The place behind what is ruled out and a preposition that belongs to it."""
    worn = _WORN.match(question, end)
    return worn.end() if worn else end
