"""What a view is: another model, extractor or format is refused, a damaged manifest means building anew."""

import json
from pathlib import Path
from typing import Any

import pytest

from index.files import TEMPORARY
from index.manifest import NAME
from index.slab import Corrupt, LayoutMismatch
from index.view import View, ViewMismatch, ViewWriter
from tests.views import ABOUT, EMBED, build, check


def test_a_view_says_what_made_it(tmp_path: Path) -> None:
    build(tmp_path, 2, 1)
    view = View.open(tmp_path)
    assert (view.digest, view.extractor) == ("model-1", "detector-1")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"digest": "model-2"}, "digest model-1, not model-2"),
        ({"extractor": "detector-2"}, "extractor detector-1, not detector-2"),
        ({"embed_dim": 5}, "embed_dim 4, not 5"),
        ({"word_dim": 5}, "word_dim 3, not 5"),
        ({"layout": {"vectors": (2, 4), "mask": (2,)}}, "layout"),
    ],
)
def test_the_view_of_another_model_or_extractor_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    build(tmp_path, 2, 1)
    with pytest.raises(ViewMismatch, match=words):
        ViewWriter(tmp_path, **ABOUT | change)
    check(View.open(tmp_path), 2, 1)


def test_a_damaged_manifest_means_building_anew(tmp_path: Path) -> None:
    build(tmp_path, 4, 4).close()
    (tmp_path / NAME).write_bytes(b"\0" * 100)
    (tmp_path / (NAME + TEMPORARY)).write_bytes(b"{")
    with pytest.raises(Corrupt, match="damaged"):
        View.open(tmp_path)
    assert ViewWriter(tmp_path, **ABOUT).counts() == (0, 0)
    assert not (tmp_path / (NAME + TEMPORARY)).exists()
    build(tmp_path, 2, 2)
    check(View.open(tmp_path), 2, 2)


def test_a_view_of_another_format_is_refused(tmp_path: Path) -> None:
    build(tmp_path, 1, 1).close()
    found = json.loads((tmp_path / NAME).read_bytes())
    (tmp_path / NAME).write_text(json.dumps(found | {"format": 99}))
    for opening in (lambda: View.open(tmp_path), lambda: ViewWriter(tmp_path, **ABOUT)):
        with pytest.raises(ViewMismatch, match="format 99"):
            opening()


def test_slabs_of_another_layout_below_a_lost_manifest_are_refused(tmp_path: Path) -> None:
    build(tmp_path, 1, 1).close()
    (tmp_path / NAME).unlink()
    with pytest.raises(LayoutMismatch):
        ViewWriter(tmp_path, **ABOUT | {"embed_dim": EMBED + 1})
