"""Words of a question that rule something out, which models hardly understand."""

import re

_SIGN = r"(?!(?:\s+\w+){1,2}\s+signs?\b)"  # whose words a picture may show
_NEGATION = re.compile(
    "|".join(
        (
            rf"\bno{_SIGN}(?=\s+[^\W\d])",  # "No 5" is a number, and "Dr No" a film
            rf"(?<!\bme[\s-])\bnot\b{_SIGN}(?!\s+only\b)",  # forget-me-nots
            r"\bcan['’]?t\b(?!\s+wait\b)",
            r"\b(?:is|are|was|were|do|does|did|has|have|had|could|would|should|must|wo|ai)n['’]?t\b",
            r"\b(?:without|w/o|none|nobody|noone|no-one|nothing|never|neither|nor|except|excepting|excluding)\b",
            r"\b(?:apart\s+from|other\s+than|(?:anything|everything|all)\s+but)\b",
            r"\bminus(?=\s+(?:the|an?|any)\b)",
            r"(?<=\s)-(?=[^\W\d])\w+",
        )
    ),
    re.IGNORECASE,
)


def negation_in(query: str) -> str | None:
    """The first word, or words, of a question that rule something out, as they were written."""
    found = _NEGATION.search(query)
    return None if found is None else found.group()
