"""What a clone weighs: it has to travel to the machines that train and serve."""

from models.matching.checkpoint import WEIGHTS
from tests.support.project_files import ROOT, project_files

MOST_WEIGHTS, MOST_CHECKOUT = 52_000_000, 58_000_000  # bytes


def test_the_shipped_weights_are_small() -> None:
    assert sum(path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file()) <= MOST_WEIGHTS


def test_the_checkout_is_small() -> None:
    sizes = [(ROOT / name).lstat().st_size for name in project_files()]  # a link weighs as much as its name
    assert len(sizes) > 500
    assert sum(sizes) <= MOST_CHECKOUT, "make files smaller, or remove some"
