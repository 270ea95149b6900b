"""Files with names, captions or a service that stand in the way of others: each is told, and holds up nobody."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard_client import Client, JobUnfinished, RequestRefused
from service.cli.ingesting import sending
from service.cli.ingesting.descriptions import captions_by_name
from service.cli.ingesting.sending import job_states, send_files, wait_for_regions
from service.cli.ingesting.sent_files import SentFiles
from service.cli.ingesting.summary import IngestSummary
from service.cli.ingesting.watch import FolderWatch
from service.cli.terminal.output import Progress, Task
from service.errors import UserError
from service.ingest.manifest import ManifestEntry
from tests.support.library import two_coloured
from tests.support.running_server import running_server

ODD_NAMES = ["%22quoted%22.png", "%0Aline.png", "%00.png", 'a "quote".png', "100%.png", "%41.png", "two%20words.png"]
ODD_NAMES += ['both"%0A.png', 'x"100%22.png', 'x"100%22%0a.png']


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running_server(tmp_path / "data") as address:
        yield address


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    return folder


def paint(folder: Path, *names: str) -> None:
    """Pictures that differ by their widths."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        two_coloured("red", "blue", width=40 + 2 * number).save(folder / name, "PNG")


@pytest.mark.parametrize("albums", [True, False])
def test_a_name_that_looks_escaped_is_kept_as_it_is(url: str, photos: Path, albums: bool) -> None:
    paint(photos, *ODD_NAMES, "%22/in a folder.png")
    summary = send_files(url, [photos], albums=albums)
    assert (summary.accepted, summary.rejected) == (len(ODD_NAMES) + 1, [])
    with Client(url) as client:
        assert {one["filename"] for one in client.images()} == {*ODD_NAMES, "%22/in a folder.png"}


def test_a_file_that_is_refused_for_what_is_said_of_it_holds_up_no_other(
    url: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = "C:\\fakepath\\a.png"  # whose folder is cut off on the way, as browsers of old have it
    paint(photos, "Before.png", windows, "later.png")
    with Client(url) as client:
        watch = FolderWatch(
            client, [photos], SentFiles(tmp_path / "sent.jsonl"), 0.0, {windows: ManifestEntry(captions=["a wall"])}
        )
        watch.look()
        assert not watch.is_in_trouble
        assert {one["filename"] for one in client.images()} == {"Before.png", "later.png"}
    assert (watch.summary.accepted, len(watch.summary.rejected)) == (2, 1)
    assert capsys.readouterr().err.count("turned away: C:") == 1


def test_a_caption_that_no_picture_may_have_is_named_before_anything_is_sent(
    url: str, photos: Path, tmp_path: Path
) -> None:
    paint(photos, "a.png", "b.png")
    captions = tmp_path / "captions.jsonl"
    lines = [{"image": "a.png", "captions": ["a wall"]}, {"image": "b.png", "captions": ["x" * 513]}]
    captions.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(UserError, match=r"captions\.jsonl:2: captions\.0: must have at most 512 characters"):
        send_files(url, [photos], captions)
    captions.write_text(json.dumps({"image": "a.png", "captions": [f"wall {number}" for number in range(1001)]}))
    with pytest.raises(UserError, match=r"captions\.jsonl:1: captions: must have at most 1000 items"):
        send_files(url, [photos], captions)
    with Client(url) as client:
        assert list(client.images()) == []


def test_captions_of_features_have_no_such_bounds(tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    texts = ["x" * 513, *(f"wall {number}" for number in range(101))]
    captions.write_text(json.dumps({"image": "a.png", "captions": texts}))
    assert captions_by_name(captions) == {"a.png": texts}


def test_captions_of_what_is_not_sent_are_told(
    url: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paint(photos, "a.png")
    captions = tmp_path / "captions.jsonl"
    captions.write_text('{"image": "photos/a.png", "captions": ["a wall"]}')
    assert send_files(url, [photos], captions).accepted == 1
    noted = capsys.readouterr().err
    assert "described, but not among the files to send: photos/a.png; names" in noted
    assert "names are paths below the given folder, such as a.png" in noted


class WaitingClient:
    """A client of a service that has no room for a while, and then does the job."""

    def __init__(self, troubles: list[str]) -> None:
        self._troubles = troubles

    def follow(self, job_id: str, **_: Any) -> Iterator[dict[str, Any]]:
        yield {"job_id": job_id, "done": 0}
        if self._troubles:
            raise JobUnfinished("not yet")
        yield {"job_id": job_id, "done": 1}

    def ready(self) -> None:
        if said := self._troubles.pop(0):
            raise RequestRefused(503, {"detail": said})


def test_what_a_service_waits_for_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = WaitingClient(["the disk is full", "the disk is full", "the disk is full", ""])
    states = list(job_states(client, "1"))
    assert states[-1]["done"] == 1
    assert capsys.readouterr().err.splitlines() == ["the service waits: the disk is full", "the service goes on"]
    assert sending.STANDSTILL_S > sending.ASK_EVERY_S


class LastJobFirstClient:
    """A client of a service whose worker was killed: it settles the first job after all others."""

    def __init__(self) -> None:
        self.done = {"first": 0, "second": 0}

    def job(self, job_id: str) -> dict[str, Any]:
        state = "done" if self.done[job_id] == 2 else "running"
        return {"job_id": job_id, "state": state, "total": 2, "done": self.done[job_id], "failed": 0, "failures": []}

    def follow(self, job_id: str, **_: Any) -> Iterator[dict[str, Any]]:
        yield self.job(job_id)
        if self.done[job_id] < 2:
            self.done["second" if self.done["second"] < 2 else "first"] += 1
            raise JobUnfinished("not yet")

    def ready(self) -> None:
        raise AssertionError("other jobs go on")


class RecordingProgress(Progress):
    def __init__(self) -> None:
        super().__init__()
        self.shown = list[int]()

    def changed(self, task: Task) -> None:
        if not self.shown or task.completed != self.shown[-1]:
            self.shown.append(task.completed)


def test_progress_is_that_of_all_jobs_while_the_first_one_waits(capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = LastJobFirstClient()
    progress = RecordingProgress()
    wait_for_regions(client, ["first", "second"], progress, IngestSummary())
    assert progress.shown == [0, 2, 3, 4]  # the second job first
    assert capsys.readouterr().err == ""
