"""Every method of both clients against a real server."""

import asyncio
import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from regard_client import AsyncClient, Client, JobUnfinished, Picture, RequestRefused
from regard_client.jobs import JobWait
from tests.support.either_client import CLIENTS, closed, settled
from tests.support.library import Library, two_coloured
from tests.support.running_server import running_server
from tests.support.set_clock import Clock
from tests.support.web_app import png

CUT = png(two_coloured("cyan", "cyan", 640, 480))[:-200]  # looks like a picture until it is decoded


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[Client] | type[AsyncClient]:
    """The client that waits and the one that is awaited."""
    made: type[Client] | type[AsyncClient] = request.param
    return made


@pytest.fixture
def fresh_url(tmp_path: Path) -> Iterator[str]:
    """A server of the test's own."""
    with running_server(tmp_path / "data") as address:
        yield address


class Photos:
    """Three pictures of one colour each, in files."""

    def __init__(self, folder: Path) -> None:
        self.paths = {colour: folder / f"{colour}.png" for colour in ("red", "green", "blue")}
        for colour, path in self.paths.items():
            path.write_bytes(png(two_coloured(colour, colour)))


def test_pictures_go_in_and_are_found_changed_and_deleted(
    kind: type[Client] | type[AsyncClient], fresh_url: str, tmp_path: Path
) -> None:
    async def use(client: Any) -> None:
        photos = Photos(tmp_path).paths
        red = Picture(photos["red"], captions=["a red wall"], tags={"year": 2024}, taken_at="2024-05")
        answer = await settled(client.ingest([red, photos["green"], str(photos["blue"])]))
        assert [one["filename"] for one in answer["accepted"]] == ["red.png", "green.png", "blue.png"]
        job = await settled(client.wait(answer["job_id"], seconds_between=0.02))
        assert (job["state"], job["done"], job["failed"]) == ("done", 3, 0)
        assert (await settled(client.job(answer["job_id"]))) == job

        found = await settled(client.search_text("red", k=1, explain=True, model=None))
        (best,) = found["results"]
        assert (best["filename"], best["tags"]) == ("red.png", {"year": 2024})
        assert sum(best["explanation"]["contributions"]) == pytest.approx(best["score"])
        dated = {"taken_at": {"gte": "2024"}}
        only = await settled(client.search_text("blue", filter=dated, sort="date"))
        assert [hit["image_id"] for hit in only["results"]] == [best["image_id"]]
        likeness = await settled(client.search_similar(photos["red"], k=1))
        assert (likeness["target"], likeness["results"][0]["image_id"]) == ("images", best["image_id"])
        other = await settled(client.search_similar(image_id=best["image_id"]))
        assert best["image_id"] not in [hit["image_id"] for hit in other["results"]]
        besides = await settled(client.search_similar(image_id=best["image_id"], query="something blue"))
        assert (besides["query"], besides["unknown_words"]) == ("something blue", ["something"])
        said = await settled(client.search_captions(photos["red"].read_bytes(), filter={"tags": {"year": 2024}}))
        assert [hit["text"] for hit in said["results"]] == ["a red wall"]
        await look_at_one(client, best["image_id"])
        await change_one(client, best["image_id"])

    run(kind, fresh_url, use)


async def look_at_one(client: Any, image_id: str) -> None:
    """Everything there is to ask about a picture."""
    info = await settled(client.info(image_id))
    assert (info["state"], info["captions"], info["kind"]) == ("ready", ["a red wall"], "png")
    regions = await settled(client.regions(image_id))
    assert regions["regions"] == info["regions"]
    for name in ("picture", "original", "thumbnail"):
        shown = PIL.Image.open(io.BytesIO(await settled(getattr(client, name)(image_id))))
        assert shown.convert("RGB").getpixel((5, 5))[0] > 200  # type: ignore[index]
    drawn = PIL.Image.open(io.BytesIO(await settled(client.explain_png(image_id, "red & blue?", "fake"))))
    assert drawn.format == "PNG"


async def change_one(client: Any, image_id: str) -> None:
    """A change, a deletion and its end."""
    changed = await settled(client.edit(image_id, captions=["a wall"], tags={"year": None}, taken_at=None))
    assert (changed["captions"], changed["tags"], changed["taken_at"]) == (["a wall"], {}, None)
    assert changed["filename"] == "red.png"
    assert await settled(client.delete(image_id)) is None
    with pytest.raises(RequestRefused) as refused:
        await settled(client.info(image_id))
    assert (refused.value.status, refused.value.kind) == (404, "not-found")
    (gone,) = await settled(client.images(deleted=True))
    assert (gone["image_id"], gone["state"], gone["url"]) == (image_id, "deleted", None)
    assert image_id not in [one["image_id"] for one in await settled(client.images())]
    assert await settled(client.restore(image_id)) == changed
    assert await settled(client.images(deleted=True)) == []


def test_pages_are_asked_for_one_after_the_other(
    kind: type[Client] | type[AsyncClient], fresh_url: str, tmp_path: Path
) -> None:
    async def use(client: Any) -> None:
        pictures = [
            Picture(path, tags={"colour": name, f"is {name}": 1}) for name, path in Photos(tmp_path).paths.items()
        ]
        receipts = await settled(client.upload(pictures, max_files=2))
        assert [len(one.accepted) for one in receipts] == [2, 1]
        for one in receipts:
            await settled(client.wait(one.job_id, seconds_between=0.02))
        for size in (1, 2, 3, 100):
            listed = await settled(client.images(page_size=size))
            assert [image["filename"] for image in listed] == ["red.png", "green.png", "blue.png"]
            names = [tag["name"] for tag in await settled(client.tags(page_size=size))]
            assert names == ["colour", "is blue", "is green", "is red"]
        latest = await settled(client.images(sort="latest", filter={"tags": {"colour": ["red", "blue"]}}))
        assert [image["filename"] for image in latest] == ["blue.png", "red.png"]
        page = await settled(client.images_page(limit=2))
        rest = await settled(client.images_page(after=page["next"]))
        assert [image["filename"] for image in rest["images"]] == ["blue.png"]
        assert rest["next"] is None
        (tag,) = await settled(client.tags("colour", values=1))
        assert (tag["distinct_values"], len(tag["values"])) == (3, 1)
        assert [one["name"] for one in (await settled(client.tags_page("is r")))["tags"]] == ["is red"]

    run(kind, fresh_url, use)


def test_what_could_not_be_read_is_listed_and_tried_again(
    kind: type[Client] | type[AsyncClient], fresh_url: str
) -> None:
    async def use(client: Any) -> None:
        answer = await settled(client.ingest([Picture(CUT, "cut.png")]))
        states = await settled(client.follow(answer["job_id"], seconds_between=0.02))
        assert states[-1]["state"] == "done"
        assert all(before != after for before, after in pairwise(states))
        (failure,) = (await settled(client.failures()))["failures"]
        assert (failure["filename"], failure) == ("cut.png", states[-1]["failures"][0])
        again = await settled(client.retry(failure["image_id"]))
        assert again["job_id"] != answer["job_id"]
        assert (await settled(client.wait(again["job_id"], seconds_between=0.02)))["failed"] == 1

    run(kind, fresh_url, use)


def test_the_server_says_what_it_is(kind: type[Client] | type[AsyncClient], url: str) -> None:
    async def use(client: Any) -> None:
        assert await settled(client.is_alive())
        (model,) = (await settled(client.models()))["models"]
        assert (model["name"], model["state"]) == ("fake", "ready")
        assert (await settled(client.build("fake")))["name"] == "fake"
        with pytest.raises(RequestRefused, match="scam\\+x") as refused:
            await settled(client.build("scam+x"))
        assert refused.value.status == 404
        assert refused.value.document["known"] == ["fake"]
        assert str(refused.value.instance).startswith("urn:regard:request:")
        with pytest.raises(RequestRefused) as unready:  # no worker ever reported to this server
            await settled(client.ready())
        assert (unready.value.status, unready.value.kind) == (503, "not-ready")
        assert unready.value.document["checks"]

    run(kind, url, use)


def test_a_batch_of_which_nothing_is_accepted_does_not_end_an_upload(
    kind: type[Client] | type[AsyncClient], url: str, tmp_path: Path
) -> None:
    async def use(client: Any) -> None:
        odd = 'a "quoted" ёлка;.png'
        green = Picture(Photos(tmp_path).paths["green"], odd, captions=["a green wall"])
        bad, good = await settled(client.upload([Picture(b"no picture", "notes.txt"), green], max_files=1))
        assert bad.job_id is None
        assert [one["filename"] for one in bad.rejected] == ["notes.txt"]
        assert bad.rejected[0]["problem"]
        assert [one["filename"] for one in good.accepted] == [odd]
        image_id = good.accepted[0]["image_id"]
        assert (await settled(client.info(image_id)))["captions"] == ["a green wall"]
        with pytest.raises(RequestRefused) as refused:  # for any other reason it does end
            await settled(client.upload([Picture(green.content, tags={"": 1})]))
        assert refused.value.kind == "invalid-request"

    run(kind, url, use)


def test_a_wait_ends_in_time(
    kind: type[Client] | type[AsyncClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(client: Any) -> None:
        answer = await settled(client.ingest([Picture(CUT, "cut.png")]))
        with pytest.raises(JobUnfinished, match=answer["job_id"]):
            await settled(client.wait(answer["job_id"], seconds_between=1.0, timeout_s=0.5))

    monkeypatch.setattr(Library, "work", lambda *_: None)
    with running_server(tmp_path / "data") as idle:
        run(kind, idle, use)


def test_slow_answers_count_as_waiting() -> None:
    clock = Clock()
    wait = JobWait("a-job", 1.0, 10.0, clock)
    assert wait.pause() == 1.0
    clock.now += 9.5
    with pytest.raises(JobUnfinished, match="a-job was not done within 10 s"):
        wait.pause()


def run(kind: type[Client] | type[AsyncClient], url: str, use: Any) -> None:
    """Run the coroutine function with a client of the server, and close that."""

    async def whole() -> None:
        client = kind(url)
        try:
            await use(client)
        finally:
            await closed(client)

    asyncio.run(whole())
