"""`regard score` on padded features, and with scores that are no numbers."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from models.datasets.feature_store import extract_features
from models.evaluation import score_matrix
from models.matching.checkpoint import save_matcher
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor
from tests.support.small_matchers import fused, fused_but_for_short_questions, small_weights

GIVEN = ["score", "--weights", "w", "--captions", "c.txt", "--out", "s.npy", "--features"]


@pytest.fixture(autouse=True)
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features of a picture that has a region less, in a folder and alone."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (16, 12)).save("a.png")
    list(extract_features(FakeExtractor(), {"a.png": Path("a.png")}, Path("found")))
    np.load("found/mask.npy", mmap_mode="r+")[0, -1] = False
    np.load("found/features.npy", mmap_mode="r+")[0, -1] *= -1
    np.save("alone.npy", np.load("found/features.npy"))
    Path("c.txt").write_text("a dog\n")
    small_weights(Path("w"), "scan-i2t-avg")


def test_padding_is_no_region(regard: Regard) -> None:
    scores = []
    for features in ("found", "found/features.npy", "alone.npy"):
        assert regard(*GIVEN, features)[0] == 0
        scores.append(np.load("s.npy").item())
    assert scores[0] == scores[1]
    assert abs(scores[0] - scores[2]) > 1e-3


def test_the_mean_of_models_scores_short_captions_as_they_ask(regard: Regard) -> None:
    for name, matcher in (("a", fused_but_for_short_questions("scan-t2i-avg", 2)), ("b", fused("scan-t2i-avg"))):
        save_matcher(matcher, Path(name))
    found = []
    for weights, ask in (("a", "text"), ("a", "image"), ("a+b", "image")):
        status, _, noted = regard(*GIVEN, "alone.npy", "--weights", weights, "--ask", ask)
        assert status == 0, noted
        found.append(np.load("s.npy").item())
    assert len(set(np.round(found, 4))) == 3
    assert "no model called zzz is shipped" in regard(*GIVEN, "alone.npy", "--weights", "zzz")[2]


def test_scores_that_are_not_finite_are_not_written(regard: Regard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_matrix, "score_all", lambda *arguments: np.array([[np.nan]]))
    status, _, noted = regard(*GIVEN, "alone.npy")
    assert (status, "picture 0 scores that are not finite" in noted, Path("s.npy").exists()) == (1, True, False)
