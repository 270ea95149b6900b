"""A shard's part in lists: when the pictures of a job are found."""

from contextlib import closing
from pathlib import Path

import PIL.Image
import pytest

from index.records import JobStatus
from service.api.job_progress import JobProgress
from service.api.stored_pictures import LocalPictures
from service.cluster.shards.lists import ShardLists
from service.storage.originals import Originals
from tests.support.library import Library


class OneJob(JobProgress):
    """The progress of a job whose pictures are stored."""

    def __init__(self, library: Library, picture_slots: int) -> None:
        super().__init__(library.catalog, library.models)
        self._job = JobStatus(
            job_id="job",
            created_at=0.0,
            state="done",
            total=picture_slots,
            done=picture_slots,
            failed=0,
            failures=(),
            picture_slots=picture_slots,
            caption_slots=0,
        )

    def job(self, job_id: str) -> JobStatus | None:
        return self._as_searchable(self._job) if job_id == "job" else None


@pytest.mark.parametrize("is_searched", [True, False])
def test_a_job_is_found_when_every_view_holds_its_pictures(tmp_path: Path, is_searched: bool) -> None:
    with closing(Library(tmp_path)) as library:
        library.add("first", PIL.Image.new("RGB", (8, 8), "red"))
        library.add("second", PIL.Image.new("RGB", (8, 8), "blue"), view=False)
        if is_searched:
            library.catch_up()
        pictures = LocalPictures(library.catalog, library.models)
        lists = ShardLists(library.catalog, Originals(tmp_path), pictures, OneJob(library, 2))
        assert lists.job_is_found("job") == is_searched
        assert not lists.job_is_found("another")
        earlier = ShardLists(library.catalog, Originals(tmp_path), pictures, OneJob(library, 1))
        assert earlier.job_is_found("job")


class DoneJob(OneJob):
    """The progress of a job that counts as done, whatever the view holds by now."""

    def job(self, job_id: str) -> JobStatus | None:
        return self._job


def test_a_view_that_lacks_the_last_picture_of_a_job_finds_no_whole_job(tmp_path: Path) -> None:
    with closing(Library(tmp_path)) as library:
        for colour in ("red", "blue"):
            library.add(colour, PIL.Image.new("RGB", (8, 8), colour))
        pictures = LocalPictures(library.catalog, library.models)
        lists = [ShardLists(library.catalog, Originals(tmp_path), pictures, DoneJob(library, n)) for n in (2, 3)]
        assert [one.job_is_found("job") for one in lists] == [True, False]
