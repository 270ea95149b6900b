"""`regard ingest --ray` offers what `regard ingest` sends, and ends with the same table."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from index.records import Failure, JobStatus
from service.cli.ingesting.bulk import offered_files, take_in_on_cluster
from service.cluster.bulk import ingestion
from service.cluster.bulk.files import OfferedFile
from service.ingest.intake import AcceptedFile, IngestReceipt, RejectedFile
from service.ingest.manifest import ManifestEntry
from tests.support.cli_runner import Regard


class FakeRun:
    """A cluster that has the first file, takes the others but the last, and sets one aside later."""

    offered: Sequence[OfferedFile] = ()

    def __init__(self, cluster: object) -> None:
        """Nothing is connected to."""

    def receipts(self, files: Sequence[OfferedFile]) -> Iterator[IngestReceipt]:
        FakeRun.offered = files
        yield IngestReceipt("", [AcceptedFile("id 0", files[0].name, duplicate=True)], [])
        accepted = [AcceptedFile(f"id {n}", one.name, duplicate=False) for n, one in enumerate(files[1:-1], 1)]
        yield IngestReceipt("job", accepted, [RejectedFile(files[-1].name, "It is no picture.")])

    def finished(self, job_ids: Sequence[str]) -> Iterator[JobStatus]:
        assert job_ids == ["job"]
        failed = Failure(image_id="id 1", filename="Beach/1.png", reason="Too narrow.", attempts=1, added_at=2.0)
        numbers = {"total": 3, "done": 2, "failed": 1, "picture_slots": 0, "caption_slots": 0}
        yield JobStatus(job_id="job", created_at=0.0, state="done", failures=(failed,), **numbers)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ingestion, "BulkRun", FakeRun)
    folder = tmp_path / "photos" / "Beach"
    folder.mkdir(parents=True)
    for number in range(5):
        (folder / f"{number}.png").write_bytes(b"picture")
    (folder / "film.mp4").write_bytes(b"film")
    return tmp_path / "photos"


@pytest.mark.parametrize("albums", [True, False])
def test_files_go_with_captions_and_albums(photos: Path, tmp_path: Path, albums: bool) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text('{"image": "Beach/2.png", "captions": ["our beach"]}\n')
    summary = take_in_on_cluster([photos], captions, albums)
    assert [(one.number, one.name, one.path) for one in FakeRun.offered] == [
        (n, f"Beach/{n}.png", str(photos / "Beach" / f"{n}.png")) for n in range(5)
    ]
    assert [list(one.captions) for one in FakeRun.offered] == [[], [], ["our beach"], [], []]
    assert [one.default_tags for one in FakeRun.offered] == [{"album": "Beach"} if albums else {}] * 5
    assert (summary.accepted, summary.duplicates, summary.skipped) == (2, 1, {"films": 1})
    assert summary.failed == [{"filename": "Beach/1.png", "problem": "Too narrow."}]
    assert summary.rejected == [{"filename": "Beach/4.png", "problem": "It is no picture."}]


def test_the_table_is_that_of_an_upload(regard: Regard, photos: Path) -> None:
    status, out, _ = regard("ingest", "--ray", photos)
    assert status == 1
    rows = {" ".join(line.split()) for line in out.splitlines()}
    assert {"taken in 2", "there already 1", "turned away 1", "set aside 1", "skipped: films 1"} <= rows


def test_files_are_offered_with_what_is_said_of_them(tmp_path: Path) -> None:
    files = [(name, tmp_path / name) for name in ("a.png", "b.png")]
    said = {"a.png": ManifestEntry(captions=["a wall"], tags={"year": 2024}, taken_at="1970-01-02")}
    first, second = offered_files(files, said, {path: "walls" for _, path in files})
    assert (first.captions, first.tags, first.taken_at) == (["a wall"], {"year": 2024}, 86_400.0)
    assert (second.captions, second.tags, second.taken_at) == ([], {}, None)
    assert first.default_tags == second.default_tags == {"album": "walls"}


@pytest.mark.parametrize("option", [["--watch"], ["--url", "http://127.0.0.1:1"]])
def test_a_server_and_a_watch_go_without_ray(regard: Regard, photos: Path, option: list[str]) -> None:
    status, _, error = regard("ingest", "--ray", photos, *option)
    assert status != 0
    assert "leave --watch and --url out" in error
