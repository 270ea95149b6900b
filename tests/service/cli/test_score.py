"""`regard score` on features that are not the model's, with masks, and with scores that are no numbers."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from models.datasets.feature_store import extract_features
from models.evaluation import score_matrix
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor
from tests.support.small_matchers import small_weights


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with features of two pictures, one of which has a region less, as a folder and alone."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b.png"):
        Image.new("RGB", (16, 12)).save(name)
    list(extract_features(FakeExtractor(), {name: Path(name) for name in ("a.png", "b.png")}, Path("found")))
    mask = np.load("found/mask.npy", mmap_mode="r+")
    mask[1, -1] = False
    features = np.load("found/features.npy", mmap_mode="r+")
    features[:] = np.random.default_rng(0).random(features.shape)
    Path("c.txt").write_text("a dog\ngrass\n")
    np.save("alone.npy", np.load("found/features.npy"))
    return tmp_path


def score(regard: Regard, weights: str, features: str, *more: object) -> tuple[int, str]:
    status, _, noted = regard(
        "score", "--weights", weights, "--features", features, "--captions", "c.txt", "--out", "s.npy", *more
    )
    return status, noted.splitlines()[-1]


def weights(name: str, extractor: str) -> str:
    small_weights(Path(name), "scan-i2t-avg", feature_dim=FakeExtractor().feature_dim, extractor=extractor)
    return name


@pytest.mark.usefixtures("folder")
def test_padding_is_no_region(regard: Regard) -> None:
    own = weights("w", FakeExtractor().digest)
    assert score(regard, own, "found/features.npy")[0] == 0
    masked = np.load("s.npy")
    assert score(regard, own, "alone.npy")[0] == 0
    whole = np.load("s.npy")
    np.testing.assert_array_equal(masked[0], whole[0])
    assert (np.abs(masked[1] - whole[1]) > 1e-6).all()


@pytest.mark.usefixtures("folder")
def test_features_of_others_are_refused(regard: Regard) -> None:
    status, said = score(regard, weights("w", "others"), "found/features.npy")
    assert (status, "w reads features of detector others, and found/features.npy is of" in said) == (1, True)
    assert score(regard, "w", "alone.npy")[0] == 0  # it does not tell what made it
    advice = "few was trained on the first regions alone: give --regions 1"
    weights("few", f"{FakeExtractor().digest}-first-1")
    for features in ("found/features.npy", "alone.npy"):
        status, said = score(regard, "few", features)
        assert (status, advice in said) == (1, True)
        assert score(regard, "few", features, "--regions", 1)[0] == 0


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((0, 2, 4), np.float32), "has shape (0, 2, 4)"),
        (np.zeros((2, 2, 4), np.complex64), "values of type complex64, not real numbers"),
        (np.full((2, 2, 4), "x"), "values of type <U1, not real numbers"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_no_feature_is_refused(regard: Regard, array: np.ndarray, message: str) -> None:
    np.save("x.npy", array)
    status, said = score(regard, weights("w", "others"), "x.npy")
    assert (status, message in said) == (1, True)


@pytest.mark.usefixtures("folder")
def test_scores_that_are_not_finite_are_not_written(regard: Regard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_matrix, "score_all", lambda *arguments: np.array([[0, 1], [0, np.nan]]))
    status, said = score(regard, weights("w", "others"), "alone.npy")
    assert (status, "picture 1 scores that are not finite" in said) == (1, True)
    assert not Path("s.npy").exists()
