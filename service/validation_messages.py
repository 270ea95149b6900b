"""Messages about invalid values: pydantic's, reworded like this service's other messages."""

import re
from collections.abc import Mapping
from typing import Any

WORDINGS = [
    (re.compile(r"^Value error, "), ""),
    (re.compile(r"^(Input|Value|String|List|Dictionary|Set|Tuple|Number) should "), "must "),
    (re.compile(r"\bless than or equal to "), "at most "),
    (re.compile(r"\bgreater than or equal to "), "at least "),
    (re.compile(r"\ba valid (?=[aeiou])"), "an "),
    (re.compile(r"\ba valid "), "a "),
    (re.compile(r" after validation\b"), ""),
    (re.compile(r", unable to (parse|interpret) .*"), ""),
    (re.compile(r"^Extra inputs are not permitted$"), "is not a field of this request"),
    (re.compile(r"\bmatch pattern '\^\[0-9a-f\]\{32\}\$'"), "be the id of a picture: 32 digits or letters a to f"),
]


def plain_message(error: Mapping[str, Any]) -> str:
    """The message of an entry of `ValidationError.errors()`: what the value must be."""
    if error["type"] == "string_unicode":  # which pydantic calls no string
        return "holds half a surrogate pair (such as \\ud800), which is no character"
    return plain_words(str(error["msg"]))


def plain_words(message: str) -> str:
    """A message of pydantic in this service's wording."""
    for pattern, replacement in WORDINGS:
        message = pattern.sub(replacement, message)
    return message
