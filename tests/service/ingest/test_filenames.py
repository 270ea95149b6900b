"""File names as they are stored and shown."""

import pytest

from service.ingest.filenames import display_name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.jpg", "plain.jpg"),
        ("tab\tand\nline", "tab\N{REPLACEMENT CHARACTER}and\N{REPLACEMENT CHARACTER}line"),
        ("\u200fשלום\u200e.jpg", "\u200fשלום\u200e.jpg"),
        ("می\u200cروم.jpg", "می\u200cروم.jpg"),
        ("\u202egpj.exe", "\N{REPLACEMENT CHARACTER}gpj.exe"),
        ("   ", "unnamed"),
        ("\N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}.png", "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}.png"),
    ],
)
def test_names_are_shown_without_tricks(name: str, shown: str) -> None:
    assert display_name(name) == shown
