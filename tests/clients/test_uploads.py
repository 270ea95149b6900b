"""Batches of pictures: bounded, in order, nothing left out; files are read while they are sent."""

import json
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard_client import Client, Misconfigured, Picture, upload_batches
from regard_client.pictures import MAX_BATCH_BYTES, MAX_BATCH_FILES, manifest_of
from service.settings import Settings

FILES = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 30)), max_size=40)


@given(files=FILES, max_files=st.integers(1, 5), max_bytes=st.integers(1, 60))
def test_batches_keep_within_their_bounds_and_lose_nothing(
    files: list[tuple[str, int]], max_files: int, max_bytes: int
) -> None:
    pictures = [Picture(bytes(size), name) for name, size in files]
    batches = list(upload_batches(pictures, max_files, max_bytes))
    assert [picture for batch in batches for picture in batch] == pictures
    for batch in batches:
        assert 1 <= len(batch) <= max_files
        assert len(batch) == 1 or sum(picture.num_bytes for picture in batch) <= max_bytes
        assert len({picture.name for picture in batch}) == len(batch)
    for batch, following in pairwise(batches):  # and none is smaller than need be
        whole = [*batch, following[0]]
        twice = following[0].name in {picture.name for picture in batch}
        assert twice or len(whole) > max_files or sum(one.num_bytes for one in whole) > max_bytes


def test_what_is_sent_at_once_is_what_a_server_takes() -> None:
    assert Settings.model_fields["max_body_bytes"].default >= 2 * MAX_BATCH_BYTES
    assert Settings.model_fields["max_files"].default >= 2 * MAX_BATCH_FILES
    with pytest.raises(Misconfigured, match="at least one"):
        list(upload_batches([], max_files=0))


def test_pictures_are_asked_for_as_they_are_sent() -> None:
    asked = []

    def pictures() -> Iterator[Picture]:
        for number in range(100):
            asked.append(number)
            yield Picture(b"x", f"{number}.png")

    batches = upload_batches(pictures(), max_files=10)
    assert len(next(batches)) == 10
    assert len(asked) == 11


def test_a_file_is_never_whole_in_memory(tmp_path: Path) -> None:
    large = tmp_path / "large.png"
    with large.open("wb") as file:
        file.truncate(48 * 2**20)
    seen = 0

    class Counting(httpx.BaseTransport):
        """Counts the bytes of a body as a socket would take them."""

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            nonlocal seen
            seen = sum(len(part) for part in request.stream)  # type: ignore[union-attr, misc]
            answer = {"job_id": "1", "status_url": "/jobs/1", "accepted": [], "rejected": []}
            return httpx.Response(202, json=answer)

    with Client(transport=Counting()) as client:
        tracemalloc.start()
        client.ingest([large])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert seen > 48 * 2**20
    assert peak < 4 * 2**20


def test_a_manifest_goes_by_names() -> None:
    red = Picture(b"r", "red.png", captions=["a wall"], tags={"year": 2024}, taken_at="2024-05")
    plain = Picture(Path("photos") / "blue.png")
    assert (plain.name, Picture("photos/green.png").name) == ("blue.png", "green.png")
    assert json.loads(str(manifest_of([red, plain]))) == {
        "red.png": {"captions": ["a wall"], "tags": {"year": 2024}, "taken_at": "2024-05"}
    }
    assert manifest_of([plain]) is None
    assert manifest_of([Picture(b"1", "a"), Picture(b"2", "a")]) is None
    with pytest.raises(Misconfigured, match=r"two pictures of one request are called red\.png"):
        manifest_of([red, Picture(b"2", "red.png")])


def test_nothing_is_sent_where_there_is_no_picture() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise AssertionError("it was sent")

    with (
        Client("here", transport=httpx.MockTransport(refuse)) as client,
        pytest.raises(Misconfigured, match="no picture to send"),
    ):
        client.ingest([])


def test_what_is_no_picture_is_refused_with_words() -> None:
    with pytest.raises(Misconfigured, match="needs a name"):
        Picture(b"x")
    with pytest.raises(Misconfigured, match="not one sentence"):
        Picture(b"x", "a.png", captions="a dog")
    with Client() as client:
        with pytest.raises(Misconfigured, match="one of them, not both"):
            client.search_similar()
        with pytest.raises(Misconfigured, match="one of them, not both"):
            client.search_captions("dog.jpg", image_id="0" * 32)
        with pytest.raises(FileNotFoundError, match=r"nowhere\.png"):
            client.ingest(["nowhere.png"])
