"""Things that a question rules out, as "people" in "a beach without people": models would look for them."""

import re
from functools import lru_cache
from typing import NamedTuple

from service.search.wording.negations import PART_OF_A_SIGN, SAID_BY_A_SIGN, negation_in

EXCLUDED_WEIGHT = 0.5  # of what is ruled out beside what is wanted: docs/lab/exclusions.md
_NEGATION = re.compile(
    rf"""{SAID_BY_A_SIGN}
    (?:\s*,\s*)?(?:\b(?:and|but)\s+)?                          # "a dog, but no cat"
    (?:\b(?:that|which|who)\s+)?(?:\b(?:with|has|have|is|are|wearing|having|shows?)\s+)?
    (?:\b(?:without|w/o|excluding|except(?:ing)?(?:\s+for)?|apart\s+from|other\s+than|minus(?=\s+(?:the|an?|any)\b)
        |(?:is|are|was|were|do|does|did|has|have)n['’]?t|no(?=\s+[^\W\d])|(?<!\bdo\s)not)\b
        (?!\s+(?:only|doubt)\b)(?:\s+(?:any|other)\b)?
      |(?P<nobody>\b(?:nobody|no[\s-]one|noone)\b)
      |(?:^|(?<=\s))-(?:"(?P<quoted>[^"]*[^\W\d_][^"]*)"|(?P<word>[^\W\d][\w'-]*)))    # as search engines have it
    {PART_OF_A_SIGN}""",
    re.IGNORECASE | re.VERBOSE,
)
_ENDS = "in on at by near behind under over next beside during with who that which while when where but is are from"
_LISTED = r"\s*(?:[\w'-]+\s*,?\s+){0,3}(?:or|nor)\b"  # "boats, people, or birds"
_END = re.compile(
    rf"\s*,(?!{_LISTED})|\s*[;.:!?()]|\s+(?:and\s+)?(?:{'|'.join(_ENDS.split())})\b|\s+and\s+(?=(?:an?|the)\b)"
    r"|(?<!\ba)(?<!\ban)(?<!\bthe)\s+(?:and\s+)?(?!(?:any)?thing\b|building\b|railing\b)\w+ing\b",
    re.IGNORECASE,
)
_WORN = re.compile(r"\s+on(?=\s*[.,]|\s*$|\s+(?:is|are|and|\w+ing)\b)", re.IGNORECASE)  # "with no hat on"
_BETWEEN = re.compile(r"\s*,\s*(?:(?:and|or|nor)\s+)?|\s+(?:and|or|nor)\s+", re.IGNORECASE)
_CONJUNCTION = re.compile(r"(?:and|but)\s+", re.IGNORECASE)
_DOING = r"(?:\w+ing\s+(?:(?:at|by|for|in|into|on|to|with)\s+)?|(?:at|in|on)\s+)?"  # "not looking at", "not on"
_DETERMINER = r"(?:an?|the|his|her|my|our|their)\b"
# A thing in up to three words: a longer phrase says more than what is ruled out.
_THING = re.compile(rf"{_DOING}(?:{_DETERMINER}\s+)?(?:(?!{_DETERMINER})[\w'-]+(?:\s+|$)){{1,3}}", re.IGNORECASE)
_BEGINNING = re.compile(rf"\s*{_DOING}\S", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]")
_ON_A_SIGN = re.compile(r"\s*no\s+(?:\w+ing|entry|exit|access)\W*", re.IGNORECASE)  # what it says is asked for
# All that is left of "photos without people": it asks for nothing that could be looked for.
_ANYTHING = re.compile(
    rf"(?:(?:{_DETERMINER}|any|some|all)\s+)*(?:(?:photo|photograph|picture|image|pic)s?|everything|anything|something)?",
    re.IGNORECASE,
)
# Captions say who is "without a shirt": what is bare then can be seen, and models have learnt it.
_SEEN_WITHOUT = re.compile(r"\b(?:cloth(?:es|ing)|pants|shirts?|shoes?|socks|trousers)$", re.IGNORECASE)


class Question(NamedTuple):
    """A question in two parts: what pictures are to show, nothing in particular if that is empty, and what not."""

    wanted: str
    excluded: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[tuple[str, float]]:
        """The sentences to score a picture with, and the weight of each in the sum: negative for what is ruled out."""
        if not self.wanted:
            return [(thing, -1.0) for thing in self.excluded]
        return [(self.wanted, 1.0), *((thing, -EXCLUDED_WEIGHT) for thing in self.excluded)]


@lru_cache(256)
def parts_of(question: str) -> Question:
    """The parts of an English question; all of it is wanted where nothing is ruled out or a negation is not understood.

    What is ruled out ends at a comma, a preposition or a participle: "a man without a hat riding a bicycle" rules out a
    hat.
    """
    if negation_in(question) is None or _ON_A_SIGN.fullmatch(question):
        return Question(question)
    wanted, excluded, rest = list[str](), list[str](), question
    while (negation := _NEGATION.search(rest)) is not None:
        things, behind = _ruled_out(negation)
        if not things:
            return Question(question)
        wanted.append(rest[: negation.start()])
        excluded += things
        rest = rest[behind:]
    words = " ".join(" ".join([*wanted, rest]).split()).replace(" ,", ",").strip(" ,;")
    words = words[beginning.end() :] if (beginning := _CONJUNCTION.match(words)) else words
    wanted_words = "" if _ANYTHING.fullmatch(words) or not _WORD.search(words) else words
    return Question(wanted_words, tuple(excluded)) if excluded else Question(question)


def _ruled_out(negation: re.Match[str]) -> tuple[list[str], int]:
    """The things that a negation rules out, none where that is not understood, and the place behind them."""
    if negation["nobody"]:
        return ["people"], negation.end()
    if single := negation["quoted"] or negation["word"]:
        return [single.strip()], negation.end()
    question, begin = negation.string, negation.end()
    beginning = _BEGINNING.match(question, begin)
    ends = (pattern.search(question, beginning.end() if beginning else begin) for pattern in (_END, _NEGATION))
    end = min((found.start() for found in ends if found), default=len(question))
    things = [thing.strip() for thing in _BETWEEN.split(question[begin:end])]
    are_understood = all(_THING.fullmatch(thing) and not _SEEN_WITHOUT.search(thing) for thing in things)
    worn = _WORN.match(question, end)
    return things if are_understood else [], worn.end() if worn else end
