"""Region stores: how long a migration will still take, in words."""

import pytest

from service.dates import duration


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 second"), (100, "100 seconds"), (840, "14 minutes"), (20_000, "6 hours")]
)
def test_durations_are_said_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
