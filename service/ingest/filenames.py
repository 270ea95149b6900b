"""File names for storage and display. They never become paths."""

import unicodedata

from index.catalog.text_index import composed

MAX_LENGTH = 255
# They reverse the direction of text, which can disguise a name. Not included are the marks U+200E and
# U+200F, which occur in Arabic and Hebrew names.
BIDIRECTIONAL_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def display_name(filename: str) -> str:
    """A file name made fit for storage and display: without control characters, in Unicode normal form C, at most 255
    characters, never empty."""
    shown = "".join("\N{REPLACEMENT CHARACTER}" if _is_control(c) else c for c in composed(filename)).strip()
    if len(shown) > MAX_LENGTH:
        shown = f"{shown[: MAX_LENGTH - 21]}\N{HORIZONTAL ELLIPSIS}{shown[-20:]}"  # the extension stays
    return shown or "unnamed"


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in BIDIRECTIONAL_CONTROLS
