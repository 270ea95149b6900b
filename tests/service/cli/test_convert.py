"""`regard convert` and `regard score`, as scripts call them."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

from models.datasets.feature_store import open_features
from models.extractors.faster_rcnn.config import DetectorConfig
from models.extractors.faster_rcnn.extractor import FasterRcnn, save_detector
from models.extractors.faster_rcnn.yolox import YoloxNano
from tests.models.datasets.test_bottom_up_tsv import six
from tests.support import authors_checkpoints as authors
from tests.support.cli_runner import Regard


def test_a_checkpoint_is_converted_and_scores(regard: Regard, tmp_path: Path) -> None:
    file = authors.write(tmp_path / "scan.pth.tar", authors.encoders(), authors.SCAN)
    vocab = authors.write_vocabulary(tmp_path / "vocab.json")
    assert regard("convert", "scan", file, "--vocab", vocab, "--out", tmp_path / "w")[0] == 0
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((3, 2, authors.FEATURE_DIM), dtype=np.float32))
    (tmp_path / "captions.txt").write_text("a dog runs\ngrass\n")
    options = {"weights": "w", "features": "x.npy", "captions": "captions.txt", "out": "s.npy"}
    arguments = [part for name, value in options.items() for part in (f"--{name}", tmp_path / value)]
    status, said, _ = regard("score", *arguments, "--device", "cpu")
    scores = np.load(tmp_path / "s.npy")
    assert (scores.shape, scores.dtype) == ((3, 2), np.float64)
    assert np.isfinite(scores).all()
    assert (status, said) == (
        0,
        f"{tmp_path / 's.npy'}: a row for each of 3 pictures, a column for each of 2 captions, in float64\n",
    )
    lines = [{"image": "1", "captions": ["grass", "a dog runs"]}, {"image": "2", "captions": ["a"], "split": "dev"}]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options |= {"captions": "captions.jsonl", "out": "t"}
    arguments = [part for name, value in options.items() for part in (f"--{name}", tmp_path / value)]
    said = regard("score", *arguments, "--device", "cpu")[1]
    assert "t.npy: a row for each of 3 pictures, a column for each of 3 captions" in said
    np.testing.assert_allclose(np.load(tmp_path / "t.npy")[:, :2], scores[:, ::-1])
    assert regard("score", *arguments, "--device", "cpu", "--split", "dev")[0] == 0
    assert np.load(tmp_path / "t.npy").shape == (3, 1)


def test_features_are_converted(regard: Regard, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(six("1", 2))
    (tmp_path / "b.tsv").write_text(six("2", 3))
    files = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    arguments = ["convert", "tsv", *files, "--out", tmp_path / "out", "--regions", 4]
    status, _, noted = regard(*arguments)
    assert (status, "converting 100% 2/2" in noted) == (0, True)
    assert open_features(tmp_path / "out").features.shape == (2, 4, 4)
    noted = f"{tmp_path / 'out'} already holds all pictures of these files\n"
    assert regard(*arguments) == (0, "", noted)


def test_what_is_refused_ends_in_one_line(regard: Regard, tmp_path: Path) -> None:
    file = authors.write(tmp_path / "scan.pth.tar", authors.encoders(), authors.SCAN | {"agg_func": "Median"})
    vocab = authors.write_vocabulary(tmp_path / "vocab.json")
    status, _, noted = regard("convert", "scan", file, "--vocab", vocab, "--out", tmp_path / "w")
    assert (status, noted.count("\n"), "option agg_func is 'Median'" in noted) == (1, 1, True)


def test_yolox_is_converted(regard: Regard, tmp_path: Path) -> None:
    save_file(YoloxNano(80).state_dict(), tmp_path / "other.safetensors")
    arguments = ["convert", "yolox", tmp_path / "other.safetensors", "--out", tmp_path / "out"]
    assert regard(*arguments)[0] == 0
    assert (tmp_path / "out" / "yolox.safetensors").is_file()
    assert regard(*arguments)[0] == 1


def test_a_detector_without_concepts_says_which_parts_it_needs(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_detector(FasterRcnn(DetectorConfig(labels=("thing",), neck_width=16, head_width=16)), tmp_path / "plain")
    save_file(YoloxNano(80).state_dict(), tmp_path / "yolox.safetensors")
    file = tmp_path / "plain" / "model.safetensors"
    arguments = ["convert", "detector", file, "--one-stage", tmp_path / "yolox.safetensors", "--out", tmp_path / "out"]
    monkeypatch.setenv("COLUMNS", "1000")
    status, _, complaint = regard(*arguments)
    assert status == 2
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
    regard: Regard, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("f", "v"):
        Path(name).touch()
    assert regard("convert", *arguments, "--out", "out")[0] == 2


@pytest.mark.slow
def test_folders_in_scans_layout_train_and_are_evaluated(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        assert regard("train", "scan-i2t-avg-f30k", *out, *change)[0] == 0
    both = ["--model", "run1/best+run2/best", "--precomp", ".", "--split", "testall", "--fold5", "--json"]
    status, said, noted = regard("evaluate", *both, "--device", "cpu")
    assert status == 0
    few = "recalls on so few pictures (10) are meaningless: use at least 50"
    assert noted.splitlines() == [few, "scoring pairs 100% 500/500", "computing recalls 100% 3/3"]
    report = json.loads(said)
    assert (report["images"], report["captions"]) == (10, 50)
    assert report["fold5"]["rsum"] >= report["exhaustive"]["rsum"]
    assert report["model"] == "scan-i2t-avg+scan-i2t-avg"
    compared = [*both[:-1], "--device", "cpu", "--against", "run2/best", "--ranks", "ranks.npz"]
    status, said, noted = regard("evaluate", *compared, "--json")
    assert status == 0, noted
    other, ranks = json.loads(said)["against"], np.load("ranks.npz")
    assert json.loads(said)["fold5"] == report["fold5"]
    assert other["difference"]["fold5"]["rsum"] == pytest.approx(report["fold5"]["rsum"] - other["fold5"]["rsum"])
    for recalls in (report["fold5"], other["fold5"], other["difference"]["fold5"]):
        low, high = recalls["interval"]["rsum"]
        assert low <= recalls["rsum"] <= high
    for whose, found in (("", report), ("against_", other)):
        firsts = ranks[f"{whose}fold5_text_to_image"] == 0  # folds of equal size, so that their mean is that of all
        assert found["fold5"]["text_to_image"]["r1"] == pytest.approx(100 * firsts.mean())
    status, said, _ = regard("evaluate", *compared[:-2])
    assert status == 0
    for row in ("in five folds", "scan-i2t-avg instead, in five folds", "difference from it, in five folds"):
        assert any(line.startswith(row) for line in said.splitlines())
