"""Messages about wrong values: pydantic's, in the words of this service's other messages."""

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
]


def plain_message(error: Mapping[str, Any]) -> str:
    """The message of one of the entries of `ValidationError.errors()`: what the value must be."""
    message = str(error["msg"])
    for pattern, replacement in WORDINGS:
        message = pattern.sub(replacement, message)
    return message
