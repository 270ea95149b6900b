"""`regard extract` where pictures change while it runs."""

from pathlib import Path

import pytest

import service.model_loading
from models.datasets import photographs
from models.datasets.feature_store import open_features
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor
from tests.support.library import two_coloured


def test_a_picture_that_was_cut_while_others_were_looked_at_is_named_and_then_left_out(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.model_loading, "detector_of", lambda folder, device: FakeExtractor())
    out = tmp_path / "features"
    for name in ("a.png", "b.png", "c.png"):
        two_coloured("red", "blue").save(tmp_path / name)
    cut = tmp_path / "b.png"
    cut.write_bytes(cut.read_bytes()[:40])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(photographs, "why_unreadable", lambda _: None)  # as it was when all were checked
        status, _, noted = regard("extract", tmp_path, "--out", out)
    assert (status, f"{cut}: is no picture that can be read" in noted) == (1, True)
    assert f"the same command leaves it out, and resumes with what {out} holds" in noted
    status, _, noted = regard("extract", tmp_path, "--out", out)
    assert (status, f"left out: {cut}: is no picture that can be read" in noted) == (1, True)
    assert open_features(out).ids == ("a.png", "c.png")
