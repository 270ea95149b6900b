"""File names as they are stored and shown. None of them ever becomes a path."""

import unicodedata

from index.catalog.text_index import composed

MAX_LENGTH = 255
# Those that reverse the direction of text, with which a name can be made to look like another; not the marks U+200E and
# U+200F, which Arabic and Hebrew names have.
BIDIRECTIONAL_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def display_name(filename: str) -> str:
    """A file name fit to be stored and shown: no control characters, letters composed, at most 255 characters, never
    empty."""
    shown = "".join("\N{REPLACEMENT CHARACTER}" if _is_control(c) else c for c in composed(filename)).strip()
    if len(shown) > MAX_LENGTH:
        shown = f"{shown[: MAX_LENGTH - 21]}\N{HORIZONTAL ELLIPSIS}{shown[-20:]}"  # the extension stays
    return shown or "unnamed"


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in BIDIRECTIONAL_CONTROLS
