"""Negations in a question, which models hardly understand."""

import re

from index.catalog.text.search import MINUS

# For negations that are part of a sign or of a text in the picture ("a no smoking sign", "says no").
PART_OF_A_SIGN = r"(?!(?:\s+\w+){1,4}\s+signs?\b)"
SAID_BY_A_SIGN = r"(?<!\bsays\s)(?<!\bsaying\s)(?<!\breads\s)(?<!\breading\s)"
_NEGATION = re.compile(
    f"{SAID_BY_A_SIGN}(?:"
    + "|".join(
        (
            r"\bno(?=\s+[^\W\d])(?!\s+doubt\b)",  # "No 5" is a number, and "Dr No" a film
            r"(?<!\bme[\s-])\bnot\b(?!\s+only\b)",  # forget-me-nots
            r"\bcan['’]?t\b(?!\s+(?:wait|stop)\b)",
            r"\bnever\b(?!\s+mind\b)",
            r"\b(?:is|are|was|were|do|does|did|has|have|had|could|would|should|must|wo|ai)n['’]?t\b",
            r"\b(?:without|w/o|none|nobody|noone|no-one|nothing|neither|nor|except|excepting|excluding)\b",
            r"\b(?:apart\s+from|other\s+than|(?:anything|everything|all)\s+but)\b",
            r"\bminus(?=\s+(?:the|an?|any)\b)",
            MINUS,
        )
    )
    + f"){PART_OF_A_SIGN}",
    re.IGNORECASE,
)


def negation_in(query: str) -> str | None:
    """The first word, or words, of a question that rule something out, as they were written."""
    found = _NEGATION.search(query)
    return None if found is None else found.group()
