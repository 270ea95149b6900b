"""Folders sent to a server on a real socket."""

import errno
import json
import signal
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
import typer

from models.extractors.base import Detections
from regard_client import Client, Picture, Receipt, ServerUnreachable
from service.cli.ingesting.sending import (
    INTERRUPTED,
    noting_interruption,
    send_files,
    upload_receipts,
    wait_for_regions,
)
from service.cli.ingesting.summary import IngestSummary, SentFile
from service.cli.terminal.output import Progress, Task
from tests.support.fakes import FakeExtractor
from tests.support.library import two_coloured
from tests.support.processes import wait_until
from tests.support.project_files import ROOT
from tests.support.running_server import running_server


class FailingDisk(Client):
    """Reads one file in vain, and sends large batches in halves."""

    def upload(self, pictures: Iterable[Picture | str | Path], **_: Any) -> Iterator[Receipt]:
        given = [one for one in pictures if isinstance(one, Picture)]  # no path is given here
        names = [one.name for one in given]
        if len(names) > 3:
            yield from self.upload(given[: len(names) // 2])
            yield from self.upload(given[len(names) // 2 :])
            return
        if "bad.png" in names:
            raise OSError(errno.EIO, "Input/output error")
        for one in given:
            assert isinstance(one.content, bytes) or one.content.open("rb").close() is None  # type: ignore[union-attr]
        yield Receipt(
            job_id="1",
            accepted=[{"image_id": name, "duplicate": False, "restored": False, "filename": name} for name in names],
            rejected=[],
        )


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_sent() -> None:
    pictures = [Picture(b"", name) for name in ("a.png", "b.png", "c.png", "bad.png", "d.png")]
    with FailingDisk("http://127.0.0.1:1") as client:
        receipts = list(upload_receipts(client, pictures))
    assert [one["filename"] for receipt in receipts for one in receipt.accepted] == [f"{one}.png" for one in "abcd"]
    (rejected,) = (one for receipt in receipts for one in receipt.rejected)
    assert rejected == {
        "filename": "bad.png",
        "problem": "The file cannot be read: Input/output error.",
        "retryable": True,
        "deleted": False,
    }


def test_a_file_that_vanishes_keeps_no_other_from_being_sent(tmp_path: Path) -> None:
    pictures = [Picture(tmp_path / name) for name in ("a.png", "gone.png", "b.png")]
    for one in (0, 2):
        (tmp_path / pictures[one].name).write_bytes(b"x")
    with FailingDisk("http://127.0.0.1:1") as client:
        receipts = list(upload_receipts(client, pictures))
    assert [[one["filename"] for one in receipt.accepted] for receipt in receipts] == [["a.png"], [], ["b.png"]]
    assert "No such file" in receipts[1].rejected[0]["problem"]


def test_a_service_of_before_this_version_is_sent_nothing_that_it_refuses(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, captions = save(tmp_path / "photos", "red"), tmp_path / "captions.jsonl"
    (photo,) = photos.iterdir()
    captions.write_text(json.dumps({"image": photo.name, "captions": ["a wall"], "decided": ["captions"]}) + "\n")
    sent, upload, models = list[Picture](), Client.upload, Client.models

    def watched(self: Client, pictures: Iterable[Picture], restore: bool) -> Iterator[Receipt]:
        assert restore
        return upload(self, [sent.append(one) or one for one in pictures])  # type: ignore[func-returns-value]

    def older(self: Client) -> Any:
        return {name: value for name, value in models(self).items() if name != "collection"}

    monkeypatch.setattr(Client, "upload", watched)
    send_files(url, [photos], captions)
    assert "earlier version" not in capsys.readouterr().err
    monkeypatch.setattr(Client, "models", older)
    send_files(url, [photos], captions)
    assert [(list(one.captions), list(one.decided)) for one in sent] == [(["a wall"], ["captions"]), (["a wall"], [])]
    assert "earlier version" in capsys.readouterr().err


def test_folders_are_described_by_their_names_however_accents_are_composed(url: str, tmp_path: Path) -> None:
    name = "Kühe/ä.png"
    captions = tmp_path / "captions.jsonl"
    captions.write_text(json.dumps({"image": name, "captions": ["a cow"]}) + "\n")
    apart = tmp_path / unicodedata.normalize("NFD", name)
    apart.parent.mkdir()
    two_coloured("red", "blue", width=47).save(apart)
    send_files(url, [tmp_path], captions)
    with Client(url) as client:
        (image,) = (image for image in client.images(filter={"tags": {"album": "Kühe"}}))
    assert (image["filename"], image["captions"]) == (name, ["a cow"])


@pytest.mark.parametrize("albums", [True, False])
def test_folders_become_albums_unless_that_is_turned_off(url: str, tmp_path: Path, albums: bool) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text('{"image": "Beach/a.png", "captions": ["our beach"]}\n')
    for folder, colour in (("one/Beach", "red"), ("two/Beach", "cyan")):  # two pictures of one name
        (tmp_path / folder).mkdir(parents=True)
        two_coloured(colour, colour, width=60 + albums).save(tmp_path / folder / "a.png")
    summary = send_files(url, [tmp_path / "one", tmp_path / "two"], captions, albums=albums)
    assert (summary.accepted, summary.rejected, summary.failed) == (2, [], [])
    with Client(url) as client:
        stored = [image for image in client.images() if image["width"] == 60 + albums]
        assert [image["captions"] for image in stored] == [["our beach"]] * 2
        assert [image["tags"] for image in stored] == [{"album": "Beach"} if albums else {}] * 2
        found = client.search_text("beach album", match="text")["results"]  # by their names
        assert len([hit for hit in found if hit["width"] == 60 + albums]) == 2


class HeldExtractor(FakeExtractor):
    """A detector that waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        self.may_go_on.wait()
        return super().extract(pictures)


@pytest.fixture
def held() -> Iterator[HeldExtractor]:
    extractor = HeldExtractor()
    yield extractor
    extractor.may_go_on.set()


def save(folder: Path, *colours: str) -> Path:
    folder.mkdir(exist_ok=True)
    for colour in colours:
        two_coloured(colour, colour).save(folder / f"{colour}.png")
    return folder


class ReleasingProgress(Progress):
    """Lets the detector go on as soon as a bar of the pictures that wait for it is shown."""

    def __init__(self, held: HeldExtractor) -> None:
        super().__init__()
        self._held = held

    def changed(self, task: Task) -> None:
        self._held.may_go_on.set()


def test_what_was_there_already_is_in_no_bar(held: HeldExtractor, tmp_path: Path) -> None:
    photos = save(tmp_path / "photos", "red", "blue")
    held.may_go_on.set()
    with running_server(tmp_path / "data", extractor=held) as url, Client(url) as client:
        send_files(url, [photos])
        held.may_go_on.clear()
        jobs = [one.job_id for one in client.upload(sorted(save(photos, "cyan").iterdir())) if one.job_id]
        for expected in ([(1, 1)], []):  # once more all are there
            progress = ReleasingProgress(held)
            wait_for_regions(client, jobs, progress, IngestSummary())
            assert [(task.completed, task.total) for task in progress.tasks] == expected


@pytest.mark.slow
def test_who_stops_it_hears_what_is_safe_and_goes_on(held: HeldExtractor, tmp_path: Path) -> None:
    photos = save(tmp_path / "photos", "red", "blue")
    with running_server(tmp_path / "data", extractor=held) as url, Client(url) as client:
        command = [sys.executable, "-m", "service.cli.main", "ingest", str(photos), "--url", url]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
            wait_until(lambda: bool(client.jobs()["jobs"]))
            process.send_signal(signal.SIGINT)
            _, said = process.communicate()
        held.may_go_on.set()
        assert process.returncode == INTERRUPTED
        # Whether the answer to the upload had come by then is a matter of milliseconds.
        assert "stopped: 2 pictures are stored" in said or "2 files were not sent yet" in said
        assert "Traceback" not in said
        assert send_files(url, [photos]).duplicates == 2


def test_a_service_that_is_lost_leaves_word_of_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    for accepted in (3, 0):
        with pytest.raises(ServerUnreachable), noting_interruption(IngestSummary(accepted=accepted), 5):
            raise ServerUnreachable("nothing answers")
        said = capsys.readouterr().err
        assert ("stopped: 3 pictures are stored and will be found when the service goes on" in said) is (accepted > 0)
        assert ("2 files were not sent yet" in said) is (accepted > 0)


def test_what_was_not_sent_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    summary = IngestSummary(accepted=3, duplicates=1, rejected=[{"filename": "a", "problem": "b"}])
    for total in (7, 5):
        with pytest.raises(typer.Exit) as ended, noting_interruption(summary, total):
            raise KeyboardInterrupt
        assert ended.value.exit_code == INTERRUPTED
        said = capsys.readouterr().err
        assert "stopped: 4 pictures are stored" in said
        assert ("2 files were not sent yet: the same command goes on" in said) is (total == 7)


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_a_file_that_came_twice_and_was_set_aside_is_counted_as_set_aside_twice(num_jobs: int) -> None:
    summary = IngestSummary()
    summary.count_accepted("a", SentFile("one.jpg", duplicate=False, restored=True))
    summary.count_accepted("a", SentFile("two.jpg", duplicate=True, restored=False))
    for _ in range(num_jobs):  # one names the picture once; those of two requests, each
        summary.count_failed("a", "it could not be decoded")
    assert (summary.accepted, summary.restored, summary.duplicates) == (0, 0, 0)
    assert [one["filename"] for one in summary.failed] == ["one.jpg", "two.jpg"]


def test_receipts_of_an_earlier_service_are_counted() -> None:
    summary = IngestSummary()
    accepted: Any = [{"image_id": "a", "filename": "a.png", "duplicate": False}]
    summary.count_receipt(Receipt(job_id=None, accepted=accepted, rejected=[]))
    assert (summary.accepted, summary.restored) == (1, 0)
