"""The program `regard`: results for people and programs, one line for whatever a user can put right."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

import service.model_loading
from index.catalog.catalog import Catalog
from index.catalog.database.schema import VERSION
from index.lock import WriterLock
from models.kernels import library
from service.cli.commands import doctor
from service.cli.settings_options import flag_name
from service.model_loading import LoadedModels
from service.settings import Settings
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.kernels import load_kernels
from tests.support.library import two_coloured
from tests.support.pictures import heic_corners
from tests.support.project_files import ROOT
from tests.support.redis_server import RedisServer
from tests.support.running_server import running_server


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that load models get the ones that know colours."""
    loaded = LoadedModels.of(FakeExtractor(), {"fake": FakeMatcher()}, views=["fake"])
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


@pytest.fixture
def other_url(tmp_path: Path) -> Iterator[str]:
    with running_server(tmp_path / "data") as address:
        yield address


def test_pictures_are_changed_deleted_and_brought_back(regard: Regard, other_url: str, tmp_path: Path) -> None:
    url = other_url
    regard("ingest", photos(tmp_path / "more", "yellow", "cyan"), "--no-albums", "--url", url)
    _, said, _ = regard("search", "yellow", "--url", url, "--json", "-k", 1)
    image_id = json.loads(said)["results"][0]["image_id"]
    changes = ["--caption", "a wall", "--tag", "year=2024", "--tag", "place=Oslo", "--taken-at", "2024-07-01T12:00:00Z"]
    status, said, _ = regard("edit", image_id, *changes, "--name", "wall.png", "--url", url, "--json")
    (changed,) = json.loads(said)
    assert (status, changed["filename"], changed["tags"]) == (0, "wall.png", {"year": 2024, "place": "Oslo"})
    assert (changed["captions"], changed["taken_at"]) == (["a wall"], "2024-07-01T12:00:00Z")
    cleared = ["--no-captions", "--tag", "year=", "--date", "2023-05"]
    status, said, _ = regard("edit", image_id, *cleared, "--url", url)
    assert (status, said) == (0, f"{image_id} wall.png: no captions; place=Oslo; 2023-05-01\n")
    status, said, _ = regard("edit", image_id, "--no-tags", "--taken-at", "", "--caption", "a wall", "--url", url)
    assert (status, said) == (0, f"{image_id} wall.png: a wall; no tags; no date\n")
    assert regard("delete", image_id, image_id, "--url", url)[:2] == (0, f"{image_id} deleted\n")
    status, _, complaint = regard("delete", image_id, "--url", url)
    assert (status, complaint) == (1, f"regard: There is no picture {image_id}.\n")
    assert regard("restore", image_id, "--url", url)[:2] == (0, f"{image_id} wall.png is back\n")


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_a_data_directory_is_copied_and_made_again(regard: Regard, tmp_path: Path, name: str) -> None:
    with running_server(tmp_path / "data") as url:
        regard("ingest", photos(tmp_path / "more", "yellow", "cyan"), "--url", url)
        status, said, _ = regard("snapshot", tmp_path / name, "--data-dir", tmp_path / "data")
        assert (status, said) == (0, f"{tmp_path / name} holds 2 pictures\n")
    assert f"{tmp_path / 'again'} holds 2 pictures; st" in regard("restore", tmp_path / name, tmp_path / "again")[1]
    said = regard("restore", tmp_path / name, third := tmp_path / "third", "--json")[1]
    assert json.loads(said) == {"data_dir": str(third), "pictures": 2, "deleted": 0}
    status, _, complaint = regard("restore", tmp_path / name, tmp_path / "again")
    assert (status, complaint.startswith(f"regard: {tmp_path / 'again'} is not empty")) == (1, True)
    assert regard("restore", tmp_path / "nowhere", tmp_path / "new")[0] == 2
    assert regard("restore", "nonsense")[0] == 2
    assert regard("restore", "0" * 32, "--skip-damaged")[0] == 2


def test_a_data_directory_is_verified_and_compacted(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", {"catalog": doctor.CHECKS["catalog"]})
    folder = tmp_path / "data"
    status, said, _ = regard("doctor", "--verify", "--data-dir", folder)
    assert (status, f"nothing is stored in {folder}" in said) == (1, True)
    assert regard("doctor", "--data-dir", folder)[0] == 0
    assert regard("compact", "--data-dir", folder)[0] == 1
    with running_server(folder) as url:
        regard("ingest", photos(tmp_path / "more", "yellow", "cyan"), "--url", url)
    status, said, _ = regard("doctor", "--verify", "--data-dir", folder)
    assert (status, "everything matches its checksum" in said) == (0, True)
    status, said, _ = regard("compact", "--data-dir", folder)
    assert (status, said) == (0, "0 region records and 0 rows of views overwritten, 0.0 MB freed\n")
    original = next(path for path in (folder / "originals").rglob("*.png"))
    original.write_bytes(b"x")
    status, said, _ = regard("doctor", "--verify", "--data-dir", folder)
    assert (status, "not the bytes that were taken in" in said) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to change"),
        (["--caption", "a", "--no-captions"], "--no-captions removes them"),
        (["--tag", "a=1", "--no-tags"], "--no-tags removes them"),
        (["--tag", "year"], "NAME=VALUE"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(regard: Regard, arguments: list[str], words: str) -> None:
    status, _, complaint = regard("edit", "0" * 32, *arguments)
    assert status == 2
    assert words in complaint


def test_pictures_go_in_and_are_found(regard: Regard, url: str, tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "red", "green", "blue")
    captions = tmp_path / "captions.jsonl"
    captions.write_text(json.dumps({"image": "red.png", "captions": ["a red wall"]}) + "\n")
    status, said, _ = regard("ingest", folder, "--captions", captions, "--url", url, "--json")
    assert status == 0
    counted = json.loads(said)
    assert counted.pop("accepted") == 3
    assert not any(counted.values())
    status, said, _ = regard("ingest", folder, "--url", url)
    assert (status, said) == (0, "outcome        files\nthere already  3\n")
    status, said, _ = regard("search", "red", "--url", url, "--json", "-k", 1)
    assert json.loads(said)["results"][0]["filename"] == "red.png"
    status, said, _ = regard("search", "red sheep", "--url", url, "-k", 1, "--explain")
    lines = said.splitlines()
    assert "red.png" in lines[1]
    assert [line.split()[0] for line in lines if line.startswith("  ")] == ["red", "sheep", "(<start>"]
    assert lines[-1] == "unknown words: sheep"
    status, said, _ = regard("search", "red", "--url", url, "--min-score", 99)
    head, row = said.splitlines()
    assert head.split() == ["rank", "name", "tags", "found", "id"]  # what its text alone found has no score
    assert row.split()[:2] == ["1", "red.png"]
    assert "by its text" in row
    status, said, _ = regard("search", "red wall", "--url", url, "--match", "text", "--explain")
    assert said.splitlines()[-1].strip() == "found by its text alone: red, wall"
    status, said, _ = regard("search", "red", "--url", url, "--min-score", 99, "--match", "pictures")
    assert said == "nothing matches well enough: 3 candidates left out\n"
    status, said, _ = regard("similar", folder / "blue.png", "--url", url, "--json", "-k", 1)
    assert json.loads(said)["results"][0]["filename"] in {"red.png", "green.png"}
    status, said, _ = regard("similar", folder / "blue.png", "--captions", "--url", url)
    assert "a red wall" in said
    status, said, _ = regard("models", "--url", url)
    assert "fake (default)" in said


def test_files_turned_away_are_listed_and_told_by_the_status(regard: Regard, url: str, tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "white")
    (folder / "bad.jpg").write_text("hello")
    status, said, noted = regard("ingest", folder, "--url", url)
    assert (status, said) == (1, "outcome      files\ntaken in     1\nturned away  1\n")
    assert "turned away: bad.jpg" in noted
    alone = photos(tmp_path / "alone")
    (alone / "bad.jpg").write_text("hello")
    status, said, _ = regard("ingest", alone, "--url", url, "--json")
    assert (status, [one["filename"] for one in json.loads(said)["rejected"]]) == (1, ["bad.jpg"])


def test_every_file_of_a_folder_is_accounted_for(
    regard: Regard, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cli.picture_files.can_read_raw", lambda: False)
    folder = photos(tmp_path / "photos", "magenta")
    (folder / "same.png").write_bytes((folder / "magenta.png").read_bytes())
    (folder / "phone.heic").write_bytes(heic_corners())
    (folder / "cut.png").write_bytes((folder / "magenta.png").read_bytes()[:50])
    (folder / "bad.jpg").write_text("hello")
    for name in ("a.NEF", "b.cr2", "film.mp4", "film.MOV", "letter.pdf", ".DS_Store", "README"):
        (folder / name).write_text("x")
    status, said, noted = regard("ingest", folder, "--url", url)
    assert status == 1
    assert [line.split("  ")[0] + " " + line.split()[-1] for line in said.splitlines()[1:]] == [
        *("taken in 2", "there already 1", "skipped: .pdf files 1", "skipped: RAW photographs 2"),
        *("skipped: files without an extension 1", "skipped: films 2", "skipped: hidden files 1", "turned away 1"),
        "set aside 1",
    ]
    assert sum(int(line.split()[-1]) for line in said.splitlines()[1:]) == len(list(folder.iterdir()))
    assert "turned away: bad.jpg: This is text" in noted
    assert "set aside: cut.png: The file is damaged" in noted
    status, said, _ = regard("ingest", folder, "--url", url, "--json")
    counts = json.loads(said)
    assert (counts["accepted"], counts["duplicates"], len(counts["failed"])) == (0, 3, 1)
    assert counts["skipped"]["films"] == 2


def test_a_folder_without_pictures_says_what_is_in_it(regard: Regard, url: str, tmp_path: Path) -> None:
    (tmp_path / "film.mp4").write_text("x")
    status, _, complaint = regard("ingest", tmp_path, "--url", url)
    assert status == 1
    assert complaint.endswith("(skipped: 1 films)\n")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["search", "red", "--url", "http://127.0.0.1:1"], 1, "regard: nobody answers at http://127.0.0.1:1"),
        (["search", "red", "--url", "nonsense"], 1, "regard: nobody answers at http://nonsense"),
        (["search", "red", "--url", "URL", "--model", "scam"], 1, "regard: No model is called 'scam'"),
        (["search", "", "--url", "URL"], 1, "regard: query: is blank"),
        (["ingest", "/nowhere/at/all", "--url", "URL"], 1, "regard: there is no /nowhere/at/all"),
        (["ingest", "EMPTY", "--url", "URL"], 1, "regard: no pictures in"),
        (["similar", "/nowhere.jpg"], 2, "does not exist"),
        (["serve", "--port", "many"], 2, "--port (REGARD_PORT)"),
        (["serve", "--models", "a", "--views", "b"], 2, "views names b"),
        (["serve", "--role", "worker", "--photos", "EMPTY"], 2, "--photos needs the web process"),
        (["worker", "--models", "scam", "--detector", "EMPTY"], 1, "regard: "),
        (["evaluate", "--images", "EMPTY", "--captions", "BAD"], 1, "BAD:1: expected"),
        (["train", "bfan-equal-flickr8k", "--captions", "BAD", "--out", "EMPTY"], 2, "--features"),
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


@pytest.mark.parametrize("role", ["all", "api"])
def test_a_port_that_is_taken_is_said_and_leaves_no_folder(regard: Regard, url: str, tmp_path: Path, role: str) -> None:
    port, folder = url.rpartition(":")[2], tmp_path / "new"
    status, _, noted = regard("serve", "--role", role, "--port", port, "--data-dir", folder)
    problem = f"cannot listen on 127.0.0.1:{port}: Address already in use; REGARD_PORT or --port names another"
    assert (status, noted) == (1, f"regard: {problem}\n")
    assert not folder.exists()


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
    assert answer["note"] is None
    assert json.loads(regard("explain", "red sheep, 2021", picture, "--json")[1])["score"] == answer["score"]
    asked = regard("explain", "a photo of red", picture)[1]
    assert "Searched for “red”." in asked
    assert "left [0, 0, 200, 200]" in asked
    drawn = tmp_path / "why.png"
    assert regard("explain", "red blue", picture, "--out", drawn)[0] == 0
    with PIL.Image.open(drawn) as sheet:
        assert (sheet.format, sheet.width > 2 * 320) == ("PNG", True)
    assert "nowhere" in regard("explain", "red", picture, "--out", tmp_path / "nowhere" / "why.png")[2]
    bad = tmp_path / "bad.jpg"
    bad.write_text("hello")
    assert regard("detect", bad)[0] == 1


def test_doctor_reads_the_whole_catalog(regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def catalog_check() -> str:
        _, said, _ = regard("doctor", "--data-dir", tmp_path, "--json")
        return str(json.loads(said)["checks"][0]["found"])

    monkeypatch.setattr(doctor, "CHECKS", {"catalog": doctor.CHECKS["catalog"]})
    assert catalog_check() == "there is none yet"
    path = tmp_path / "catalog.sqlite"
    Catalog(path).close()
    assert catalog_check() == f"schema {VERSION}, 0 pictures, every page can be read"
    path.write_bytes(b"x" * 4096)
    assert "is damaged (file is not a database)" in catalog_check()


def test_doctor_says_of_each_part_whether_it_works(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(settings: Settings) -> str:
        raise OSError("out of order")

    monkeypatch.setattr(doctor, "CHECKS", {"python": doctor.CHECKS["python"], "data": doctor.CHECKS["data"]})
    status, said, _ = regard("doctor", "--data-dir", tmp_path, "--json")
    assert (status, json.loads(said)["healthy"]) == (0, True)
    with WriterLock(tmp_path):
        assert "a worker uses it: process" in regard("doctor", "--data-dir", tmp_path)[1]
    monkeypatch.setitem(doctor.CHECKS, "thing", broken)
    status, said, _ = regard("doctor", "--data-dir", tmp_path, "--json")
    checks: list[dict[str, Any]] = json.loads(said)["checks"]
    assert (status, checks[-1]) == (1, {"part": "thing", "ok": False, "found": "out of order"})


def test_doctor_says_what_computes_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = doctor.CHECKS["kernels"]
    assert kernels(Settings()) == f"built for {load_kernels().target}"
    assert "turned off by REGARD_KERNELS" in kernels(Settings(kernels=False))
    monkeypatch.setattr(library, "usable_targets", lambda *arguments: [])
    assert kernels(Settings()).startswith("PyTorch computes the scores: there are none for this processor")


@pytest.mark.redis
def test_doctor_asks_redis(redis_server: RedisServer, free_port: int) -> None:
    redis = doctor.CHECKS["redis"]
    assert redis(Settings()) == "not used"
    assert "answers" in redis(Settings(redis_url=redis_server.url))
    gone = doctor.run_check("redis", redis, Settings(redis_url=f"redis://127.0.0.1:{free_port}/0"))
    assert not gone["ok"]


@pytest.mark.usefixtures("fakes")
def test_a_model_is_made_and_measured_from_pictures(regard: Regard, tmp_path: Path) -> None:
    colours = ["red", "green", "blue", "yellow", "cyan", "magenta", "white", "black"]
    folder = photos(tmp_path / "photos", *colours)
    captions = tmp_path / "captions.jsonl"
    with captions.open("w") as lines:
        for colour in colours:
            shutil.copy(folder / f"{colour}.png", folder / f"{colour} again.png")
            for split, name in (("train", f"{colour}.png"), ("dev", f"{colour} again.png")):
                line = {"image": name, "captions": [f"a {colour} wall", f"all {colour}"], "split": split}
                lines.write(json.dumps(line) + "\n")
    (folder / "cut.png").write_bytes((folder / "red.png").read_bytes()[:-60])
    status, _, noted = regard("extract", folder, "--out", tmp_path / "features")
    assert (status, "cut.png: is" in noted) == (1, True)
    (folder / "cut.png").unlink()
    assert "already holds all 16 pictures" in regard("extract", folder, "--out", tmp_path / "features")[2]
    changes = ["epochs=1", "warmup_steps=2", "width=8", "word_dim=8", "embed_dim=8", "batch=4", "least_count=1"]
    options: list[str | Path] = [part for change in changes for part in ("--set", change)]
    given = ["--features", tmp_path / "features", "--captions", captions]
    status, _, noted = regard("words", captions, "--out", tmp_path / "words.txt", "--dim", "8", "--ask", "reddish")
    assert (status, "words" in noted) == (0, True)
    options += ["--word-vectors", tmp_path / "words.txt", "--set", "near=0.4"]
    status, said, noted = regard("train", "scan-t2i-avg-flickr8k", *given, "--out", tmp_path / "run", *options)
    assert status == 0, noted
    assert said.startswith(f"{tmp_path / 'run' / 'best'}: rsum ")
    again = regard("train", "scan-t2i-avg-flickr8k", *given, "--out", tmp_path / "run", *options)
    assert (*again[:2], "was finished before" in again[2]) == (0, said, True)
    (tmp_path / "run" / "best" / "config.json").write_bytes(b"")
    mended = regard("train", "scan-t2i-avg-flickr8k", *given, "--out", tmp_path / "run", *options)
    assert (*mended[:2], "was damaged or gone" in mended[2]) == (0, said, True)
    assert "11 of 15 words start from" in noted
    assert re.search(r"training .* 6/6\nvalidating: scoring pairs .* 128/128", noted)  # the bars, at their ends
    given = ["--images", folder, "--captions", captions, "--split", "dev", "--model", tmp_path / "run" / "best"]
    status, said, noted = regard("evaluate", *given, "--json")
    assert status == 0, noted
    report = json.loads(said)
    assert (report["images"], report["captions"]) == (8, 16)
    assert 0 <= report["exhaustive"]["text_to_image"]["r10"] <= 100
    found = ["--features", tmp_path / "features", *given[2:]]
    assert "--features replaces --images" in regard("evaluate", *given, *found[:2])[2]
    together = "no --split: pictures of all splits are measured together (dev, train)"
    for measured, is_noted in ((found, False), ([*found[:4], *found[6:]], True)):
        _, said, noted = regard("evaluate", *measured)
        assert ("every pair" in said, together in noted) == (True, is_noted)
    second = json.loads(regard("evaluate", *found, "--halves", "--json")[1])["halves"]["second"]
    said = regard("evaluate", *found, "--part", "second", "--json")[1]
    assert (json.loads(said)["images"], json.loads(said)["captions"]) == (4, 8)
    assert json.loads(said)["difference"] == second["difference"]
    among = ["--gallery", "train", "--first", "2", "--questions", "3", "--json"]
    status, said, noted = regard("evaluate", *given, *among)
    assert status == 0, noted
    assert [json.loads(said)[name] for name in ("images", "captions")] == [10, 3]
    assert "--gallery" in regard("evaluate", *given, "--questions", "3")[2]
    assert regard("evaluate", *given, "--regions", "1")[0] == 0
    status, _, noted = regard("train", "scan-t2i-avg-flickr8k", *given[2:4], "--features", tmp_path / "features",
                              "--out", tmp_path / "run", "--set", "speed=9")  # fmt: skip
    assert (status, "write name=value" in noted) == (1, True)
