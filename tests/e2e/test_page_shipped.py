"""The page over the shipped models, worker and all, as its screenshots show it."""

from pathlib import Path

import PIL.Image
import pytest

from tests.support.project_files import ROOT

pytest.importorskip("playwright")
from docs.images.screenshots import NAMES, SIZES, take_screenshots

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_screenshots_can_be_taken_anew(tmp_path: Path) -> None:
    take_screenshots(tmp_path)
    for name, size in zip(NAMES, SIZES, strict=True):
        with PIL.Image.open(tmp_path / name) as taken, PIL.Image.open(ROOT / "docs/images" / name) as kept:
            assert taken.size == kept.size == size
            assert len(taken.convert("RGB").getcolors(2**24) or []) > 500  # drawings and text, not an empty window
