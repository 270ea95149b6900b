"""Options of `regard train` that a recipe does not read are refused rather than passed over."""

from pathlib import Path

import pytest

from tests.support.cli_runner import Regard

MODEL = ["train", "scan-t2i-avg-flickr8k", "--out", "run"]
BACKBONE = ["train", "backbone", "--out", "run", "--backbone", "a", "--captions", "a"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*MODEL, "--teacher", "a"], "--teacher is not read by scan-t2i-avg-flickr8k"),
        ([*MODEL, "--backbone", "a"], "--backbone is not read by"),
        ([*MODEL, "--sentence-encoder", "."], "--sentence-encoder is not read by"),
        ([*MODEL, "--precomp", ".", "--captions", "a"], "--precomp holds features and captions"),
        ([*BACKBONE, "--precomp", "."], "--precomp is not read by backbone"),
        ([*BACKBONE, "--regions", "3"], "--regions is not read by backbone"),
        ([*BACKBONE, "--teacher", "a"], "--teacher is not read by backbone"),
        (["train", "head", *BACKBONE[2:], "--teacher", "a", "--from", "."], "--from is not read by head"),
        (
            ["train", "detector", *BACKBONE[2:], "--teacher", "a", "--sentence-encoder", "."],
            "--sentence-encoder is not read by detector",
        ),
    ],
)
def test_an_option_that_is_not_read_is_named(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("{}\n")
    status, said, noted = regard(*arguments)
    assert (status, said) == (2, "")
    assert words in " ".join(noted.split())
    assert not Path("run").exists()


def test_a_misspelt_recipe_is_told_before_its_options(regard: Regard) -> None:
    status, _, noted = regard("train", "backbones", "--out", "run", "--backbone", "a")
    assert (status, "no recipe is called backbones; there are backbone, head, detector" in noted) == (1, True)
