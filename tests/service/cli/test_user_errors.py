"""A user's mistake is one line, a bug its traceback."""

import importlib
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

import models.matching.single_matcher
import models.training.trainer
from index.catalog.database.connection import still_locked
from index.lock import WriterLock
from models.datasets.feature_store import extract_features
from service.cli.user_errors import LIBRARY_ERRORS, is_user_error, one_line
from service.errors import Misconfigured, UserError, user_input
from service.ingest.import_features import import_features
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor
from tests.support.project_files import ROOT
from tests.support.small_matchers import small_weights

WIDTH = 4
SMALL = ["epochs=1", "width=8", "word_dim=8", "embed_dim=4", "batch=5", "least_count=1", "decay_after=[]"]
CHANGES = [word for change in SMALL for word in ("--set", change)]


def precomp(folder: Path, split: str, pictures: int, width: int = WIDTH) -> None:
    """A split of a folder in SCAN's layout."""
    folder.mkdir(exist_ok=True)
    features = np.random.default_rng(0).random((pictures, 2, width), dtype=np.float32)
    np.save(folder / f"{split}_ims.npy", features)
    (folder / f"{split}_caps.txt").write_text(
        "".join(f"picture {n // 5} caption {n % 5}\n" for n in range(5 * pictures))
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with weights, features and captions of every kind that commands refuse."""
    folder = tmp_path_factory.mktemp("mistakes")
    for split in ("train", "dev", "test"):
        precomp(folder / "precomp", split, 11)
    precomp(folder / "wide", "test", 5, width=WIDTH + 1)
    for split in ("train", "dev"):
        precomp(folder / "infinite", split, 5)
        np.save(folder / "infinite" / f"{split}_ims.npy", np.full((5, 2, WIDTH), np.inf, np.float32))
    weights = {"weights": "bottom-up-36", "others": "others", "few": "bottom-up-36-first-2"}
    for name, extractor in weights.items():
        small_weights(folder / name, "scan-t2i-avg", feature_dim=WIDTH, extractor=extractor)
    small_weights(folder / "damaged", "scan-t2i-avg", feature_dim=WIDTH)
    (folder / "damaged" / "vocabulary.json").write_text("{}")
    (folder / "detector").mkdir()
    (folder / "detector" / "config.json").write_text('{"kind": "nonsense"}')
    (folder / "garbled").mkdir()
    (folder / "garbled" / "config.json").write_text("{")
    small_weights(folder / "run" / "best", "scan-t2i-avg", feature_dim=WIDTH)
    (folder / "captions.txt").write_text("a dog\n")
    (folder / "blank.txt").write_text("a dog\n\n")
    (folder / "nonsense.npy").write_text("nonsense")
    (folder / "bare.jsonl").write_text(json.dumps({"image": "a.jpg", "captions": []}) + "\n")
    lines = ({"image": f"{split}.png", "captions": said, "split": split} for split, said in MUTE.items())
    half = ({"image": f"{number}.png", "captions": ["a dog"] * number, "split": "dev"} for number in range(2))
    (folder / "half.jsonl").write_text("".join(json.dumps(line) + "\n" for line in half))
    (folder / "mute.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "blank.jsonl").write_text(json.dumps({"image": "a.jpg", "captions": [" "]}) + "\n")
    (folder / "nonsense.tsv").write_text("one\ttwo\n")
    (folder / "vocab.json").write_text("[]")
    (folder / "empty.npy").write_bytes(b"")
    (folder / "one.jsonl").write_text(json.dumps({"image": "a.jpg", "captions": ["a dog"]}) + "\n")
    (folder / "png.jsonl").write_text(json.dumps({"image": "a.png", "captions": ["a dog"]}) + "\n")
    (folder / "whole").mkdir()
    PIL.Image.new("RGB", (16, 12)).save(folder / "whole" / "a.png")
    list(extract_features(FakeExtractor(), {"a.png": folder / "whole" / "a.png"}, folder / "found"))
    (folder / "photos").mkdir()
    (folder / "photos" / "a.jpg").write_bytes(b"hello")
    np.save(folder / "complex.npy", np.zeros((2, 3, WIDTH), np.complex64))
    for name, width in (("flat", None), ("wide", WIDTH + 1), ("endless", WIDTH)):
        shape = (2, 3) if width is None else (2, 3, width)
        array = np.zeros(shape, np.float32)
        array[-1] = np.inf if name == "endless" else 0
        np.save(folder / f"{name}.npy", array)
    return folder


MUTE = {"dev": [], "train": ["a dog"]}
SCORE = ["score", "--weights", "weights", "--out", "s.npy", "--captions", "captions.txt", "--features"]
EVALUATE = ["evaluate", "--model", "weights", "--device", "cpu"]
TRAIN = ["train", "scan-t2i-avg-f30k", "--device", "cpu", *CHANGES]
CALIBRATE = ["calibrate", "weights", "--precomp", "precomp", "--split", "dev", "--device", "cpu"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*SCORE, "nonsense.npy"], "nonsense.npy"),
        ([*SCORE, "flat.npy"], "flat.npy has shape (2, 3)"),
        ([*SCORE, "wide.npy"], "reads features of 4 numbers, these have 5"),
        ([*SCORE, "endless.npy"], "the features of picture 1 hold numbers"),
        (
            [*SCORE, "found/features.npy"],
            "features of detector bottom-up-36",
        ),
        ([*SCORE, "endless.npy", "--weights", "few"], "alone: give --regions 2"),
        ([*SCORE, "complex.npy"], "complex64, not real numbers"),
        ([*SCORE, "endless.npy", "--captions", "blank.txt"], "blank.txt:2: an empty line"),
        ([*SCORE, "endless.npy", "--captions", "endless.npy"], "endless.npy"),
        (["evaluate", "--model", "damaged", "--precomp", "precomp"], "the copy is damaged or edited"),
        (["evaluate", "--model", "others", "--precomp", "precomp"], "reads features of detector others"),
        (["evaluate", "--model", "few", "--precomp", "precomp"], "the first regions alone: give --regions 2"),
        ([*EVALUATE, "--precomp", "wide"], "reads features of 4 numbers, these have 5"),
        ([*EVALUATE, "--precomp", "precomp", "--fold5"], "5 equal folds: leave --fold5 out, or give --first 10"),
        ([*EVALUATE, "--precomp", "precomp", "--regions", "9"], "of which 9 cannot be kept"),
        ([*EVALUATE, "--images", "photos", "--captions", "bare.jsonl"], "a.jpg has no caption"),
        ([*EVALUATE, "--images", "photos", "--captions", "blank.jsonl"], "blank.jsonl:1: expected"),
        (
            [*EVALUATE, "--features", "found", "--captions", "mute.jsonl", "--split", "dev", "--gallery", "train"],
            "mute.jsonl: none of the selected pictures has a caption",
        ),
        (["extract", "whole", "--out", "out", "--detector", "detector"], "holds an extractor of kind 'nonsense'"),
        (["extract", "whole", "--out", "out", "--detector", "garbled"], "garbled"),
        (["extract", "whole", "--out", "captions.txt"], "captions.txt"),
        (["extract", "photos", "--out", "out"], "no pictures in photos"),
        (["evaluate", "--images", "photos", "--captions", "one.jsonl"], "photos/a.jpg: is no picture that can be read"),
        ([*SCORE, "empty.npy"], "empty.npy holds no whole array"),
        ([*EVALUATE, "--precomp", "precomp", "--split", "test", "--halves", "--first", "1"], "there is one picture"),
        (
            [*EVALUATE, "--images", "whole", "--captions", "png.jsonl", "--fold5"],
            "1 pictures do not make 5 equal folds: leave --fold5 out",
        ),
        (
            [*EVALUATE, "--images", "whole", "--captions", "png.jsonl"],
            "scan-t2i-avg reads features of detector bottom-up-36",
        ),
        (["bench", "rerank", "--plot", "gone/a.png"], "there is no folder gone to write a.png to"),
        (["bench", "train", "--device", "cuda"], "train is measured on the processor"),
        (["bench", "rerank", "--device", "cuda:99"], "there is no device cuda:99"),
        (
            ["extract", "whole", "--out", "out", "--detector", "weights"],
            "weights holds a matching model, and no detector",
        ),
        (
            [*EVALUATE, "--features", "found", "--captions", "one.jsonl"],
            "none of the 1 captioned pictures is among the extracted ones: the captions name them like a.jpg",
        ),
        ([*SCORE, "flat.npy", "--weights", "run"], "run/best"),
        (CALIBRATE, "5 pictures to fit on and 6 to judge by"),
        (
            ["calibrate", "weights", "--precomp", "infinite"],
            "the features of picture 0, picture 1, picture 2 and 2 others",
        ),
        (
            ["calibrate", "weights", "--features", "found", "--captions", "half.jsonl"],
            "half.jsonl: 0.png has no caption",
        ),
        (["calibrate", "others", *CALIBRATE[2:]], "reads features of detector others"),
        ([*TRAIN, "--precomp", "wide", "--split", "test", "--dev", "test", "--out", "trained"], "was begun on other"),
        ([*TRAIN, "--precomp", "precomp", "--out", "trained", "--set", "seed=9"], "a training of another recipe"),
        ([*TRAIN, "--precomp", "precomp", "--out", "new", "--word-vectors", "captions.txt"], "captions.txt"),
        (
            [*TRAIN, "--precomp", "infinite", "--out", "new"],
            "picture 2 and 2 others hold numbers that are not finite: extract them again, or",
        ),
        (["convert", "scan", "captions.txt", "--out", "new", "--vocab", "vocab.json"], "captions.txt"),
        (["convert", "tsv", "nonsense.tsv", "--out", "new"], "nonsense.tsv:1: 2 columns"),
        (["words", "captions.txt", "--out", "words.txt"], "give a smaller --dim, a lower --least or more captions"),
        (["words", "endless.npy", "--out", "words.txt"], "endless.npy"),
        (["ingest-features", "nonsense.tsv", "--data-dir", "data"], "nonsense.tsv:1: 2 columns"),
        (["ingest-features", "precomp", "--data-dir", "locked"], "only one worker may write"),
        (["ingest-features", "precomp", "--data-dir", "future"], "was written by a newer version of Regard"),
        (["ingest-features", "precomp", "--data-dir", "captions.txt"], "captions.txt"),
    ],
)
def test_a_mistake_that_is_found_late_is_one_line_too(
    regard: Regard, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(folder)
    if "trained" in arguments and not Path("trained").exists():
        assert regard(*TRAIN, "--precomp", "precomp", "--out", "trained")[0] == 0
    Path("future").mkdir(exist_ok=True)
    with sqlite3.connect("future/catalog.sqlite") as catalog:
        catalog.execute("PRAGMA user_version = 999")
    catalog.close()
    with WriterLock(Path("locked")):
        status, said, noted = regard(*arguments)
    assert (status, said) == (1, "")
    lines = [
        line
        for line in noted.splitlines()
        if not line.startswith(("training", "checking", "finding", "scoring", "left out"))
    ]
    assert len(lines) == 1, noted
    assert lines[0].startswith("regard: ")
    assert words in lines[0]
    assert "finding" not in noted or "png.jsonl" not in arguments  # which is refused at once


def test_the_split_of_a_training_is_warned_of(regard: Regard, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    warned = "models are trained on the split train"
    assert warned in regard(*[*CALIBRATE[:-3], "train", "--device", "cpu"])[2]
    assert warned not in regard(*CALIBRATE)[2]


def test_a_value_error_from_deep_inside_is_not_taken_for_a_mistake(
    regard: Regard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ValueError("deep inside")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(models.matching.single_matcher, "score_in_blocks", broken)
    with pytest.raises(ValueError, match="deep inside"):
        regard(*EVALUATE, "--precomp", "precomp")
    monkeypatch.setattr(models.training.trainer, "batch_losses", broken)
    with pytest.raises(ValueError, match="deep inside"):
        regard(*TRAIN, "--precomp", "precomp", "--out", "broken")


def test_a_bug_shows_its_traceback_and_a_status_that_is_not_zero() -> None:
    program = (
        "import sys, regard_client\n"
        "def models(self): raise ValueError('deep inside')\n"
        "regard_client.Client.models = models\n"
        "sys.argv = ['regard', 'models']\n"
        "from service.cli.main import main\nmain()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode not in (0, 2)
    assert ran.stderr.startswith("Traceback")
    assert ran.stderr.splitlines()[-1] == "ValueError: deep inside"


@pytest.mark.parametrize("name", sorted(LIBRARY_ERRORS))
def test_every_named_exception_exists_and_counts_as_a_mistake(name: str) -> None:
    module, _, kind = name.rpartition(".")
    error = getattr(importlib.import_module(module), kind)
    assert issubclass(error, Exception)
    assert is_user_error(error.__new__(error))  # whatever it is made with
    narrower: Any = type("Narrower", (error,), {})
    assert is_user_error(narrower.__new__(narrower))


def test_mistakes_and_bugs_are_told_apart() -> None:
    for mistake in (UserError("x"), Misconfigured("x"), FileNotFoundError(2, "No such file or directory", "x")):
        assert is_user_error(mistake)
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert is_user_error(full)
    assert one_line(full) == "the disk that is written to is full: make room there, and try again"
    failing = sqlite3.OperationalError("disk I/O error")
    failing.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE  # one of a kind of which the lowest byte tells
    assert is_user_error(failing)
    assert one_line(failing).startswith("disk I/O error: the disk cannot be read or written")
    with closing(sqlite3.connect(":memory:")) as memory, pytest.raises(sqlite3.OperationalError) as away:
        memory.execute("ATTACH '/nowhere/at.all' AS other")
    for fault, advice in (
        (still_locked(), "another process keeps the catalog"),
        (away.value, "check that the catalog"),
    ):
        assert is_user_error(fault)
        assert one_line(fault).startswith(f"{fault}: {advice}")
    for bug in (
        sqlite3.OperationalError("no such table"),
        ValueError("x"),
        KeyError("x"),
        RuntimeError("x"),
        AssertionError(),
        torch.OutOfMemoryError("x"),
    ):
        assert not is_user_error(bug)
    assert one_line(FileNotFoundError(2, "No such file or directory", "there")) == "there: No such file or directory"
    assert one_line(UserError("first\nsecond")) == "first"
    assert one_line(UserError()) == "UserError"


def test_what_a_user_gave_is_named_once() -> None:
    with pytest.raises(UserError, match=r"^file\.json: nonsense$"), user_input(Path("file.json")):
        raise ValueError("nonsense")
    with pytest.raises(UserError, match=r"^file\.json:3: nonsense$"), user_input(Path("file.json")):
        raise ValueError("file.json:3: nonsense")
    with pytest.raises(Misconfigured), user_input():
        raise Misconfigured("as it is")
    with pytest.raises(KeyError), user_input():
        raise KeyError("a bug")


def test_features_that_cannot_be_read_are_a_mistake_also_in_the_middle(folder: Path, tmp_path: Path) -> None:
    from models.datasets.feature_collection import open_collection  # noqa: PLC0415
    from tests.models.datasets.test_bottom_up_tsv import six  # noqa: PLC0415

    (tmp_path / "cut.tsv").write_text(six("1", 2) + "2\tcut off\n")
    with pytest.raises(UserError, match=r"cut\.tsv:2"):
        list(import_features(open_collection([tmp_path / "cut.tsv"]), tmp_path / "data", FakeExtractor, inf))


def test_a_model_that_comes_with_regard_is_copied_before_it_is_calibrated(regard: Regard) -> None:
    status, _, said = regard("calibrate", "bfan-equal", "--precomp", ".")
    assert (status, "and name the copy" in said) == (2, True)
