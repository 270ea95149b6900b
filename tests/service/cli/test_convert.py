"""`regard convert` and `regard score`, as scripts call them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

from models.datasets.feature_store import open_features
from models.extractors.detector_config import DetectorConfig
from models.extractors.faster_rcnn import FasterRcnn, save_detector
from models.extractors.yolox import YoloxNano
from service.cli.main import main
from tests.models.datasets.test_bottom_up_tsv import six
from tests.support import authors_checkpoints as authors


def regard(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Runs the program in this process; its exit status."""
    monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_checkpoint_is_converted_and_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = authors.write(tmp_path / "scan.pth.tar", authors.encoders(), authors.SCAN)
    vocab = authors.write_vocabulary(tmp_path / "vocab.json")
    assert regard(monkeypatch, "convert", "scan", file, "--vocab", vocab, "--out", tmp_path / "w") == 0
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((3, 2, authors.FEATURE_DIM), dtype=np.float32))
    (tmp_path / "captions.txt").write_text("a dog runs\ngrass\n")
    options = {"weights": "w", "features": "x.npy", "captions": "captions.txt", "out": "s.npy"}
    arguments = [part for name, value in options.items() for part in (f"--{name}", tmp_path / value)]
    assert regard(monkeypatch, "score", *arguments, "--device", "cpu") == 0
    scores = np.load(tmp_path / "s.npy")
    assert (scores.shape, scores.dtype) == ((3, 2), np.float64)
    assert np.isfinite(scores).all()
    said = capsys.readouterr().out
    assert said == (
        f"{tmp_path / 's.npy'}: a row for each of 3 pictures, a column for each of 2 captions, in float64\n"
    )
    lines = [{"image": "1", "captions": ["grass", "a dog runs"]}, {"image": "2", "captions": ["a"], "split": "dev"}]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options |= {"captions": "captions.jsonl", "out": "t"}
    arguments = [part for name, value in options.items() for part in (f"--{name}", tmp_path / value)]
    assert regard(monkeypatch, "score", *arguments, "--device", "cpu") == 0
    assert "t.npy: a row for each of 3 pictures, a column for each of 3 captions" in capsys.readouterr().out
    np.testing.assert_allclose(np.load(tmp_path / "t.npy")[:, :2], scores[:, ::-1])
    assert regard(monkeypatch, "score", *arguments, "--device", "cpu", "--split", "dev") == 0
    assert np.load(tmp_path / "t.npy").shape == (3, 1)


def test_features_are_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tsv").write_text(six("1", 2))
    (tmp_path / "b.tsv").write_text(six("2", 3))
    files = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    assert regard(monkeypatch, "convert", "tsv", *files, "--out", tmp_path / "out", "--regions", 4) == 0
    assert open_features(tmp_path / "out").features.shape == (2, 4, 4)
    assert "converting 100% 2/2" in capsys.readouterr().err
    assert regard(monkeypatch, "convert", "tsv", *files, "--out", tmp_path / "out", "--regions", 4) == 0
    assert capsys.readouterr().err == (f"{tmp_path / 'out'} holds all pictures of these files: nothing is left to do\n")


def test_what_is_refused_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = authors.write(tmp_path / "scan.pth.tar", authors.encoders(), authors.SCAN | {"agg_func": "Median"})
    vocab = authors.write_vocabulary(tmp_path / "vocab.json")
    assert regard(monkeypatch, "convert", "scan", file, "--vocab", vocab, "--out", tmp_path / "w") == 1
    complaint = capsys.readouterr().err.splitlines()
    assert len(complaint) == 1
    assert "option agg_func is 'Median'" in complaint[0]


def test_yolox_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_file(YoloxNano(80).state_dict(), tmp_path / "other.safetensors")
    arguments = ["convert", "yolox", tmp_path / "other.safetensors", "--out", tmp_path / "out"]
    assert regard(monkeypatch, *arguments) == 0
    assert (tmp_path / "out" / "yolox.safetensors").is_file()
    assert regard(monkeypatch, *arguments) == 1


def test_a_detector_without_concepts_says_which_parts_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_detector(FasterRcnn(DetectorConfig(labels=("thing",), neck_width=16, head_width=16)), tmp_path / "plain")
    save_file(YoloxNano(80).state_dict(), tmp_path / "yolox.safetensors")
    file = tmp_path / "plain" / "model.safetensors"
    arguments = ["convert", "detector", file, "--one-stage", tmp_path / "yolox.safetensors", "--out", tmp_path / "out"]
    monkeypatch.setenv("COLUMNS", "1000")
    assert regard(monkeypatch, *arguments) == 2
    complaint = capsys.readouterr().err
    assert "--classifier, --sentence-encoder" in complaint
    assert "--one-stage" not in complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ["caan", "f", "--vocab", "v"],
        ["scan", "f"],
        ["scan", "f", "f", "--vocab", "v"],
        ["yolox", "f", "f"],
        ["detector", "f", "f"],
        ["yolox", "f", "--vocab", "v"],
        ["scan", "f", "--vocab", "v", "--in-bytes"],
        ["tsv", "f", "--set", "top=1"],
    ],
)
def test_wrong_arguments_are_told_from_wrong_files(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("f", "v"):
        Path(name).touch()
    assert regard(monkeypatch, "convert", *arguments, "--out", "out") == 2


@pytest.mark.slow
def test_folders_in_scans_layout_train_and_are_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for split in ("train", "dev", "testall"):
        np.save(f"{split}_ims.npy", random.random((10, 2, 4), dtype=np.float32))
        Path(f"{split}_caps.txt").write_text("".join(f"picture {n // 5} caption {n % 5}\n" for n in range(50)))
    sizes = ["epochs=1", "width=8", "word_dim=8", "embed_dim=4", "batch=5", "least_count=1", "decay_after=[]"]
    change = [part for size in sizes for part in ("--set", size)]
    for number in (1, 2):
        out = ["--precomp", ".", "--out", f"run{number}", "--set", f"seed={number}"]
        assert regard(monkeypatch, "train", "scan-i2t-avg-f30k", *out, *change) == 0
    capsys.readouterr()
    both = ["--model", "run1/best+run2/best", "--precomp", ".", "--split", "testall", "--fold5", "--json"]
    assert regard(monkeypatch, "evaluate", *both, "--device", "cpu") == 0
    said, noted = capsys.readouterr()
    assert noted.splitlines() == ["scoring pairs 100% 500/500", "computing recalls 100% 3/3"]
    report = json.loads(said)
    assert (report["images"], report["captions"]) == (10, 50)
    assert report["fold5"]["rsum"] >= report["exhaustive"]["rsum"]
    assert report["model"] == "scan-i2t-avg+scan-i2t-avg"
