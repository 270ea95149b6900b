"""The catalog's promises: jobs, duplicates, failures, tombstones, captions, versions."""

from collections.abc import Sequence
from typing import Any

import pytest

from index.catalog.catalog import Catalog
from index.catalog.ingestion.jobs import JobKey, job_key
from index.records import DetectedPicture, Failure, JobStatus, ListPlace
from tests.support.catalog_captions import captions_of
from tests.support.catalogs import make_ready, picture


def texts(catalog: Catalog, image_id: str) -> list[tuple[str, int | None]]:
    return [(caption.text, caption.slot) for caption in captions_of(catalog, [image_id])[image_id]]


def test_a_picture_goes_from_queued_to_ready(catalog: Catalog) -> None:
    job = catalog.take_in([picture("a", captions=["x", "y"], tags={"n": 1}, taken_at=5.0)], now=100.0).job_id
    waiting = JobStatus(
        job_id=job,
        created_at=100.0,
        state="queued",
        total=1,
        done=0,
        failed=0,
        failures=(),
        picture_slots=0,
        caption_slots=0,
    )
    assert catalog.jobs.find(job) == waiting
    assert [waiting.image_id for waiting in catalog.queue.waiting(10)] == ["a"]
    assert (catalog.num_slots(), catalog.num_caption_slots()) == (0, 0)
    catalog.commit([DetectedPicture(image_id="a", slot=0, width=640, height=480, extractor="d1", taken_at=9.0)])
    image = catalog.image("a")
    assert image is not None
    assert (image.state, image.slot, image.width, image.height, image.extractor) == ("ready", 0, 640, 480, "d1")
    assert (image.captions, image.tags, image.added_at) == (("x", "y"), {"n": 1}, 100.0)
    assert image.taken_at == 5.0, "what was said counts more than what the file says"
    assert catalog.queue.waiting(10) == []
    status = catalog.jobs.find(job)
    assert status is not None
    assert (status.state, status.done) == ("done", 1)
    assert (status.picture_slots, status.caption_slots) == (1, 2)
    assert texts(catalog, "a") == [("x", 0), ("y", 1)]


def test_a_date_from_the_file_counts_where_none_was_given(catalog: Catalog) -> None:
    catalog.take_in([picture("a")], now=0.0)
    catalog.commit([DetectedPicture(image_id="a", slot=0, width=1, height=1, extractor="d1", taken_at=9.0)])
    assert [image.taken_at for image in catalog.list_images(None, 9)] == [9.0]


def test_the_oldest_are_queued_first(catalog: Catalog) -> None:
    for name in "cab":
        catalog.take_in([picture(name)], now=0.0)
    assert [waiting.image_id for waiting in catalog.queue.waiting(2)] == ["c", "a"]


def test_a_duplicate_is_one_picture_and_merges(catalog: Catalog) -> None:
    catalog.take_in([picture("a", captions=["x"], tags={"n": 1, "m": "old"})], now=1.0)
    make_ready(catalog, "a")
    again = [picture("a", captions=["y", "x", "y"], tags={"m": "new"}, filename="other.jpg"), picture("a")]
    job = catalog.take_in(again, now=2.0).job_id
    status = catalog.jobs.find(job)
    assert status is not None
    assert (status.state, status.total, status.done) == ("done", 1, 1)
    image = catalog.image("a")
    assert image is not None
    assert (image.captions, image.tags) == (("x", "y"), {"n": 1, "m": "new"})
    assert (image.filename, image.added_at) == ("a.jpg", 1.0)
    assert texts(catalog, "a") == [("x", 0), ("y", 1)], "a ready picture's new caption gets its slot at once"


@pytest.mark.parametrize("page_size", [1, 2, 5])
def test_jobs_are_paged_from_the_latest_on(catalog: Catalog, page_size: int) -> None:
    times = [3.0, 1.0, 2.0, 2.0, 2.0]
    jobs = [(-now, catalog.take_in([picture("a")], now=now).job_id) for now in times]
    paged, place = list[JobKey](), None
    while page := catalog.jobs.page(place, page_size):
        paged += map(job_key, page)
        place = paged[-1]
    assert paged == sorted(jobs)


def test_a_job_runs_while_some_of_its_pictures_wait(catalog: Catalog) -> None:
    job = catalog.take_in([picture("a"), picture("b")], now=1.0).job_id
    later = catalog.take_in([picture("b"), picture("c")], now=2.0).job_id
    make_ready(catalog, "a")
    assert [one.state for one in map(catalog.jobs.find, (job, later)) if one] == ["running", "queued"]
    make_ready(catalog, "b")
    assert [one.state for one in map(catalog.jobs.find, (job, later)) if one] == ["done", "running"]
    assert catalog.jobs.find("none") is None
    catalog.delete("c", now=3.0)
    status = catalog.jobs.find(later)
    assert status is not None
    assert (status.state, status.done, status.failed) == ("done", 2, 0), "nothing waits for a deleted picture"


def test_a_picture_set_aside_is_listed_and_tried_again_when_it_comes_again(catalog: Catalog) -> None:
    job = catalog.take_in([picture("a"), picture("b")], now=1.0).job_id
    assert [catalog.queue.count_attempt("a", "no JPEG") for _ in range(2)] == [1, 2]
    assert [(one.image_id, one.attempts) for one in catalog.queue.waiting(2)] == [
        ("b", 0),
        ("a", 2),
    ]  # after the others
    status = catalog.jobs.find(job)
    assert status is not None
    assert status.state == "running"
    catalog.queue.set_aside("a", "really no JPEG", now=2.0)
    failure = Failure(image_id="a", filename="a.jpg", reason="really no JPEG", attempts=2, added_at=1.0)
    assert catalog.failures.page() == [failure]
    assert [waiting.image_id for waiting in catalog.queue.waiting(9)] == ["b"]
    assert catalog.known_ids(["a", "b", "c"]) == {"b"}
    make_ready(catalog, "b")
    status = catalog.jobs.find(job)
    assert status is not None
    assert (status.state, status.done, status.failed, status.failures) == ("done", 1, 1, (failure,))

    catalog.take_in([picture("a")], now=3.0)
    assert catalog.failures.page() == []
    assert [(one.image_id, one.attempts) for one in catalog.queue.waiting(9)] == [("a", 0)]
    make_ready(catalog, "a")
    assert catalog.counts() == {"ready": 2, "queued": 0, "failed": 0, "deleted": 0}


def test_only_a_queued_picture_is_set_aside(catalog: Catalog) -> None:
    catalog.take_in([picture("a"), picture("b")], now=1.0)
    make_ready(catalog, "a")
    catalog.delete("b", now=2.0)
    for name in "ab":
        catalog.queue.set_aside(name, "too late", now=3.0)
    assert catalog.failures.page() == []
    with pytest.raises(KeyError):
        catalog.queue.count_attempt("none", "?")


def test_a_deleted_picture_is_hidden_at_once_with_its_captions_and_comes_back(catalog: Catalog) -> None:
    catalog.take_in([picture(name, captions=[name, "same"]) for name in "abc"], now=1.0)
    make_ready(catalog, "a", "b", "c")
    assert catalog.delete("b", now=2.0)
    assert not catalog.delete("b", now=3.0)
    assert not catalog.delete("none", now=3.0)
    assert catalog.visible().tolist() == [True, False, True]
    assert catalog.visible_captions().tolist() == [True, True, False, False, True, True]
    assert [image and image.image_id for image in catalog.images_at([2, 1, 0, 0])] == ["c", None, "a", "a"]
    assert [image.image_id for image in catalog.list_images(None, 9)] == ["a", "c"]
    assert [(one.image_id, one.deleted) for one in catalog.captions_at([3, 4])] == [("b", True), ("c", False)]
    image = catalog.image("b")
    assert image is not None
    assert (image.state, image.deleted_at) == ("deleted", 2.0)
    assert catalog.known_ids(["a", "b"]) == {"a"}

    job = catalog.take_in([picture("b", captions=["more"])], now=4.0).job_id
    status = catalog.jobs.find(job)
    assert status is not None
    assert status.state == "done"
    assert catalog.visible().all()
    assert catalog.visible_captions().all()
    assert texts(catalog, "b") == [("b", 2), ("same", 3), ("more", 6)]
    assert [image.slot for image in catalog.list_images(None, 9)] == [0, 1, 2]


def test_a_picture_deleted_while_it_waited_or_was_worked_on(catalog: Catalog) -> None:
    catalog.take_in([picture("a"), picture("b")], now=1.0)
    catalog.delete("a", now=2.0)
    catalog.delete("b", now=2.0)
    assert catalog.queue.waiting(9) == []
    make_ready(catalog, "b")  # its record was on its way
    assert catalog.visible().tolist() == [False]
    catalog.take_in([picture("a"), picture("b")], now=3.0)
    assert [waiting.image_id for waiting in catalog.queue.waiting(9)] == ["a"]
    assert catalog.visible().tolist() == [True]


@pytest.mark.parametrize(
    ("names", "slots", "words"),
    [
        (["b"], [2], "next region slots are 1"),
        (["b"], [0], "next region slots are 1"),
        (["b", "c"], [1, 3], "next region slots are 1"),
        (["a"], [1], "unknown or has a slot"),
        (["none"], [1], "unknown or has a slot"),
        (["b", "b"], [1, 2], "unknown or has a slot"),
    ],
)
def test_a_commit_that_leaves_a_gap_changes_nothing(
    catalog: Catalog, names: Sequence[str], slots: Sequence[int], words: str
) -> None:
    catalog.take_in([picture(name, captions=["x"]) for name in "abc"], now=1.0)
    make_ready(catalog, "a")
    before = catalog.version()
    ready = [
        DetectedPicture(image_id=name, slot=slot, width=1, height=1, extractor="d")
        for name, slot in zip(names, slots, strict=True)
    ]
    with pytest.raises(ValueError, match=words):
        catalog.commit(ready)
    assert (catalog.num_slots(), catalog.num_caption_slots(), catalog.version()) == (1, 1, before)


@pytest.mark.parametrize("wrong", [{"captions": ["ok", " \n"]}, {"tags": {"n": float("nan")}}, {"tags": {"n": True}}])
def test_a_picture_that_cannot_be_kept_whole_is_not_kept(catalog: Catalog, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"empty|a value is"):
        catalog.take_in([picture("a"), picture("b", **wrong)], now=1.0)
    assert catalog.counts()["queued"] == 0


def test_pictures_are_listed_in_pages(catalog: Catalog) -> None:
    catalog.take_in([picture(name, tags={"name": name}) for name in "edcba"], now=1.0)
    catalog.delete("c", now=2.0)
    first = catalog.list_images(None, 2)
    assert [(image.image_id, image.tags) for image in first] == [("e", {"name": "e"}), ("d", {"name": "d"})]
    assert [image.image_id for image in catalog.list_images(ListPlace("d"), 9)] == ["b", "a"]
    assert [image.image_id for image in catalog.list_images(ListPlace("c"), 1)] == ["b"]
    assert catalog.list_images(ListPlace("a"), 9) == []
    with pytest.raises(ValueError, match="no picture none"):
        catalog.list_images(ListPlace("none"), 9)


def test_what_was_never_seen_is_left_out(catalog: Catalog) -> None:
    catalog.take_in([picture("a")], now=1.0)
    assert catalog.image("none") is None
    assert captions_of(catalog, ["a", "none"]) == {"a": []}
    assert catalog.images_at([0, 7]) == [None, None]
    with pytest.raises(KeyError):
        catalog.captions_at([0])


def test_heartbeats_change_no_version(catalog: Catalog) -> None:
    before = catalog.version()
    assert catalog.processes.last_heartbeat("worker") is None
    for now in (4.0, 5.0):
        catalog.processes.heartbeat("worker", now)
    assert (catalog.processes.last_heartbeat("worker"), catalog.processes.last_heartbeat("api")) == (5.0, None)
    assert catalog.version() == before
