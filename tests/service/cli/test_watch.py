"""`regard ingest --watch`: what comes into a folder is sent once, when it is whole."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard_client import Client, RequestRefused
from service.cli.ingesting.postponed_files import FIRST_PAUSE_S, MOST_ATTEMPTS
from service.cli.ingesting.sent_files import SentFiles
from service.cli.ingesting.watch import COLLECTION_EVERY_S, FolderWatch, watch_until_interrupted
from service.cli.picture_files import FoundFiles
from service.ingest.manifest import ManifestEntry
from service.media.decode_pool import DecodeFailed, DecodePool
from tests.support.cli_runner import Regard
from tests.support.library import two_coloured
from tests.support.project_files import ROOT
from tests.support.running_server import running_server
from tests.support.set_clock import Clock
from tests.support.worker_store import noise

STILL_FOR_S = 3.0
WIDTHS = itertools.count(30)


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    return folder


@pytest.fixture
def sent(tmp_path: Path) -> SentFiles:
    return SentFiles(tmp_path / "state" / "sent.jsonl")


def paint(path: Path, colour: str) -> Path:
    """A picture like no other of these tests, which share a service."""
    two_coloured(colour, colour, width=next(WIDTHS)).save(path)
    return path


def stored(client: Client, image_names: set[str]) -> list[str]:
    return sorted(one["filename"] for one in client.images() if one["filename"] in image_names)


def all_found(watch: FolderWatch) -> None:
    """Look until every job is done."""
    watch.look()
    while watch.num_jobs:
        time.sleep(0.02)
        watch.look()


def test_another_collection_at_the_same_address_is_sent_what_it_has_not(
    sent: SentFiles, folder: Path, tmp_path: Path, free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    paint(folder / "wall.png", "red")
    clock = Clock()
    with Client(f"http://127.0.0.1:{free_port}") as client:
        watch = FolderWatch(client, [folder], sent, 0.0, {}, clock=clock)
        for data, accepted, told in (("data", 1, 0), ("restored", 2, 1), ("data", 2, 1)):
            with running_server(tmp_path / data, port=free_port):
                clock.now += COLLECTION_EVERY_S
                for _ in range(2):
                    all_found(watch)
                assert watch.summary.accepted == accepted
                assert stored(client, {"wall.png"}) == ["wall.png"]
                assert capsys.readouterr().err.count("has another collection of pictures now") == told
    assert watch.summary.duplicates == 0, "what the first one was sent is still known"


@pytest.mark.parametrize("is_older", [False, True])
def test_a_deleted_picture_stays_deleted_without_the_record(
    client: Client, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_older: bool
) -> None:
    paint(folder / "lost.png", "yellow")
    all_found(FolderWatch(client, [folder], SentFiles(tmp_path / "sent"), 0.0, {}))
    client.delete(next(one["image_id"] for one in client.images() if one["filename"] == "lost.png"))
    if is_older:  # and refuses to leave deleted pictures out
        monkeypatch.setattr(Client, "models", lambda _: {})
    again = FolderWatch(client, [folder], SentFiles(tmp_path / "lost"), 0.0, {})
    all_found(again)
    counts = again.num_unsent, again.summary.rejected, again.summary.restored, again.summary.left_deleted
    assert counts == (0, [], is_older, not is_older)


def test_new_and_changed_pictures_go_in_and_the_rest_is_told(
    client: Client, sent: SentFiles, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    watch = FolderWatch(
        client, [folder], sent, STILL_FOR_S, {"walls/red.png": ManifestEntry(captions=["a red wall"])}, clock=clock
    )
    (folder / "walls").mkdir()
    paint(folder / "walls" / "red.png", "red")
    (folder / "film.mp4").write_text("x")
    (folder / "bad.jpg").write_text("hello")
    watch.look()
    assert (watch.summary.accepted, stored(client, {"walls/red.png"})) == (0, [])
    clock.now += STILL_FOR_S
    all_found(watch)
    clock.now += STILL_FOR_S
    all_found(watch)
    assert (watch.summary.accepted, len(watch.summary.rejected), watch.summary.skipped) == (1, 1, {"films": 1})
    (red,) = [one for one in client.images() if one["filename"] == "walls/red.png"]
    assert (red["captions"], red["tags"], red["state"]) == (["a red wall"], {"album": "walls"}, "ready")
    two_coloured("green", "green").save(folder / "walls" / "red.png")
    (folder / "cut.png").write_bytes((folder / "walls" / "red.png").read_bytes()[:50])
    watch.look()
    clock.now += STILL_FOR_S
    all_found(watch)
    assert (watch.summary.accepted, len(watch.summary.failed)) == (2, 1)
    assert stored(client, {"walls/red.png"}) == ["walls/red.png"] * 2  # the one of before stays
    assert watch.finish() is watch.summary
    noted = capsys.readouterr().err
    assert noted.count("turned away: bad.jpg: This is text") == 1
    assert noted.count("can be found: walls/red.png") == 2
    assert "set aside: cut.png: The file is damaged" in noted
    assert "not sent" not in noted


def test_a_service_that_goes_away_is_waited_for(
    sent: SentFiles, folder: Path, tmp_path: Path, free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    paint(folder / "blue.png", "blue")
    with Client(f"http://127.0.0.1:{free_port}") as client:
        watch = FolderWatch(client, [folder], sent, 0.0, {})
        for _ in range(3):
            watch.look()
        assert watch.is_in_trouble
        watch.finish()
        noted = capsys.readouterr().err
        assert noted.count("nobody answers at") == 1
        assert "1 files were not sent yet" in noted
        with running_server(tmp_path / "data", port=free_port):
            all_found(watch)
            assert (watch.summary.accepted, watch.is_in_trouble) == (1, False)
    assert "it works again" in capsys.readouterr().err


def test_a_file_that_is_too_large_for_a_request_is_told_and_the_others_are_sent(
    sent: SentFiles, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.png", "c.png"):
        paint(folder / name, "blue")
    noise(1, 300, 300).save(folder / "b.png")
    with running_server(tmp_path / "data", max_body_bytes=100_000) as address, Client(address) as client:
        watch = FolderWatch(client, [folder], sent, 0.0, {})
        all_found(watch)
        watch.look()
        assert (watch.summary.accepted, len(watch.summary.rejected), watch.is_in_trouble) == (2, 1, False)
    assert capsys.readouterr().err.count("turned away: b.png") == 1


def test_a_file_that_could_not_be_looked_at_in_time_is_sent_again(
    sent: SentFiles,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = folder / "gre\ten.png"  # the service shows it by another name
    paint(folder / "red.png", "red")
    paint(odd, "green")
    looks, slow = DecodePool.inspect, [3, 100]

    def look(pool: DecodePool, path: Path) -> str:
        which = path.read_bytes() == odd.read_bytes()
        slow[which] -= 1
        if slow[which] >= 0:
            raise DecodeFailed("It took longer than 5 s.", final=False, timed_out=True)
        return looks(pool, path)

    monkeypatch.setattr(DecodePool, "inspect", look)
    clock = Clock()
    with running_server(tmp_path / "data") as address, Client(address) as client:
        watch = FolderWatch(client, [folder], sent, 0.0, {}, clock=clock)
        all_found(watch)
        watch.look()
        assert slow == [2, 99], "it waits before it sends them again"
        assert (watch.summary.accepted, watch.summary.rejected, watch.num_unsent) == (0, [], 2)
        for _ in range(20):
            clock.now += FIRST_PAUSE_S * 2**MOST_ATTEMPTS
            all_found(watch)
        assert (watch.summary.accepted, [one["filename"] for one in watch.summary.rejected]) == (
            1,
            ["gre\N{REPLACEMENT CHARACTER}en.png"],
        )
        assert (slow, watch.num_unsent) == ([-1, 100 - MOST_ATTEMPTS], 0)
    noted = capsys.readouterr().err
    assert noted.count("not checked in time, and sent again later: ") == MOST_ATTEMPTS - 1
    assert noted.count("turned away: gre\N{REPLACEMENT CHARACTER}en.png: It took longer") == 1


def test_a_job_that_the_service_does_not_know_any_more_is_not_asked_for_again(
    client: Client, sent: SentFiles, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Client.job
    monkeypatch.setattr(Client, "job", lambda own, _: job(own, "0" * 32))  # as of a service that was restored
    paint(folder / "black.png", "black")
    watch = FolderWatch(client, [folder], sent, 0.0, {})
    all_found(watch)
    assert (watch.summary.accepted, watch.is_in_trouble) == (1, False)
    assert "no longer knows the outcome of black.png" in capsys.readouterr().err


def test_a_folder_that_goes_away_and_a_file_that_cannot_be_read_do_not_end_it(
    client: Client, sent: SentFiles, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = FolderWatch(client, [folder], sent, 0.0, {})
    folder.rename(folder.with_name("away"))
    watch.look()
    assert "there is no" in capsys.readouterr().err
    folder.with_name("away").rename(folder)
    locked = paint(folder / "locked.png", "yellow")
    paint(folder / "open.png", "cyan")
    refuse_to_open(monkeypatch, locked)
    all_found(watch)
    watch.look()
    assert (watch.summary.accepted, watch.is_in_trouble) == (1, False)
    assert capsys.readouterr().err.count(f"cannot be read: {locked}: Permission denied") == 1
    monkeypatch.undo()
    all_found(watch)
    assert watch.summary.accepted == 2


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, refused: Path) -> None:
    """Have the system refuse one file, as it would to a user without the right; tests may run as root."""
    whole, access = Path.open, os.access

    def open_others(path: Path, *arguments: object, **options: object) -> object:
        if path == refused:
            raise PermissionError(13, "Permission denied", str(path))
        return whole(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", open_others)
    monkeypatch.setattr(os, "access", lambda path, mode: path != refused and access(path, mode))


def test_ctrl_c_ends_with_what_was_done(client: Client, sent: SentFiles, folder: Path) -> None:
    watch = FolderWatch(client, [folder], sent, 0.0, {})
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            paint(folder / "magenta.png", "magenta")
        elif len(pauses) == 3:
            raise KeyboardInterrupt

    summary = watch_until_interrupted(watch, pause)
    assert (summary.accepted, len(pauses)) == (1, 3)
    assert min(pauses) >= 1.0


def test_it_rests_by_how_long_finding_files_took(
    client: Client, sent: SentFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    def slow(took: float, call: Any) -> Any:
        def called(*given: Any) -> Any:
            clock.now += took
            return call(*given)

        return called

    monkeypatch.setattr(Client, "models", slow(600.0, Client.models))
    watch = FolderWatch(client, [folder], sent, 0.0, {}, clock=clock)
    for took, rest_s in ((5.0, 50.0), (100.0, 300.0)):
        monkeypatch.setattr(f"{FolderWatch.__module__}.find_files", slow(took, lambda *_: FoundFiles()))
        watch.look()
        assert watch.rest_s == rest_s


def test_a_key_that_is_refused_ends_it_and_other_refusals_are_waited_out(
    client: Client, sent: SentFiles, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses = [503, 401]

    def refuse(_: Client) -> None:
        raise RequestRefused(statuses.pop(0), {"detail": "The key was refused."})

    monkeypatch.setattr(Client, "models", refuse)
    paint(folder / "grey.png", "red")
    watch = FolderWatch(client, [folder], sent, 0.0, {})
    with pytest.raises(RequestRefused, match="The key was refused"):
        watch_until_interrupted(watch, lambda _: None)
    assert statuses == []
    noted = capsys.readouterr().err
    assert "The key was refused; trying again until it works" in noted
    assert "1 files were not sent yet" in noted


def test_a_wrong_address_or_folder_ends_it_at_once(
    regard: Regard, folder: Path, tmp_path: Path, free_port: int
) -> None:
    nowhere = f"127.0.0.1:{free_port}"
    status, _, noted = regard("ingest", "--watch", folder, "--url", nowhere)
    assert (status, noted.startswith(f"regard: nobody answers at http://{nowhere}")) == (1, True)
    status, _, noted = regard("ingest", "--watch", tmp_path / "none", "--url", nowhere)
    assert (status, noted) == (1, f"regard: --watch watches folders, and {tmp_path / 'none'} is not one\n")


def test_a_state_that_cannot_be_kept_ends_it_in_words(
    regard: Regard, url: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "taken"))
    status, _, noted = regard("ingest", "--watch", folder, "--url", url)
    assert (status, "XDG_STATE_HOME names another folder for it" in noted) == (1, True)
    assert f"regard: {tmp_path / 'taken' / 'regard'}" in noted
    assert "cannot be written: Not a directory;" in noted


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_the_program_watches_until_it_is_asked_to_end(
    url: str, client: Client, folder: Path, tmp_path: Path, by: signal.Signals
) -> None:
    def run() -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "service.cli.main", "ingest", "--watch", str(folder), "--settle", "0"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            [*program, "--url", url, "--json"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def outcome_after(line: str) -> dict[str, object]:
        with run() as process:
            assert process.stderr is not None
            assert any(said.startswith(line) for said in process.stderr)
            process.send_signal(by)
            said, _ = process.communicate()
            assert process.returncode == 0
        summary: dict[str, object] = json.loads(said)
        return summary

    name = f"{by.name}.png"
    paint(folder / name, "white")
    assert outcome_after(f"can be found: {name}")["accepted"] == 1
    (path,) = (tmp_path / "regard").iterdir()
    assert name in path.read_text(encoding="utf-8")
    paint(folder / "later.png", "black")
    assert outcome_after("can be found: later.png")["accepted"] == 1  # the first one is not sent again
    assert stored(client, {name}) == [name]
