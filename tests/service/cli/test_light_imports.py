"""Help and refused arguments come before anything heavy is imported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.main import COMMANDS, NAMES
from tests.support.project_files import ROOT
from tests.support.small_matchers import small_weights

HEAVY = ("torch", "torchvision", "nltk", "faiss", "scipy", "fastapi", "uvicorn", "PIL", "redis", "tensorboard")
# Runs command lines, one JSON list a line, and prints for each of them its status and what it was the first to import.
PROGRAM = f"""
import contextlib, io, json, sys
from service.cli.main import main
known = set()
for line in sys.stdin:
    sys.argv, status, said = ["regard", *json.loads(line)], 0, io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as ended:
            status = ended.code
    heavy = [name for name in {HEAVY} if name in sys.modules and name not in known]
    known.update(heavy)
    print(json.dumps([status, heavy, said.getvalue()]), flush=True)
"""


def run_all(command_lines: list[list[str]], folder: Path) -> list[tuple[int, list[str], str]]:
    """Status, newly imported heavy modules and output of each command line, in one process."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="".join(json.dumps(line) + "\n" for line in command_lines),
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [tuple(json.loads(line)) for line in ran.stdout.splitlines()]
    assert len(answers) == len(command_lines), ran.stderr
    return answers


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    names: list[str] = [NAMES.get(one, one.__name__.replace("_", "-")) for one in COMMANDS]
    names += ["keys", "keys create", "keys list", "keys revoke"]
    answers = run_all([["--help"], *([*name.split(), "--help"] for name in names)], tmp_path)
    for (status, heavy, said), name in zip(answers, ["regard", *names], strict=True):
        assert (status or 0, heavy) == (0, []), name
        assert "--help" in said
    assert "..." not in answers[0][2].partition("Commands:")[2], "the list of commands cuts a sentence"


REFUSED = [
    ["nonsense"],
    ["search", "red", "--url", "ftp://nowhere"],
    ["list", "--date", "yesterday"],
    ["list", "--tag", "year"],
    ["evaluate"],
    ["evaluate", "--nonsense"],
    ["evaluate", "--precomp", "NOWHERE"],
    ["evaluate", "--precomp", "EMPTY"],
    ["evaluate", "--precomp", "EMPTY", "--model", "scam"],
    ["evaluate", "--features", "EMPTY", "--captions", "CAPTIONS"],
    ["evaluate", "--images", "EMPTY", "--captions", "CAPTIONS"],
    ["evaluate", "--images", "EMPTY", "--captions", "NONSENSE"],
    ["evaluate", "--images", "EMPTY", "--captions", "BINARY"],
    ["evaluate", "--images", "PHOTOS", "--captions", "CAPTIONS", "--split", "nonsense"],
    ["evaluate", "--images", "PHOTOS", "--captions", "CAPTIONS", "--model", "EMPTY"],
    ["evaluate", "--images", "PHOTOS", "--captions", "CAPTIONS", "--model", "caan+scam"],
    ["evaluate", "--images", "PHOTOS", "--captions", "CAPTIONS", "--detector", "EMPTY"],
    ["evaluate", "--images", "PHOTOS", "--captions", "CAPTIONS", "--questions", "3"],
    ["calibrate", "EMPTY"],
    ["calibrate", "EMPTY", "--precomp", "EMPTY"],
    ["calibrate", "WEIGHTS", "--precomp", "EMPTY"],
    ["train", "nonsense", "--precomp", "EMPTY", "--out", "OUT"],
    ["train", "caan-flickr8k", "--precomp", "EMPTY", "--out", "OUT"],
    ["train", "bfan-equal-flickr8k", "--precomp", "EMPTY", "--out", "OUT"],
    ["train", "bfan-equal-flickr8k", "--precomp", "EMPTY", "--out", "OUT", "--set", "speed=9"],
    ["train", "bfan-equal-flickr8k", "--precomp", "EMPTY", "--out", "OUT", "--from", "EMPTY"],
    ["train", "backbone", "--out", "OUT"],
    ["train", "backbone", "--out", "OUT", "--captions", "CAPTIONS", "--backbone", "NOWHERE"],
    ["train", "detector", "--out", "OUT", "--captions", "CAPTIONS", "--backbone", "CAPTIONS"],
    ["train", "detector", "--out", "OUT", "--captions", "CAPTIONS", "--backbone", "CAPTIONS", "--teacher", "NOWHERE"],
    ["extract", "EMPTY", "--out", "OUT"],
    ["extract", "PHOTOS", "--out", "OUT", "--detector", "EMPTY"],
    ["convert", "caan", "CAPTIONS", "--out", "OUT"],
    ["convert", "scan", "CAPTIONS", "--out", "OUT", "--vocab", "NOWHERE"],
    ["convert", "scan", "CAPTIONS", "--out", "WEIGHTS", "--vocab", "CAPTIONS"],
    ["convert", "tsv", "CAPTIONS", "--out", "OUT", "--objects", "NOWHERE"],
    ["convert", "tsv", "EMPTY", "--out", "OUT"],
    ["convert", "sentence-encoder", "EMPTY", "--out", "OUT"],
    ["convert", "sentence-encoder", "CAPTIONS", "--captions", "CAPTIONS", "--out", "OUT"],
    ["convert", "sentence-encoder", "EMPTY", "--captions", "NOWHERE", "--out", "OUT"],
    ["score", "--weights", "EMPTY", "--features", "CAPTIONS", "--captions", "CAPTIONS", "--out", "OUT"],
    ["score", "--weights", "WEIGHTS", "--features", "CAPTIONS", "--captions", "CAPTIONS", "--out", "OUT"],
    ["score", "--weights", "WEIGHTS", "--features", "CAPTIONS", "--captions", "CAPTIONS", "--out", "NOWHERE/s.npy"],
    ["words", "CAPTIONS", "--out", "NOWHERE/words.txt"],
    ["bench", "nonsense"],
    ["bench", "rerank", "--model", "nonsense"],
    ["ingest", "NOWHERE"],
    ["ingest", "EMPTY"],
    ["ingest", "PHOTOS", "--captions", "NONSENSE"],
    ["ingest", "PHOTOS", "--url", "http://127.0.0.1:1"],
    ["ingest-features", "EMPTY"],
    ["ingest-features", "EMPTY", "EMPTY"],
    ["ingest-features", "EMPTY", "--captions", "NONSENSE"],
    ["search", "red", "-k", "0"],
    ["search", "red", "--url", "http://127.0.0.1:1"],
    ["similar", "NOWHERE"],
    ["models", "--url", "http://127.0.0.1:1"],
    ["detect", "NOWHERE"],
    ["detect", "CAPTIONS", "--detector", "EMPTY"],
    ["explain", "red", "NOWHERE"],
    ["explain", " ", "CAPTIONS"],
    ["explain", "red", "CAPTIONS", "--model", "scam"],
    ["serve", "--port", "many"],
    ["serve", "--port", "1000000"],
    ["serve", "--models", "scam", "--data-dir", "OUT"],
    ["serve", "--detector", "EMPTY", "--data-dir", "OUT"],
    ["serve", "--role", "worker", "--photos", "EMPTY"],
    ["serve", "--host", "no.such.host.invalid", "--role", "api", "--data-dir", "OUT"],
    ["worker", "--models", "EMPTY", "--data-dir", "OUT"],
    ["serve", "--host", "0.0.0.0", "--role", "api", "--data-dir", "OUT"],
    ["keys", "nonsense"],
    ["keys", "create", "me"],
    ["keys", "create", "a\nb", "--permission", "read", "--data-dir", "OUT"],
    ["keys", "revoke", "nobody", "--data-dir", "OUT"],
    ["doctor", "--nonsense"],
    ["chaos", "--minutes", "0"],
    ["chaos", "--data-dir", "PHOTOS"],
    ["chaos", "--data-dir", "OUT", "--redis"],
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("places")
    for name in ("EMPTY", "PHOTOS"):
        (folder / name).mkdir()
    (folder / "PHOTOS" / "a.jpg").write_bytes(b"")
    (folder / "CAPTIONS").write_text('{"image": "a.jpg", "captions": ["a dog"]}\n')
    (folder / "NONSENSE").write_text("nonsense\n")
    (folder / "BINARY").write_bytes(b"\xff\xfe\x00")
    small_weights(folder / "WEIGHTS", "scan-t2i-avg")
    names = ("EMPTY", "PHOTOS", "CAPTIONS", "NONSENSE", "BINARY", "WEIGHTS", "NOWHERE", "OUT")
    return {name: str(folder / name) for name in names}


@pytest.mark.slow
def test_a_refused_argument_imports_nothing_heavy(folders: dict[str, str]) -> None:
    def in_place(word: str) -> str:
        head, slash, tail = word.partition("/")
        return folders[head] + slash + tail if head in folders else word

    answers = run_all([[in_place(word) for word in line] for line in REFUSED], Path(folders["EMPTY"]))
    for (status, heavy, said), line in zip(answers, REFUSED, strict=True):
        assert (status, heavy) in ((1, []), (2, [])), line
        assert "Traceback" not in said, line
        assert status == 2 or len(said.splitlines()) == 1, (line, said)
    assert not Path(folders["OUT"]).exists()


def test_a_picture_that_cannot_be_decoded_is_refused_without_a_model(folders: dict[str, str]) -> None:
    lines = [["detect", folders["CAPTIONS"]], ["explain", "red", folders["CAPTIONS"]]]
    for status, heavy, said in run_all(lines, Path(folders["EMPTY"])):
        assert (status, set(heavy) - {"PIL"}) == (1, set())
        assert "damaged" in said or "picture" in said
