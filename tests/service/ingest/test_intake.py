"""Uploads: what is accepted is durable, what is not has its reason, and one never costs the other."""

import asyncio
import hashlib
import json
import os
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import PIL.Image
import pytest

from index.catalog.catalog import Catalog
from index.records import PictureChange
from service.errors import InvalidRequest, NothingAccepted, TooLarge, UnreadablePicture
from service.ingest.intake import MAX_FAILED_LOOKS, IngestReceipt, Intake
from service.ingest.multipart import FormLimits
from service.media.decode_pool import DecodeFailed, DecodePool
from service.media.decode_process import DecodeLimits
from service.media.file_type import image_extension
from service.storage.disk import FreeSpace
from service.storage.originals import Originals
from tests.support.multipart_bodies import CONTENT_TYPE, multipart_body, part, pieces
from tests.support.pictures import encoded, huge_png

LIMITS = FormLimits(max_file_bytes=200_000, max_body_bytes=2_000_000, max_files=50)
NOW = 1_700_000_000.0
NO_RESERVE = FreeSpace(Path(), 0)
INSPECT = partial(image_extension, max_pixels=80_000_000)


class Store:
    """An intake on an empty data directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = Catalog(folder / "data" / "catalog.sqlite")
        self.originals = Originals(folder / "data")
        self.times_woken = 0
        self.intake = Intake(
            self.catalog,
            self.originals,
            LIMITS,
            INSPECT,
            self._wake,
            space=NO_RESERVE,
            clock=lambda: NOW,
        )

    def _wake(self) -> None:
        self.times_woken += 1

    def send(self, *parts: bytes, manifest: dict[str, Any] | None = None) -> IngestReceipt:
        described = [] if manifest is None else [part("manifest", json.dumps(manifest).encode())]
        try:
            return asyncio.run(self.intake.receive(CONTENT_TYPE, None, pieces(multipart_body(*described, *parts))))
        finally:
            assert list(self.originals.incoming.iterdir()) == []

    def kept_files(self) -> list[str]:
        """Every file outside the catalog, from the folder above the data directory."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.name for path in files if not path.name.startswith("catalog.sqlite"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.catalog.close()


def picture(colour: str, kind: str = "PNG") -> bytes:
    return encoded(PIL.Image.new("RGB", (20, 10), colour), kind)


def id_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def test_what_is_accepted_is_on_disk_and_queued_when_the_answer_leaves(store: Store) -> None:
    red, blue = picture("red"), picture("blue", "JPEG")
    receipt = store.send(part("images", red, "red.png"), part("images", blue, "blue.png"))
    assert [(one.image_id, one.filename, one.duplicate) for one in receipt.accepted] == [
        (id_of(red), "red.png", False),
        (id_of(blue), "blue.png", False),
    ]
    assert receipt.rejected == []
    assert store.originals.path(id_of(red), "png").read_bytes() == red
    assert store.originals.path(id_of(blue), "jpg").read_bytes() == blue
    assert [waiting.image_id for waiting in store.catalog.queue.waiting(10)] == [id_of(red), id_of(blue)]
    assert store.times_woken == 1
    job = store.catalog.jobs.find(receipt.job_id)
    assert job is not None
    assert (job.state, job.total) == ("queued", 2)


def test_the_same_bytes_are_one_picture(store: Store) -> None:
    red = picture("red")
    first = store.send(part("images", red, "one.png"), part("images", red, "two.png"))
    again = store.send(part("images", red, "three.png"))
    assert [one.duplicate for one in first.accepted] == [False, True]
    assert [one.duplicate for one in again.accepted] == [True]
    assert len(store.catalog.queue.waiting(10)) == 1
    assert len(store.kept_files()) == 1


def test_a_picture_has_so_many_captions_and_no_more_however_often_it_is_sent(store: Store) -> None:
    red, blue = picture("red"), picture("blue")

    def captions(first: int, count: int) -> dict[str, Any]:
        return {"captions": [f"caption {number}" for number in range(first, first + count)]}

    for turn in range(9):
        store.send(part("images", red, "red.png"), manifest={"red.png": captions(100 * turn, 100)})
    sent = [part("images", red, "red.png"), part("images", red, "again.png"), part("images", blue, "blue.png")]
    manifest = {"red.png": captions(900, 60), "again.png": captions(960, 41), "blue.png": captions(0, 100)}
    receipt = store.send(*sent, manifest=manifest)
    assert [one.filename for one in receipt.accepted] == ["red.png", "blue.png"]
    assert [one.filename for one in receipt.rejected] == ["again.png"]
    assert "would have 1001 captions, and may have 1000" in receipt.rejected[0].problem
    stored = store.catalog.image(id_of(red))
    assert stored is not None
    assert len(stored.captions) == 960
    with pytest.raises(NothingAccepted):
        store.send(sent[0], manifest={"red.png": captions(2000, 41)})
    assert store.send(sent[0], manifest={"red.png": captions(0, 100)}).rejected == []


def test_tags_of_a_picture_are_bounded_too(store: Store) -> None:
    red = part("images", picture("red"), "red.png")
    for turn in range(10):
        store.send(red, manifest={"red.png": {"tags": {f"{turn}-{number}": 1 for number in range(100)}}})
    with pytest.raises(NothingAccepted) as refused:
        store.send(red, manifest={"red.png": {"tags": {"one": 1}}})
    assert "may have 1000" in refused.value.extra["rejected"][0]["problem"]
    assert store.send(red, manifest={"red.png": {"tags": {"3-3": 2}}}).rejected == []


@pytest.mark.parametrize("left", [None, b"", b"other bytes"])
def test_an_original_that_was_lost_or_damaged_is_restored_by_sending_it_again(store: Store, left: bytes | None) -> None:
    red = picture("red")
    store.send(part("images", red, "one.png"))
    path = store.originals.path(id_of(red), "png")
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    receipt = store.send(part("images", red, "one.png"))
    assert path.read_bytes() == red
    assert [one.duplicate for one in receipt.accepted] == [True]


def test_what_a_deleted_picture_was_can_come_back(store: Store) -> None:
    red = picture("red")
    store.send(part("images", red, "one.png"))
    assert store.catalog.delete(id_of(red), NOW)
    receipt = store.send(part("images", red, "one.png"))
    assert [one.duplicate for one in receipt.accepted] == [False]
    assert len(store.catalog.queue.waiting(10)) == 1


def test_a_bad_file_is_told_why_and_the_good_ones_go_on(store: Store) -> None:
    good = picture("red")
    bad = {
        "empty.jpg": b"",
        "text.jpg": b"To whom it may concern\n",
        "archive.jpg": b"PK\x03\x04" + bytes(50),
        "zeros.jpg": bytes(5000),
        "bomb.png": huge_png(20_000, 20_000),
        "huge.jpg": bytes(200_001),
    }
    receipt = store.send(
        *(part("images", content, name) for name, content in bad.items()), part("images", good, "good.png")
    )
    assert [one.image_id for one in receipt.accepted] == [id_of(good)]
    assert [one.filename for one in receipt.rejected] == list(bad)
    assert len({one.problem for one in receipt.rejected}) == len(bad)
    assert store.kept_files() == [f"{id_of(good)}.png"]


def test_nothing_acceptable_is_refused_with_every_reason(store: Store) -> None:
    with pytest.raises(NothingAccepted) as refused:
        store.send(part("images", b"", "a.jpg"), part("images", b"text", "b.jpg"))
    assert [one["filename"] for one in refused.value.extra["rejected"]] == ["a.jpg", "b.jpg"]
    with pytest.raises(NothingAccepted):
        store.send()
    assert store.times_woken == 0
    assert store.kept_files() == []


def test_no_name_reaches_the_disk(store: Store) -> None:
    names = ["../../up.png", "/etc/absolute.png", "nul%00.png", "x" * 4000 + ".png", "..", "a/b\\c.png", ""]
    colours = ["red", "lime", "blue", "white", "black", "yellow", "cyan"]
    contents = [picture(colour) for colour in colours]
    receipt = store.send(*(part("images", c, name) for c, name in zip(contents, names, strict=True)))
    assert len(receipt.accepted) == len(names)
    assert store.kept_files() == sorted(f"{id_of(content)}.png" for content in contents)
    assert [path.name for path in store.folder.iterdir()] == ["data"]
    shown = [one.filename for one in receipt.accepted]
    assert shown[0] == "../../up.png"
    assert shown[2] == "nul\N{REPLACEMENT CHARACTER}.png"
    assert len(shown[3]) == 255
    assert shown[3].endswith(".png")
    assert shown[6] == "unnamed"
    assert [waiting.filename for waiting in store.catalog.queue.waiting(10)] == shown


def test_the_manifest_describes_files_by_name(store: Store) -> None:
    red, blue = picture("red"), picture("blue")
    store.send(
        part("images", red, "../red.png"),
        part("images", blue, "blue.png"),
        manifest={
            "../red.png": {
                "captions": ["a red field"],
                "tags": {"stars": 5},
                "taken_at": "2024-05-06T07:08:09Z",
            }
        },
    )
    found = store.catalog.image(id_of(red))
    assert found is not None
    assert (found.captions, dict(found.tags), found.taken_at) == (("a red field",), {"stars": 5}, 1714979289.0)
    other = store.catalog.image(id_of(blue))
    assert other is not None
    assert (other.captions, dict(other.tags), other.taken_at) == ((), {}, None)


@pytest.mark.parametrize(("sent", "described"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_names_and_tags_are_the_same_however_their_accents_are_composed(
    store: Store, sent: Literal["NFC", "NFD"], described: Literal["NFC", "NFD"]
) -> None:
    red = picture("red")
    name, tag, value = "Kühe/a.png", "Ära", "Käse"
    as_sent, as_described = (partial(unicodedata.normalize, form) for form in (sent, described))
    manifest = {as_described(name): {"tags": {as_described(tag): as_described(value)}}}
    store.send(part("images", red, as_sent(name)), manifest=manifest)
    (image,) = store.catalog.list_images(None, 9)
    assert (image.filename, image.tags) == (name, {tag: value})
    store.catalog.change(id_of(red), PictureChange(tags={as_sent(tag): "mine"}))
    store.send(part("images", red, name), manifest={name: {"default_tags": {as_described(tag): "again"}}})
    (image,) = store.catalog.list_images(None, 9)
    assert image.tags == {tag: "mine"}  # default tags undo no edit
    store.catalog.change(id_of(red), PictureChange(tags={as_sent(tag): None}))
    (image,) = store.catalog.list_images(None, 9)
    assert image.tags == {}


def test_default_tags_undo_no_edit(store: Store) -> None:
    def tags() -> dict[str, Any]:
        found = store.catalog.image(id_of(red))
        assert found is not None
        return dict(found.tags)

    red = picture("red")
    sent = part("images", red, "red.png")
    store.send(sent, manifest={"red.png": {"tags": {"year": 2024}, "default_tags": {"album": "May", "year": 1999}}})
    assert tags() == {"album": "May", "year": 2024}
    store.catalog.change(id_of(red), PictureChange(tags={"album": "Summer", "year": None}))
    store.send(sent, manifest={"red.png": {"tags": {"stars": 5}, "default_tags": {"album": "May", "year": 1999}}})
    assert tags() == {"album": "Summer", "stars": 5}, "they are for what is new"


def test_of_two_copies_in_a_request_the_first_gives_the_default_tags(store: Store) -> None:
    red, names = picture("red"), ("A/a.png", "B/b.png")
    defaults = {name: {"default_tags": {"album": name[0], name[0]: 1}} for name in names}
    store.send(*(part("images", red, name) for name in names), manifest=defaults)
    found = store.catalog.image(id_of(red))
    assert found is not None
    assert (found.filename, dict(found.tags)) == ("A/a.png", {"album": "A", "A": 1, "B": 1})


def test_the_manifest_may_come_as_a_file_and_last(store: Store) -> None:
    red = picture("red")
    manifest = json.dumps({"red.png": {"captions": ["a red field"]}}).encode()
    store.send(part("images", red, "red.png"), part("manifest", b"\xef\xbb\xbf" + manifest, "manifest.json"))
    found = store.catalog.image(id_of(red))
    assert found is not None
    assert found.captions == ("a red field",)


@pytest.mark.parametrize("state", ["queued", "failed", "deleted", "deleted long ago", "erasing"])
def test_a_picture_of_an_earlier_release_keeps_its_file_whatever_kind_it_is_now(store: Store, state: str) -> None:
    content = picture("red")
    name = id_of(content)
    earlier = Intake(
        store.catalog, store.originals, LIMITS, lambda path: "tif", print, space=NO_RESERVE, clock=lambda: NOW
    )
    asyncio.run(earlier.receive(CONTENT_TYPE, None, pieces(multipart_body(part("images", content, "red.png")))))
    if state == "failed":
        store.catalog.queue.set_aside(name, "not read", NOW)
    elif state != "queued":
        store.catalog.delete(name, NOW if state == "deleted" else NOW - 10**7)
    if state == "erasing":
        store.catalog.erasures.erase_deleted(NOW, NOW, 1)
    store.originals.path(name, "tif").unlink()  # lost, or removed just before
    store.send(part("images", content, "red.png"))
    image = store.catalog.image(name)
    assert image is not None
    assert (image.state, image.extension) == ("queued", "tif")
    assert store.kept_files() == [f"{name}.tif"]
    assert store.catalog.arrivals.open() == []


def test_captions_of_duplicates_come_together(store: Store) -> None:
    red = picture("red")
    store.send(part("images", red, "one.png"), manifest={"one.png": {"captions": ["first", "second"]}})
    store.send(part("images", red, "two.png"), manifest={"two.png": {"captions": ["second", "third"]}})
    found = store.catalog.image(id_of(red))
    assert found is not None
    assert found.captions == ("first", "second", "third")


@pytest.mark.parametrize(
    "manifest",
    [
        {"other.png": {}},
        {"red.png": {"captions": [""]}},
        {"red.png": {"taken_at": "yesterday"}},
    ],
)
def test_a_wrong_manifest_refuses_the_request_before_anything_is_stored(store: Store, manifest: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        store.send(part("images", picture("red"), "red.png"), manifest=manifest)
    assert store.kept_files() == []
    assert store.catalog.queue.waiting(10) == []


def test_a_name_that_means_two_pictures_cannot_be_described(store: Store) -> None:
    files = [part("images", picture(colour), "same.png") for colour in ("red", "blue")]
    assert len(store.send(*files).accepted) == 2
    with pytest.raises(InvalidRequest, match="several files"):
        store.send(*files, manifest={"same.png": {"captions": ["which?"]}})


@pytest.mark.parametrize("wrong", [part("image", b"x", "red.png"), part("captions", b"[]")])
def test_a_misspelt_field_is_not_passed_over(store: Store, wrong: bytes) -> None:
    with pytest.raises(InvalidRequest, match="images"):
        store.send(part("images", picture("red"), "red.png"), wrong)
    assert store.kept_files() == []


def test_a_manifest_of_endless_length_is_refused(store: Store) -> None:
    long = part("manifest", b'{"a": "' + b"x" * 4_500_000, None)
    limits = FormLimits(max_file_bytes=10**7, max_body_bytes=10**8, max_files=5)
    roomy = Intake(store.catalog, store.originals, limits, INSPECT, print, space=NO_RESERVE)
    with pytest.raises(TooLarge):
        asyncio.run(roomy.receive(CONTENT_TYPE, None, pieces(multipart_body(long))))
    as_file = part("manifest", b"x" * 4_500_000, "manifest.json")
    with pytest.raises(TooLarge):
        asyncio.run(roomy.receive(CONTENT_TYPE, None, pieces(multipart_body(as_file))))


def test_a_file_that_takes_too_long_to_look_at_is_refused_and_soon_the_rest_of_the_request(store: Store) -> None:
    looked: list[Path] = []

    def inspect(path: Path) -> str:
        looked.append(path)
        if path.read_bytes() == b"slow":
            raise DecodeFailed("Decoding the picture failed: it took longer than 5 s.", final=False, timed_out=True)
        return "png"

    slow = [part("images", b"slow", f"slow-{number}.png") for number in range(20)]
    patient = Intake(store.catalog, store.originals, LIMITS, inspect, print, space=NO_RESERVE)
    good = part("images", b"good", "good.png")
    receipt = asyncio.run(patient.receive(CONTENT_TYPE, None, pieces(multipart_body(good, *slow, good))))
    assert [one.filename for one in receipt.accepted] == ["good.png"]
    assert len(looked) == 1 + MAX_FAILED_LOOKS
    problems = [one.problem for one in receipt.rejected]
    assert len(problems) == 21
    assert all("took longer" in problem for problem in problems[:MAX_FAILED_LOOKS])
    assert all("was not looked at" in problem for problem in problems[MAX_FAILED_LOOKS:])
    assert all(one.retryable for one in receipt.rejected)


def test_a_file_that_hangs_the_look_at_it_is_ended(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it waits for a writer that never comes
    limits = DecodeLimits(timeout_s=600, memory_bytes=2**31, max_pixels=10**6, inspect_s=0.5)
    with DecodePool(1, limits) as pool, pytest.raises(DecodeFailed, match=r"longer than 0.5 s") as failed:
        pool.inspect(pipe)
    assert failed.value.timed_out


def test_a_look_at_a_file_says_what_reading_it_here_would(tmp_path: Path) -> None:
    file = tmp_path / "file"
    limits = DecodeLimits(timeout_s=60, memory_bytes=2**31, max_pixels=10**6, inspect_s=60)
    with DecodePool(1, limits) as pool:
        for content in (encoded(PIL.Image.new("RGB", (9, 9)), "TIFF"), b"text", b"", huge_png(2000, 2000), b"PK.."):
            file.write_bytes(content)
            said = []
            for inspect in (pool.inspect, partial(image_extension, max_pixels=10**6)):
                try:
                    said.append(inspect(file))
                except UnreadablePicture as problem:
                    said.append(problem.detail)
            assert said[0] == said[1]
