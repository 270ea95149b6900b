"""The program `regard`: results for people and programs, one line for whatever a user can put right."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import service.model_loading
from index.lock import WriterLock
from service.cli.commands import doctor
from service.cli.settings_options import flag_name
from service.model_loading import LoadedModels
from service.settings import Settings
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.library import two_coloured
from tests.support.project_files import ROOT
from tests.support.redis_server import RedisServer, free_port
from tests.support.running_server import running_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("data")) as address:
        yield address


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that load models get the ones that know colours."""
    loaded = LoadedModels(extractor=FakeExtractor(), matchers={"fake": FakeMatcher()}, views=["fake"])
    monkeypatch.setattr(service.model_loading, "detector_of", lambda folder, device: FakeExtractor())
    monkeypatch.setattr(LoadedModels, "from_settings", lambda settings, stored=True: loaded)


def photos(folder: Path, *colours: str) -> Path:
    folder.mkdir(exist_ok=True)
    for colour in colours:
        two_coloured(colour, colour).save(folder / f"{colour}.png")
    return folder


def test_help_lists_the_commands_and_loads_no_model() -> None:
    code = "import sys; sys.argv = ['regard', '--help']\nfrom service.cli.main import main\ntry: main()\n"
    code += "finally: print('heavy:', [m for m in ('torch', 'faiss', 'fastapi', 'PIL') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "heavy: []" in ran.stdout
    words = {line.split()[0] for line in ran.stdout.splitlines() if line.startswith("  ") and line.strip()}
    assert words >= {"serve", "worker", "ingest", "search", "similar", "explain", "models", "doctor"}
    assert words >= {"detect", "train", "extract", "evaluate", "calibrate"}


@pytest.mark.parametrize(("command", "left_out"), [("serve", set()), ("worker", {"role", "host", "port"})])
def test_every_setting_is_a_flag_with_its_words(regard: Regard, command: str, left_out: set[str]) -> None:
    _, said, _ = regard(command, "--help")
    flags = {line.split()[0] for line in said.splitlines() if line.startswith("  --")}
    assert {flag_name(name) for name in Settings.model_fields if name not in left_out} <= flags
    assert "REGARD_MAX_BODY_BYTES" in said
    assert not {flag_name(name) for name in left_out} & flags


def test_pictures_go_in_and_are_found(regard: Regard, url: str, tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "red", "green", "blue")
    captions = tmp_path / "captions.jsonl"
    captions.write_text(json.dumps({"image": "red.png", "captions": ["a red wall"]}) + "\n")
    status, said, _ = regard("ingest", folder, "--captions", captions, "--url", url, "--json")
    assert status == 0
    assert json.loads(said) == {"accepted": 3, "duplicates": 0, "rejected": [], "failed": []}
    status, said, _ = regard("ingest", folder, "--url", url)
    assert (status, said) == (0, "0 pictures taken in, 3 were there already\n")
    status, said, _ = regard("search", "red", "--url", url, "--json", "-k", 1)
    assert json.loads(said)["results"][0]["filename"] == "red.png"
    status, said, _ = regard("search", "red sheep", "--url", url, "-k", 1, "--explain")
    lines = said.splitlines()
    assert "red.png" in lines[0]
    assert lines[1].split()[0] == "red"
    assert lines[-1] == "unknown words: sheep"
    status, said, _ = regard("search", "red", "--url", url, "--min-score", 99)
    assert said == "nothing matches well enough: 3 candidates left out\n"
    status, said, _ = regard("similar", folder / "blue.png", "--url", url, "--json", "-k", 1)
    assert json.loads(said)["results"][0]["filename"] == "blue.png"
    status, said, _ = regard("similar", folder / "blue.png", "--captions", "--url", url)
    assert "a red wall" in said
    status, said, _ = regard("models", "--url", url)
    assert "fake (default)" in said


def test_files_turned_away_are_listed_and_told_by_the_status(regard: Regard, url: str, tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "white")
    (folder / "bad.jpg").write_text("hello")
    status, said, noted = regard("ingest", folder, "--url", url)
    assert (status, said) == (1, "1 pictures taken in, 0 were there already\n")
    assert "turned away: bad.jpg" in noted
    alone = photos(tmp_path / "alone")
    (alone / "bad.jpg").write_text("hello")
    status, said, _ = regard("ingest", alone, "--url", url, "--json")
    assert (status, [one["filename"] for one in json.loads(said)["rejected"]]) == (1, ["bad.jpg"])


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["search", "red", "--url", "http://127.0.0.1:1"], 1, "regard: nobody answers at http://127.0.0.1:1"),
        (["search", "red", "--url", "nonsense"], 1, "regard: nobody answers at nonsense"),
        (["search", "red", "--url", "URL", "--model", "scam"], 1, "regard: No model is called 'scam'"),
        (["search", "", "--url", "URL"], 1, "regard: query: is blank"),
        (["ingest", "/nowhere/at/all", "--url", "URL"], 1, "regard: there is no /nowhere/at/all"),
        (["ingest", "EMPTY", "--url", "URL"], 1, "regard: no pictures in"),
        (["similar", "/nowhere.jpg"], 2, "does not exist"),
        (["serve", "--port", "many"], 2, "--port (REGARD_PORT)"),
        (["serve", "--models", "a", "--views", "b"], 2, "views names b"),
        (["serve", "--role", "worker", "--photos", "EMPTY"], 2, "--photos needs the web side"),
        (["worker", "--models", "scam", "--detector", "EMPTY"], 1, "regard: "),
        (["evaluate", "--images", "EMPTY", "--captions", "BAD"], 1, "BAD:1: expected"),
        (["train", "fast", "--captions", "BAD", "--out", "EMPTY"], 2, "--features"),
    ],
)
def test_what_a_user_can_put_right_is_one_line(
    regard: Regard, url: str, tmp_path: Path, arguments: list[str], status: int, words: str
) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "BAD").write_text("nonsense")
    places = {"URL": url, "EMPTY": str(tmp_path / "EMPTY"), "BAD": str(tmp_path / "BAD")}
    got, said, noted = regard(*(places.get(argument, argument) for argument in arguments))
    assert (got, said) == (status, "")
    assert words in noted.replace("\n", " ").replace(str(tmp_path) + "/", "")
    assert "Traceback" not in noted
    assert status == 2 or len(noted.splitlines()) == 1


def test_a_port_that_is_taken_is_said(regard: Regard, url: str, tmp_path: Path) -> None:
    port = url.rpartition(":")[2]
    status, _, noted = regard("serve", "--role", "api", "--port", port, "--data-dir", tmp_path)
    assert (status, noted) == (1, f"regard: cannot listen on 127.0.0.1:{port}: Address already in use\n")


@pytest.mark.usefixtures("fakes")
def test_one_picture_can_be_looked_at_without_a_server(regard: Regard, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    two_coloured("red", "blue", 400, 200).save(picture)
    status, said, _ = regard("detect", picture, "--json")
    found = json.loads(said)
    assert (status, found["width"], found["height"], found["extractor"]) == (0, 400, 200, "fake-extractor")
    assert found["regions"][1] == {"box": [0, 0, 200, 200], "label": "left", "confidence": 0.75}
    assert "left" in regard("detect", picture)[1]
    answer = json.loads(regard("explain", "red sheep", picture, "--json")[1])
    assert (answer["model"], answer["unknown_words"]) == ("fake", ["sheep"])
    assert sum(answer["explanation"]["contributions"]) == pytest.approx(answer["score"], abs=1e-6)
    assert sum(map(sum, answer["explanation"]["shares"])) == pytest.approx(answer["score"], abs=1e-6)
    assert "left [0, 0, 200, 200]" in regard("explain", "red", picture)[1]
    bad = tmp_path / "bad.jpg"
    bad.write_text("hello")
    assert regard("detect", bad)[0] == 1


def test_doctor_says_of_each_part_whether_it_works(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(settings: Settings) -> str:
        raise OSError("out of order")

    monkeypatch.setattr(doctor, "CHECKS", {"python": doctor.CHECKS["python"], "data": doctor.CHECKS["data"]})
    status, said, _ = regard("doctor", "--data-dir", tmp_path, "--json")
    assert (status, json.loads(said)["healthy"]) == (0, True)
    with WriterLock(tmp_path):
        assert "already written by process" in regard("doctor", "--data-dir", tmp_path)[1]
    monkeypatch.setitem(doctor.CHECKS, "thing", broken)
    status, said, _ = regard("doctor", "--data-dir", tmp_path, "--json")
    checks: list[dict[str, Any]] = json.loads(said)["checks"]
    assert (status, checks[-1]) == (1, {"part": "thing", "ok": False, "found": "out of order"})


@pytest.mark.redis
def test_doctor_asks_redis(redis_server: RedisServer) -> None:
    redis = doctor.CHECKS["redis"]
    assert redis(Settings()) == "not used"
    assert "answers" in redis(Settings(redis_url=redis_server.url))
    gone = doctor.run_check("redis", redis, Settings(redis_url=f"redis://127.0.0.1:{free_port()}/0"))
    assert not gone["ok"]


@pytest.mark.usefixtures("fakes")
def test_a_model_is_made_and_measured_from_pictures(regard: Regard, tmp_path: Path) -> None:
    colours = ["red", "green", "blue", "yellow", "cyan", "magenta", "white", "black"]
    folder = photos(tmp_path / "photos", *colours)
    captions = tmp_path / "captions.jsonl"
    lines = [
        {"image": f"{colour}.png", "captions": [f"a {colour} wall", f"all {colour}"], "split": split}
        for colour in colours
        for split in ("train", "dev")
    ]
    captions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert regard("extract", folder, "--out", tmp_path / "features")[0] == 0
    changes = ["epochs=1", "warmup_steps=2", "width=8", "word_dim=8", "embed_dim=8", "batch=4", "least_count=1"]
    options = [part for change in changes for part in ("--set", change)]
    given = ["--features", tmp_path / "features", "--captions", captions]
    status, _, noted = regard("words", captions, "--out", tmp_path / "words.txt", "--dim", "8", "--ask", "reddish")
    assert (status, "words" in noted) == (0, True)
    options += ["--word-vectors", tmp_path / "words.txt", "--set", "near=0.4"]
    status, _, noted = regard("train", "scan-t2i-avg-flickr8k", *given, "--out", tmp_path / "run", *options)
    assert status == 0, noted
    assert "11 of 15 words start from" in noted
    assert re.search(r"training .* 6/6", noted)  # the bar, at its end
    given = ["--images", folder, "--captions", captions, "--split", "dev", "--model", tmp_path / "run" / "best"]
    status, said, noted = regard("evaluate", *given, "--json")
    assert status == 0, noted
    report = json.loads(said)
    assert (report["images"], report["captions"]) == (8, 16)
    assert 0 <= report["exhaustive"]["text_to_image"]["r10"] <= 100
    assert "every pair" in regard("evaluate", *given, "--features", tmp_path / "features")[1]
    status, said, _ = regard("evaluate", *given, "--features", tmp_path / "features", "--halves", "--json")
    second = json.loads(said)["halves"]["second"]
    said = regard("evaluate", *given, "--features", tmp_path / "features", "--part", "second", "--json")[1]
    assert (json.loads(said)["images"], json.loads(said)["captions"]) == (4, 8)
    assert json.loads(said)["difference"] == second["difference"]
    among = ["--gallery", "train", "--first", "2", "--questions", "3", "--json"]
    status, said, noted = regard("evaluate", *given, *among)
    assert status == 0, noted
    assert [json.loads(said)[name] for name in ("images", "captions")] == [8, 3]
    assert "--gallery" in regard("evaluate", *given, "--questions", "3")[2]
    assert regard("evaluate", *given, "--regions", "1")[0] == 0
    status, _, noted = regard("train", "scan-t2i-avg-flickr8k", *given[2:4], "--features", tmp_path / "features",
                              "--out", tmp_path / "run", "--set", "speed=9")  # fmt: skip
    assert (status, "write name=value" in noted) == (1, True)
