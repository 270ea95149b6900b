"""PATCH, DELETE and restore over HTTP."""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from index.catalog.catalog import Catalog
from index.records import Image
from service.api.admission.request_threads import CHANGE_THREADS
from service.api.schemas.resources import ImageListed, ImagesAnswer, TagsAnswer
from service.api.schemas.results import ImageAnswer, TextAnswer
from tests.support.library import NOW, two_coloured
from tests.support.web_app import Api, checked, png, problem


@pytest.fixture
def image_id(api: Api) -> str:
    return api.library.add(
        "a",
        two_coloured("red", "blue"),
        captions=["red and blue", "a flag"],
        tags={"year": 2020, "place": "Oslo"},
        taken_at=NOW,
    )


def edit(api: Api, image_id: str, **changes: Any) -> Any:
    return checked(api.request("PATCH", f"/images/{image_id}", json=changes), 200, ImageListed)


def captions_found(api: Api, image_id: str) -> list[str]:
    answer = api.request("POST", "/search/image", files={"image_id": (None, image_id)})
    return [hit["text"] for hit in checked(answer, 200, ImageAnswer)["results"]]


def test_what_is_named_changes_and_the_rest_stays(api: Api, image_id: str) -> None:
    changed = edit(api, image_id, tags={"year": None, "who": "Ann"}, filename="flag.png")
    assert (changed["tags"], changed["filename"]) == ({"place": "Oslo", "who": "Ann"}, "flag.png")
    assert (changed["captions"], changed["state"]) == (["red and blue", "a flag"], "ready")
    assert changed["taken_at"] is not None
    assert edit(api, image_id) == changed
    cleared = edit(api, image_id, tags=None, taken_at=None, captions=None)
    assert (cleared["tags"], cleared["taken_at"], cleared["captions"]) == ({}, None, [])
    assert checked(api.get("/tags"), 200, TagsAnswer)["tags"] == []
    dated = edit(api, image_id, taken_at="2024-07-01T12:00:00+02:00")
    assert dated["taken_at"] == "2024-07-01T10:00:00Z"


def test_a_picture_has_so_many_tags_and_no_more(api: Api, image_id: str) -> None:
    for number in range(0, 998, 98):
        edit(api, image_id, tags={f"t{name}": name for name in range(number, min(number + 98, 998))})
    over = problem(api.request("PATCH", f"/images/{image_id}", json={"tags": {"one": 1}}), 422, "invalid-request")
    assert "would have 1001 tags, and may have 1000" in over["detail"]
    assert len(edit(api, image_id, tags={"t0": "other", "t1": None, "one": 1})["tags"]) == 1000


def test_a_picture_has_so_many_tags_and_no_more_however_many_tag_it_at_once(api: Api, image_id: str) -> None:
    async def tag(client: httpx.AsyncClient) -> list[httpx.Response]:
        names = [{f"t{number}": 1 for number in range(400 * turn, 400 * (turn + 1))} for turn in range(8)]
        return await asyncio.gather(*(client.patch(f"/images/{image_id}", json={"tags": tags}) for tags in names))

    refused = [answer for answer in api.together(tag) if answer.status_code != 200]
    assert len(refused) == 6
    for answer in refused:
        assert problem(answer, 422, "invalid-request")["errors"] == [
            {"field": "tags", "problem": "the picture would have 1202 tags, and may have 1000; null takes one away"}
        ]
    assert len(edit(api, image_id)["tags"]) == 802


def test_a_picture_that_somebody_deletes_once_it_is_changed_is_answered_as_it_was_changed(
    api: Api, image_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Catalog.change

    def changed_and_deleted(catalog: Catalog, changed: str, *arguments: Any) -> Image | None:
        try:
            return change(catalog, changed, *arguments)
        finally:
            catalog.delete(changed, NOW)

    monkeypatch.setattr(Catalog, "change", changed_and_deleted)
    answer = edit(api, image_id, tags={"year": 2021})
    assert (answer["tags"], answer["state"]) == ({"year": 2021, "place": "Oslo"}, "ready")
    problem(api.request("PATCH", f"/images/{image_id}", json={}), 404, "not-found")


def test_searches_use_a_change_at_once(api: Api, image_id: str) -> None:
    wanted = {"tags": {"year": 2021}}
    assert checked(api.text("red", filter=wanted), 200, TextAnswer)["results"] == []
    edit(api, image_id, tags={"year": 2021})
    (hit,) = checked(api.text("red", filter=wanted), 200, TextAnswer)["results"]
    assert hit["tags"] == {"year": 2021, "place": "Oslo"}


def test_captions_for_a_picture_are_the_new_ones(api: Api, image_id: str) -> None:
    assert set(captions_found(api, image_id)) == {"red and blue", "a flag"}
    edit(api, image_id, captions=["red and blue", "blue on red"])
    assert captions_found(api, image_id) == ["red and blue"]  # until the worker has read the other one
    api.library.catch_up()
    assert set(captions_found(api, image_id)) == {"red and blue", "blue on red"}
    edit(api, image_id, captions=[])
    assert captions_found(api, image_id) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"captions": [" "]}, "captions.0"),
        ({"captions": "one"}, "captions"),
        ({"captions": ["x" * 513]}, "captions.0"),
        ({"tags": {"n": True}}, "tags.n"),
        ({"tags": {"": 1}}, "tags"),
        ({"tags": {"caf\u00e9": 1, "cafe\u0301": 2}}, "tags"),
        ({"taken_at": "yesterday"}, "taken_at"),
        ({"taken_at": 5}, "taken_at"),
        ({"filename": None}, "filename"),
        ({"filename": ""}, "filename"),
        ({"colour": "red"}, "colour"),
        ([], "body"),
    ],
)
def test_a_change_that_cannot_be_made_names_its_field(api: Api, image_id: str, changes: Any, field: str) -> None:
    before = api.get("/images").json()
    refused = problem(api.request("PATCH", f"/images/{image_id}", json=changes), 422, "invalid-request")
    assert refused["errors"][0]["field"].startswith(field)
    assert api.get("/images").json() == before


def test_a_name_is_made_fit_to_be_shown(api: Api, image_id: str) -> None:
    assert edit(api, image_id, filename="a\u202egnp.exe")["filename"] == "a\N{REPLACEMENT CHARACTER}gnp.exe"


def test_a_deletion_is_undone_for_a_day(api: Api, image_id: str) -> None:
    before = api.get("/images").json()["images"]
    shown = checked(api.request("POST", f"/images/{image_id}/restore"), 200, ImageListed)
    assert [shown] == before  # it was not deleted
    assert api.request("DELETE", f"/images/{image_id}").status_code == 204
    assert checked(api.text("red"), 200, TextAnswer)["results"] == []
    problem(api.request("PATCH", f"/images/{image_id}", json={"captions": []}), 404, "not-found")
    assert checked(api.request("POST", f"/images/{image_id}/restore"), 200, ImageListed) == shown
    assert [hit["image_id"] for hit in checked(api.text("red"), 200, TextAnswer)["results"]] == [image_id]


def test_a_picture_that_somebody_deletes_while_it_comes_back_is_answered_as_it_came_back(
    api: Api, image_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = Catalog.restore

    def restored_and_deleted(catalog: Catalog, restored: str, kept_since: float) -> Image | None:
        try:
            return restore(catalog, restored, kept_since)
        finally:
            catalog.delete(restored, NOW)

    monkeypatch.setattr(Catalog, "restore", restored_and_deleted)
    for _ in range(2):  # it is not deleted at first, and later it is
        answer = checked(api.request("POST", f"/images/{image_id}/restore"), 200, ImageListed)
        assert (answer["image_id"], answer["state"]) == (image_id, "ready")


def test_what_was_deleted_is_listed_until_it_is_back_or_gone(api: Api, image_id: str) -> None:
    other = api.library.add("b", two_coloured("cyan", "blue"), tags={"place": "Lima"})
    for one in (image_id, other):
        assert api.request("DELETE", f"/images/{one}").status_code == 204
    moment = datetime.fromtimestamp(NOW, UTC).isoformat().replace("+00:00", "Z")

    def deleted(**query: Any) -> list[str]:
        page = checked(api.get("/images", deleted="true", **query), 200, ImagesAnswer)
        assert all(
            (one["state"], one["url"], one["thumbnail_url"], one["deleted_at"])
            == ("deleted", None, f"/images/{one['image_id']}/deleted-thumbnail", moment)
            for one in page["images"]
        )
        return [one["image_id"] for one in page["images"]]

    assert (deleted(), deleted(sort="latest")) == ([image_id, other], [other, image_id])
    assert deleted(filter='{"tags": {"place": "Oslo"}}') == [image_id]
    assert deleted(after=image_id) == [other]
    assert checked(api.get("/images"), 200, ImagesAnswer)["images"] == []
    assert "deleted_at" not in checked(api.request("POST", f"/images/{image_id}/restore"), 200, ImageListed)
    gone = api.library.add("c", two_coloured("white", "blue"))
    api.library.catalog.delete(gone, NOW - api.services.settings.delete_grace_s - 1)  # which no worker erased yet
    assert deleted() == deleted(sort="date") == [other]
    assert checked(api.get("/images", deleted="true"), 200, ImagesAnswer)["total"] == 1
    api.library.catalog.erasures.erase_deleted(NOW + 1e9, NOW, 10)
    assert deleted() == []


def test_a_deleted_picture_is_shown_small_as_long_as_it_can_be_brought_back(api: Api) -> None:
    sent = api.request("POST", "/ingest", files={"images": ("a.png", png(two_coloured("red", "blue")))})
    (image_id,) = [one["image_id"] for one in sent.json()["accepted"]]
    small = f"/images/{image_id}/deleted-thumbnail"
    problem(api.get(small), 404, "not-found")  # it is not deleted
    api.library.work(api.services.storage.originals, api.services.pool)
    api.library.catalog.delete(image_id, NOW)
    problem(api.get(f"/images/{image_id}/thumbnail"), 404, "not-found")
    shown = api.get(small)
    assert (shown.status_code, shown.headers["content-type"]) == (200, "image/jpeg")
    assert shown.headers["cache-control"] == "no-store"
    api.library.catalog.restore(image_id, NOW)
    api.library.catalog.delete(image_id, NOW - api.settings.delete_grace_s - 1)
    problem(api.get(small), 404, "not-found")
    problem(api.get(f"/images/{'0' * 32}/deleted-thumbnail"), 404, "not-found")


def test_a_deletion_that_is_too_old_is_final(api: Api, image_id: str) -> None:
    grace_s = api.settings.delete_grace_s
    api.library.catalog.delete(image_id, NOW - grace_s - 1)
    refused = problem(api.request("POST", f"/images/{image_id}/restore"), 404, "not-found")
    assert "more than 24 hours ago" in refused["detail"]
    api.library.catalog.erasures.erase_deleted(NOW, NOW, 10)
    refused = problem(api.request("POST", f"/images/{image_id}/restore"), 404, "not-found")
    assert "send the file again" in refused["detail"]


def test_a_file_sent_again_after_the_grace_brings_back_nothing(api: Api) -> None:
    files = {"images": ("a.png", (api.library.folder / "red.png"))}
    picture = files["images"][1]
    two_coloured("red", "red").save(picture)
    content = picture.read_bytes()

    def send(**manifest: Any) -> str:
        form = {"images": ("a.png", content), "manifest": (None, str(manifest).replace("'", '"'))}
        answer = api.request("POST", "/ingest", files=form)
        api.library.work(api.services.storage.originals, api.services.pool)
        found: str = answer.json()["accepted"][0]["image_id"]
        return found

    image_id = send(**{"a.png": {"captions": ["old"], "tags": {"album": "old", "place": "old"}}})
    api.library.catalog.delete(image_id, NOW - api.settings.delete_grace_s - 1)
    assert send(**{"a.png": {"default_tags": {"album": "new"}}}) == image_id
    (listed,) = api.get("/images").json()["images"]
    assert (listed["image_id"], listed["captions"], listed["state"]) == (image_id, [], "ready")
    assert listed["tags"] == {"album": "new"}
    assert api.get(f"/images/{image_id}").status_code == 200


def test_whoever_reads_does_not_wait_for_changes_that_cannot_begin(
    api: Api, image_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.dependencies.BUSY_SECONDS", 0.3)
    free, change = threading.Event(), Catalog.change
    monkeypatch.setattr(Catalog, "change", lambda *arguments: change(*arguments) if free.wait(90) else None)

    async def ask(client: httpx.AsyncClient) -> list[httpx.Response]:
        changes = [asyncio.create_task(client.patch(f"/images/{image_id}", json={})) for _ in range(50)]
        await asyncio.sleep(0)
        listed = asyncio.create_task(client.get("/images"))
        await asyncio.wait([listed], timeout=60)
        seen = listed.done()
        while sum(change.done() for change in changes) < len(changes) - CHANGE_THREADS:
            await asyncio.sleep(0.05)
        free.set()
        answers = await asyncio.gather(listed, *changes)
        assert seen
        return answers[1:]

    answers = api.together(ask)
    assert [answer.status_code for answer in answers].count(200) == CHANGE_THREADS
    refused = next(answer for answer in answers if answer.status_code != 200)
    assert "another process" in problem(refused, 503, "not-ready")["detail"]
