"""Small files made to take much time or memory are refused, or take little of either."""

from pathlib import Path

import pytest

from service.media.decode_pool import DecodeFailed, DecodePool
from service.settings import Settings
from tests.support.bombs import BOMBS, MB, bomb, set_off

MOST_MEMORY = 100 * MB  # beyond what a decoder occupies anyway
SHOWN = {  # what they are made of is not looked at, or is bounded
    "PNG with a billion laughs",
    "JPEG with a billion laughs",
    "PNG with 18 500 keywords in 5 600 lists",
    "GIF of 100 000 frames",
    "TIFF that leads back to itself",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_little_memory_and_is_refused_in_words_or_harmless(tmp_path: Path, name: str) -> None:
    assert len(bomb(name)) < 3 * MB
    outcome, _, extra = set_off(name, tmp_path)
    assert extra < MOST_MEMORY
    assert (outcome == "shown") == (name in SHOWN), outcome
    assert "longer than" not in outcome
    assert "failed" not in outcome
    assert ": " in outcome or outcome == "shown"


def test_a_picture_that_is_asked_with_is_looked_at_as_one_that_is_sent(tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(bomb("JPEG of 16 megapixels in 5 000 scans"))
    with DecodePool.from_settings(Settings(decode_workers=1), readable=[tmp_path]) as pool:
        with pytest.raises(DecodeFailed, match=r"more than .* scans: save it anew") as refusal:
            pool.decode(tmp_path / "bomb")
        assert refusal.value.final
