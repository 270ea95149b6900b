"""Lists and changes over shards are those of one catalog with all pictures."""

import asyncio
import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from index.catalog.catalog import Catalog
from index.catalog.changes.description_bounds import OversizedDescription
from index.catalog.filters import EVERY, Filter
from index.catalog.ingestion.failures import failure_key
from index.catalog.ingestion.jobs import job_key
from index.records import Failure, ImageOrder, JobState, JobStatus, ListPlace, PictureChange
from service.cluster.messages import ShardLost
from service.cluster.operations import LONG_AGO
from service.cluster.placement import Placement, shard_of
from service.cluster.routing.fan_out import FanOut
from service.cluster.routing.jobs import ClusterJobs, merged_job
from service.cluster.routing.picture_store import ClusterPictureStore, steps
from service.errors import NothingAccepted, NotReady
from service.ingest.intake import IngestReceipt, Intake
from service.ingest.multipart import FormLimits
from service.ingest.picture_store import FileOutcome, LocalPictureStore, ReceivedPicture
from service.storage.disk import FreeSpace
from service.storage.originals import Originals
from tests.support.catalogs import is_there
from tests.support.directories import NOW, Directory
from tests.support.multipart_bodies import CONTENT_TYPE, multipart_body, part, pieces
from tests.support.sharded_pictures import Shards, fill, received

NUM = 30
ORDERS: list[ImageOrder] = ["arrival", "latest", "date"]
MOMENT = {"latest": "added_at", "date": "taken_at"}  # that an order goes by


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Shards]:
    with closing(Shards(tmp_path / "shards", 3)) as made:
        yield made


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "whole").mkdir()
    with ExitStack() as stack:
        yield stack.enter_context(closing(Directory(tmp_path / "whole", [])))


@pytest.mark.parametrize("order", ORDERS)
def test_pages_are_those_of_one_catalog(shards: Shards, whole: Directory, tmp_path: Path, order: ImageOrder) -> None:
    fill(shards, whole, tmp_path)
    for condition in (EVERY, Filter(tags={"third": 1}), Filter(tags={"word": ["red"]}, taken_at={"gte": NOW})):
        expected = [one.image_id for one in whole.catalog.list_images(None, 1000, condition, order)]
        found: list[str] = []
        place: ListPlace | None = None
        for _ in range(math.ceil(len(expected) / 7)):
            page = shards.pictures.page(place, 7, condition, order)
            found += [image.image_id for image in page]
            place = ListPlace(found[-1])
            if order == "date":  # edited between two pages, it changes no other's place
                place = ListPlace(found[-1], page[-1].taken_at)
        assert shards.pictures.page(place, 7, condition, order) == []
        if order == "arrival":
            assert found == expected
        else:  # of one moment, or without a date, pictures of one request may come in another order
            moments = {one.image_id: getattr(one, MOMENT[order]) for one in whole.catalog.list_images(None, 1000)}
            assert sorted(found) == sorted(expected)
            assert [moments[one] for one in found] == [moments[one] for one in expected]
        assert shards.pictures.count_listed(condition) == whole.catalog.count_listed(condition)
        assert sum(shards.pictures.count_listed(condition).values()) == len(expected)
        known = shards.pictures.page(None, 9, EVERY, order)[-1]
        gone = ListPlace("f" * 32, known.taken_at, known.added_at)  # behind the one known, as it was erased since
        behind = shards.pictures.page(ListPlace(known.image_id, known.taken_at), 1000, EVERY, order)
        assert [one for one in behind if one.added_at != known.added_at] == [
            one for one in shards.pictures.page(gone, 1000, EVERY, order) if one.added_at != known.added_at
        ]
    with pytest.raises(ValueError, match="no picture"):
        shards.pictures.page(ListPlace("f" * 32), 7, EVERY, order)


@pytest.mark.parametrize("order", ["arrival", "latest", "date"])
def test_a_list_goes_on_where_it_was_though_its_last_picture_was_erased_and_sent_again(
    shards: Shards, whole: Directory, tmp_path: Path, order: ImageOrder
) -> None:
    fill(shards, whole, tmp_path, 6)
    listed = shards.pictures.page(None, 100, EVERY, order)
    last = listed[2]
    names = [f"picture {number}" for number in range(6)]
    sent = next(one for one in received(tmp_path, names) if one.picture.image_id == last.image_id)
    shards.pictures.delete(last.image_id, NOW + 1)
    for directory in shards.directories:
        erasures = directory.catalog.erasures
        erasures.erase_deleted(NOW + 2, NOW + 2, 10)
        erasures.forget(erasures.being_erased(10))
    assert shards.store.take_in([sent], NOW + 100, 0.0).outcomes == [FileOutcome(False, False)]
    place = ListPlace(last.image_id, last.taken_at, last.added_at)
    found = [image.image_id for image in shards.pictures.page(place, 100, EVERY, order)]
    assert [one for one in found if one != last.image_id] == [image.image_id for image in listed[3:]]


def test_tags_counts_and_jobs_are_those_of_one_catalog(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    fill(shards, whole, tmp_path)
    assert shards.pictures.counts() == whole.catalog.counts()
    assert shards.pictures.months() == whole.catalog.months()
    assert shards.pictures.tags(10, 10, "", "") == whole.catalog.tags(10, 10)
    assert shards.pictures.tags(1, 1, "", "") == whole.catalog.tags(1, 1)
    assert shards.pictures.tags(10, 10, "red", "third") == whole.catalog.tags(10, 10, "red", "third")
    ours, theirs = shards.jobs.jobs(None, 2), whole.catalog.jobs.page(None, 2)
    assert [(job.total, job.done, job.state) for job in ours] == [(job.total, job.done, job.state) for job in theirs]
    assert shards.jobs.job(ours[0].job_id) == ours[0]
    assert shards.jobs.job("unknown") is None


def part_of_job(state: JobState) -> JobStatus:
    return JobStatus(
        job_id="job",
        created_at=NOW,
        state=state,
        total=2,
        done=1,
        failed=0,
        failures=(),
        picture_slots=3,
        caption_slots=1,
    )


class Reporting:
    """A replica that knows one part of a job, or of the list of jobs."""

    name = "reporting"

    def __init__(self, part: JobStatus | Sequence[JobStatus] | None) -> None:
        self._part = part

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        answered: Future[Any] = Future()
        answered.set_result(self._part)
        return answered


@pytest.mark.parametrize("states", [["running", "done"], ["done", "running"], [None, "running"]])
def test_a_job_is_as_far_as_the_replica_that_is_furthest_behind(states: list[JobState | None]) -> None:
    replicas = [Reporting(None if state is None else part_of_job(state)) for state in states]
    job = ClusterJobs(FanOut([replicas], 5.0), lambda: Placement(1)).job("job")
    assert job is not None
    assert job.state == "running"


def test_jobs_of_one_moment_are_listed_as_one_machine_does() -> None:
    same = [replace(part_of_job("done"), job_id=name) for name in ("c", "a", "b")]
    jobs = ClusterJobs(FanOut([[Reporting(same)], [Reporting(same[::-1])]], 5.0), lambda: Placement(2))
    assert [job.job_id for job in jobs.jobs(None, 2)] == ["a", "b"]


def test_jobs_are_paged_as_those_of_one_catalog(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    fill(shards, whole, tmp_path)
    listed = shards.jobs.jobs(None, 100)
    assert len(listed) > 2
    paged, place = list[JobStatus](), None
    while page := shards.jobs.jobs(place, 2):
        paged += page
        place = job_key(page[-1])
    assert paged == listed


def test_a_job_whose_shards_differ_is_running() -> None:
    done, queued = part_of_job("done"), part_of_job("queued")
    for parts in ([done, queued], [queued, done]):
        assert merged_job(parts) == replace(done, state="running", total=4, done=2, picture_slots=0, caption_slots=0)
    assert merged_job([queued, queued]).state == "queued"


def test_failures_of_all_shards_are_one_list(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    for store in (shards.store, LocalPictureStore(whole.catalog, whole.originals)):
        pictures = received(tmp_path, [f"picture {number}" for number in range(12)])
        dated = [replace(one.picture, added_at=NOW + n // 2) for n, one in enumerate(pictures)]
        store.take_in([ReceivedPicture(one.path, new) for one, new in zip(pictures, dated, strict=True)], NOW, 0.0)
    for n, one in enumerate(whole.catalog.list_images(None, 100)):
        for clock, directory in enumerate([whole, *shards.directories] if n < 9 else ()):  # no two of which agree
            directory.catalog.queue.set_aside(one.image_id, "unreadable", NOW + 100 * clock + n % 4)
    expected = whole.catalog.failures.page()
    assert len(expected) == 9
    found: list[Failure] = []
    for _ in range(math.ceil(len(expected) / 2)):
        found += shards.pictures.failures(failure_key(found[-1]) if found else None, 2)
    assert shards.pictures.failures(failure_key(found[-1]), 2) == []
    assert found == expected
    assert [shards.pictures.failure(one.image_id) for one in expected] == expected
    assert shards.pictures.failure("f" * 32) is None


def test_a_picture_is_changed_where_it_lies(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    first, second, *_ = fill(shards, whole, tmp_path, 10)
    change = PictureChange(captions=["another"], tags={"third": None, "new": 1})
    for pictures in (shards.pictures, whole.pictures):
        assert pictures.change(first, change)
        assert not pictures.change("f" * 32, change)
        assert pictures.delete(second, NOW)
        assert not pictures.delete(second, NOW)
    ours, theirs = shards.pictures.image(first), whole.catalog.image(first)
    assert ours is not None
    assert theirs is not None
    assert (ours.captions, ours.tags) == (theirs.captions, theirs.tags) == (("another",), theirs.tags)
    assert shards.pictures.image(second).state == "deleted"  # type: ignore[union-attr]
    assert not is_there(shards.pictures.restore(second, NOW + 1))
    outcome = shards.pictures.restore(second, 0.0)
    assert outcome == shards.pictures.image(second)
    assert is_there(outcome)
    assert shards.pictures.restore("f" * 32, 0.0) is None
    assert shards.pictures.retry(second, NOW) is None


def test_the_same_bytes_are_one_picture(shards: Shards, tmp_path: Path) -> None:
    one, two = received(tmp_path, ["one", "two"])
    copy = ReceivedPicture(tmp_path / "copy", one.picture)
    copy.path.write_bytes(one.path.read_bytes())
    new, there, restored = FileOutcome(False, False), FileOutcome(True, False), FileOutcome(False, True)
    assert shards.store.take_in([one, two, copy], NOW, 0.0).outcomes == [new, new, there]
    again = received(tmp_path, ["two", "one"])
    assert shards.store.take_in(again, NOW + 1, 0.0).outcomes == [there, there]
    assert shards.pictures.delete(two.picture.image_id, NOW + 2)
    again = received(tmp_path, ["two", "one", "two"])
    assert shards.store.take_in(again, NOW + 3, 0.0).outcomes == [restored, there, there]
    assert sum(shards.pictures.counts().values()) == 2


def test_a_picture_of_which_too_much_is_said_keeps_no_other_out(shards: Shards, tmp_path: Path) -> None:
    one, two, three = received(tmp_path, ["one", "two", "three"])
    said = [f"caption {number}" for number in range(1001)]
    sent = [one, ReceivedPicture(two.path, replace(two.picture, captions=said)), three]
    outcomes = shards.store.take_in(sent, NOW, 0.0).outcomes
    reasons = [outcome.refused for outcome in outcomes]
    assert (reasons[0], reasons[2]) == (None, None)
    assert "The picture would have 1001 captions, and may have 1000" in (reasons[1] or "")
    assert shards.pictures.image(two.picture.image_id) is None
    with pytest.raises(OversizedDescription):
        shards.pictures.change(one.picture.image_id, PictureChange(tags=dict.fromkeys(said, 1)))
    changed = shards.pictures.change(one.picture.image_id, PictureChange(tags={"n": 1}))
    assert changed == shards.pictures.image(one.picture.image_id)


def test_large_requests_go_in_steps_that_keep_copies_together(tmp_path: Path) -> None:
    pictures = received(tmp_path, [f"{number}" for number in range(150)])
    placed = list(enumerate([*pictures, *pictures[:20]]))
    groups = steps(placed)
    assert sorted(number for group in groups for number, _ in group) == list(range(170))
    homes: dict[str, set[int]] = {}
    for n, group in enumerate(groups):
        for _, one in group:
            homes.setdefault(one.picture.image_id, set()).add(n)
    assert all(len(home) == 1 for home in homes.values())
    assert len(groups) > 2


def test_a_shard_that_does_not_answer_is_said(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    ids = fill(shards, whole, tmp_path)
    shards.directories[1].down = True
    with pytest.raises(ShardLost, match="Shard 1"):
        shards.pictures.counts()
    lost = next(one for one in ids if shard_of(one, 3) == 1)
    with pytest.raises(NotReady):
        shards.pictures.delete(lost, NOW)
    there = next(one for one in ids if shard_of(one, 3) == 0)
    assert shards.pictures.delete(there, NOW)


def test_pictures_that_were_placed_before_a_shard_came_are_refused(shards: Shards, tmp_path: Path) -> None:
    looks = iter([Placement(2), *[Placement(3)] * 10])
    store = ClusterPictureStore(shards.fan_out, shards, lambda: next(looks))
    with pytest.raises(NotReady, match="send it again"):
        store.take_in(received(tmp_path, ["one", "two"]), NOW, 0.0)
    assert sum(shards.pictures.counts().values()) == 0


@pytest.fixture
def intake(shards: Shards, tmp_path: Path) -> Iterator[Intake]:
    """The intake of uploads at a router, whose own catalog knows no picture."""
    limits = FormLimits(max_file_bytes=1000, max_body_bytes=10**6, max_files=5)
    with closing(Catalog(tmp_path / "router" / "catalog.sqlite")) as own:
        yield Intake(
            own,
            Originals(tmp_path / "router"),
            limits,
            lambda path: "png",
            lambda: None,
            space=FreeSpace(Path(), 0),
            delete_grace_s=1e9,
            store=shards.store,
        )


def upload(intake: Intake, name: str, value: str) -> IngestReceipt:
    """The receipt of a picture sent with another field."""
    form = multipart_body(part(name, value.encode()), part("images", b"a picture", "one.png"))
    return asyncio.run(intake.receive(CONTENT_TYPE, None, pieces(form)))


def test_a_picture_that_is_deleted_in_its_shard_stays_so_on_request(shards: Shards, intake: Intake) -> None:
    (accepted,) = upload(intake, "restore", "false").accepted
    assert shards.pictures.delete(accepted.image_id, NOW)
    with pytest.raises(NothingAccepted) as refused:
        upload(intake, "restore", "false")
    assert refused.value.extra["rejected"][0]["deleted"] is True
    assert upload(intake, "restore", "true").accepted[0].restored


def test_a_picture_whose_arrival_was_undone_was_never_deleted(shards: Shards, intake: Intake) -> None:
    (accepted,) = upload(intake, "restore", "false").accepted
    assert sum(directory.catalog.delete(accepted.image_id, LONG_AGO) for directory in shards.directories) == 1
    assert shards.pictures.image(accepted.image_id) is None
    assert upload(intake, "restore", "false").accepted[0].image_id == accepted.image_id


def test_uploads_to_a_cluster_keep_to_the_bound_of_what_is_said_of_a_picture(shards: Shards, intake: Intake) -> None:
    def send(first: int, count: int) -> IngestReceipt:
        captions = [f"caption {number}" for number in range(first, first + count)]
        return upload(intake, "manifest", json.dumps({"one.png": {"captions": captions}}))

    for turn in range(10):
        (accepted,) = send(100 * turn, 100).accepted
    with pytest.raises(NothingAccepted) as refused:
        send(1000, 1)
    assert "would have 1001 captions, and may have 1000" in refused.value.extra["rejected"][0]["problem"]
    image = shards.pictures.image(accepted.image_id)
    assert image is not None
    assert len(image.captions) == 1000


def test_originals_for_an_archive_are_had_of_their_shards(shards: Shards, whole: Directory, tmp_path: Path) -> None:
    fill(shards, whole, tmp_path)
    expected = {one.image_id: one for one in whole.catalog.list_images(None, 1000)}
    found = shards.pictures.images([*expected, "f" * 32])
    assert {one: image.filename for one, image in found.items()} == {
        one: image.filename for one, image in expected.items()
    }
    for image_id, image in found.items():
        with shards.pictures.open(image) as file:
            assert file.read() == whole.originals.path(image_id, image.extension).read_bytes()
    gone, damaged, *_ = found.values()
    for directory in shards.directories:
        directory.originals.path(gone.image_id, gone.extension).unlink(missing_ok=True)
        if directory.originals.holds(damaged.image_id, damaged.extension):
            directory.originals.path(damaged.image_id, damaged.extension).write_bytes(b"short")
    for lost in (gone, damaged):
        with pytest.raises(FileNotFoundError, match=lost.image_id):
            shards.pictures.open(lost)
