"""Stored pictures over HTTP: bytes, thumbnails, regions, lists, tags, deletion."""

import contextlib
import io
from pathlib import Path

import PIL.Image
import pytest
from fastapi import Request
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from service.api.openapi.headers import HEADERS
from service.api.routes.images import send_file
from service.api.routes.search import SMALL_FORM_BYTES
from service.api.schemas.resources import ImagesAnswer, IngestAnswer, RegionsAnswer, TagsAnswer
from service.api.schemas.results import TextAnswer
from service.media.decode_pool import DecodePool
from tests.support.api_document import declared_responses
from tests.support.library import two_coloured
from tests.support.pictures import encoded
from tests.support.web_app import Api, checked, png, problem

GPS, MAKER_NOTE, MAKE = 0x8825, 0x927C, 0x010F
COLOURS = ["red", "green", "blue", "yellow", "white"]


def ingest(api: Api, *files: tuple[str, bytes]) -> list[str]:
    answer = api.request("POST", "/ingest", files=[("images", file) for file in files])
    api.library.work(api.services.storage.originals, api.services.pool)
    return [one["image_id"] for one in checked(answer, 202, IngestAnswer)["accepted"]]


def photograph() -> bytes:
    """A JPEG that tells where and with what it was taken."""
    exif = PIL.Image.Exif()
    exif[MAKE] = "A maker with a name"
    exif.get_ifd(GPS)[2] = (48.0, 51.0, 30.0)
    content = io.BytesIO()
    two_coloured("red", "blue", 640, 480).save(content, "JPEG", exif=exif)
    return content.getvalue()


def test_a_picture_is_shown_without_what_it_tells_about_its_maker(api: Api) -> None:
    content = photograph()
    (image_id,) = ingest(api, ("a.jpg", content))
    shown = api.get(f"/images/{image_id}")
    assert (shown.status_code, shown.headers["content-type"]) == (200, "image/jpeg")
    assert shown.headers["x-content-type-options"] == "nosniff"
    with PIL.Image.open(io.BytesIO(shown.content)) as picture, PIL.Image.open(io.BytesIO(content)) as original:
        assert dict(picture.getexif()) == {}
        assert original.getexif()[MAKE]
        assert picture.tobytes() == original.tobytes()
    assert b"maker" not in shown.content
    thumbnail = api.get(f"/images/{image_id}/thumbnail")
    assert (thumbnail.status_code, thumbnail.headers["content-type"]) == (200, "image/jpeg")
    with PIL.Image.open(io.BytesIO(thumbnail.content)) as picture:
        assert max(picture.size) == 320


def test_a_copy_that_is_still_right_is_not_sent_again(api: Api) -> None:
    (image_id,) = ingest(api, ("a.png", png(two_coloured("red", "blue"))))
    for path in (f"/images/{image_id}", f"/images/{image_id}/original", f"/images/{image_id}/thumbnail"):
        first = api.get(path)
        kept = first.headers["cache-control"].split(", ")
        assert "private" in kept  # what only some may see is kept by no proxy
        assert "public" not in kept
        assert "max-age=3600" in kept
        again = api.request("GET", path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert api.request("GET", path, headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize("kind", ["", "/original", "/thumbnail"])
@pytest.mark.parametrize(
    ("status", "sent"),
    [(200, {}), (206, {"range": "bytes=0-9"}), (304, {"if-none-match": "*"}), (416, {"range": "bytes=9999999-"})],
)
def test_a_file_comes_with_the_headers_that_are_told(api: Api, kind: str, status: int, sent: dict[str, str]) -> None:
    (image_id,) = ingest(api, ("a.png", png(two_coloured("red", "blue"))))
    answer = api.request("GET", f"/images/{image_id}{kind}", headers=sent)
    assert answer.status_code == status
    document = api.get("/openapi.json").json()
    told = declared_responses(document["paths"][f"/images/{{image_id}}{kind}"]["get"], document)[str(status)]
    assert set(told["headers"]) == {name for name in HEADERS if name in answer.headers}


def test_regions_are_listed_with_their_words(api: Api) -> None:
    (image_id,) = ingest(api, ("a.png", png(two_coloured("red", "blue", 40, 20))))
    found = checked(api.get(f"/images/{image_id}/regions"), 200, RegionsAnswer)
    assert (found["width"], found["height"], found["extractor"]) == (40, 20, "fake-extractor")
    assert [region["label"] for region in found["regions"]] == ["picture", "left", "right", "centre"]
    assert found["regions"][2]["box"] == [20, 0, 40, 20]


def test_pictures_are_listed_page_by_page_in_order_of_arrival(api: Api) -> None:
    ids = ingest(api, *((f"{colour}.png", png(two_coloured(colour, colour))) for colour in COLOURS))
    pages, after = [], None
    while True:
        query = {"limit": 2} | ({} if after is None else {"after": after})
        page = checked(api.get("/images", **query), 200, ImagesAnswer)
        pages.append([image["image_id"] for image in page["images"]])
        if (after := page["next"]) is None:
            break
    assert pages == [ids[:2], ids[2:4], ids[4:]]
    first = checked(api.get("/images"), 200, ImagesAnswer)["images"][0]
    assert (first["filename"], first["state"], first["width"], first["taken_at"]) == ("red.png", "ready", 40, None)
    assert problem(api.get("/images", after="nope"), 422, "invalid-request")["errors"][0]["field"] == "after"
    too_long = problem(api.get("/images", after="0" * 129), 422, "invalid-request")
    assert too_long["detail"] == "after: must have at most 128 characters"
    assert problem(api.get("/images", limit=0), 422, "invalid-request")["errors"][0]["field"] == "limit"


def test_a_picture_that_waits_is_listed_but_has_no_regions_yet(api: Api) -> None:
    answer = api.request("POST", "/ingest", files={"images": ("a.png", png(two_coloured("red", "red")))})
    image_id = answer.json()["accepted"][0]["image_id"]
    (listed,) = checked(api.get("/images"), 200, ImagesAnswer)["images"]
    assert (listed["state"], listed["width"]) == ("queued", None)
    assert "waiting" in problem(api.get(f"/images/{image_id}/regions"), 404, "not-found")["detail"]
    with PIL.Image.open(io.BytesIO(api.get(f"/images/{image_id}/thumbnail").content)) as thumbnail:
        assert thumbnail.size == (40, 20)


def test_a_deleted_picture_is_gone_until_it_comes_again(api: Api) -> None:
    content = png(two_coloured("red", "red"))
    image_id, other = ingest(api, ("a.png", content), ("b.png", png(two_coloured("blue", "blue"))))
    assert len(checked(api.text("red"), 200, TextAnswer)["results"]) == 2
    deleted = api.request("DELETE", f"/images/{image_id}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    problem(api.request("DELETE", f"/images/{image_id}"), 404, "not-found")
    for path in ("", "/thumbnail", "/regions"):
        problem(api.get(f"/images/{image_id}{path}"), 404, "not-found")
    assert [hit["image_id"] for hit in checked(api.text("red"), 200, TextAnswer)["results"]] == [other]
    assert [image["image_id"] for image in checked(api.get("/images"), 200, ImagesAnswer)["images"]] == [other]
    assert ingest(api, ("again.png", content)) == [image_id]
    assert len(checked(api.text("red"), 200, TextAnswer)["results"]) == 2


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_a_file_that_is_missing_on_the_server_is_said_in_words(api: Api, kind: str) -> None:
    content = encoded(two_coloured("red", "red"), kind)
    (image_id,) = ingest(api, ("a", content))
    image = api.library.catalog.image(image_id)
    assert image is not None
    shown = api.services.storage.originals.find_stripped(image_id, image.extension)
    assert shown is not None
    shown.unlink()
    thumbnail = api.services.storage.originals.thumbnail(image_id)
    api.services.storage.originals.path(image_id, image.extension).unlink()
    refused = problem(api.get(f"/images/{image_id}"), 404, "not-found")
    assert "original of picture" in refused["detail"]
    assert "upload the same file again" in refused["detail"]
    assert api.get(f"/images/{image_id}/thumbnail").status_code == 200
    thumbnail.unlink()
    assert "original of picture" in problem(api.get(f"/images/{image_id}/thumbnail"), 404, "not-found")["detail"]
    assert ingest(api, ("a", content)) == [image_id]
    assert api.get(f"/images/{image_id}").status_code == 200
    assert api.get(f"/images/{image_id}/thumbnail").status_code == 200


def test_tags_in_use_are_listed_with_their_values(api: Api) -> None:
    for number, colour in enumerate(COLOURS):
        api.library.add(colour, two_coloured(colour, colour), tags={"year": 2020 + number % 2, "who": "5"})
    api.library.catalog.delete(api.library.add("gone", two_coloured("cyan", "cyan"), tags={"secret": 1}), 0.0)
    assert checked(api.get("/tags"), 200, TagsAnswer)["tags"] == [
        {"name": "who", "pictures": 5, "distinct_values": 1, "values": [{"value": "5", "pictures": 5}]},
        {
            "name": "year",
            "pictures": 5,
            "distinct_values": 2,
            "values": [{"value": 2020, "pictures": 3}, {"value": 2021, "pictures": 2}],
        },
    ]


@pytest.mark.parametrize("image_id", ["0" * 32, "nope", "%00", "..%2f..%2fetc%2fpasswd", "%F0%9F%90%95"])
def test_an_unknown_picture_is_not_found(api: Api, image_id: str) -> None:
    for path in ("", "/thumbnail", "/regions"):
        problem(api.get(f"/images/{image_id}{path}"), 404, "not-found")
    problem(api.request("DELETE", f"/images/{image_id}"), 404, "not-found")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF"])
def test_showing_a_picture_touches_no_decoder(api: Api, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (image_id,) = ingest(api, ("a", encoded(two_coloured("red", "blue"), kind)))

    def touch(*_: object, **__: object) -> None:
        raise AssertionError("a decoder was touched")

    for owner, name in ((PIL.Image, "open"), (PIL.Image.Image, "load"), (DecodePool, "_send")):
        monkeypatch.setattr(owner, name, touch)
    answer = api.get(f"/images/{image_id}")
    monkeypatch.undo()
    assert answer.status_code == 200
    expected = "image/jpeg" if kind in ("TIFF", "AVIF") else f"image/{kind.lower()}"
    assert answer.headers["content-type"] == expected
    with PIL.Image.open(io.BytesIO(answer.content)) as picture:
        assert picture.size == (40, 20)


def test_taking_a_picture_in_opens_it_in_another_process_alone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def touch(*_: object, **__: object) -> None:
        raise AssertionError("a picture was opened in the web process")

    content = png(two_coloured("red", "blue"))
    monkeypatch.setattr(PIL.Image, "open", touch)
    answer = api.request("POST", "/ingest", files={"images": ("a.png", content)})
    assert len(checked(answer, 202, IngestAnswer)["accepted"]) == 1


@pytest.mark.parametrize("part", ["", "/thumbnail"])
@pytest.mark.parametrize("left", [None, b""])  # nothing, or what a power cut left of it
def test_a_file_that_is_not_there_is_made_once(api: Api, part: str, left: bytes | None) -> None:
    (image_id,) = ingest(api, ("a.tif", encoded(two_coloured("red", "blue"), "TIFF")))
    originals = api.services.storage.originals
    path = originals.thumbnail(image_id) if part else originals.find_stripped(image_id, "tif")
    assert path is not None
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    first = api.get(f"/images/{image_id}{part}")
    assert (first.status_code, first.headers["content-type"]) == (200, "image/jpeg")
    assert path.read_bytes() == first.content
    with PIL.Image.open(path) as picture:
        assert picture.size == (40, 20)


def test_many_who_want_a_picture_that_must_be_made_are_told_to_come_back(api: Api) -> None:
    (image_id,) = ingest(api, ("a.png", png(two_coloured("red", "blue"))))
    path = api.services.storage.originals.find_stripped(image_id, "png")
    assert path is not None
    path.unlink()
    waiting = api.services.picture_files._waiting
    taken = 0
    while waiting.acquire(blocking=False):
        taken += 1
    answer = api.get(f"/images/{image_id}")
    problem(answer, 503, "overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    waiting.release(taken)
    assert api.get(f"/images/{image_id}").status_code == 200


def test_uploads_over_the_bound_are_told_to_come_back(api: Api) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(api.settings.max_uploads):
            stack.enter_context(api.services.capacity.uploads.taken())
        files = {"images": ("a.png", png(two_coloured("red", "red")) + bytes(SMALL_FORM_BYTES))}
        for path, name in (("/ingest", "images"), ("/search/image", "image")):
            answer = api.request("POST", path, files={name: files["images"]})
            problem(answer, 503, "overloaded")
            assert int(answer.headers["retry-after"]) >= 1
        assert api.text("red").status_code == 200
        asked = {"image_id": (None, api.library.add("red", two_coloured("red", "red"))), "target": (None, "images")}
        assert api.request("POST", "/search/image", files=asked).status_code == 200  # which sends no picture
    assert api.request("POST", "/ingest", files=files).status_code == 202


def test_a_file_whose_name_is_erased_before_it_is_sent_is_sent_whole(tmp_path: Path) -> None:
    path, content = tmp_path / "picture.jpg", bytes(range(256)) * 1000
    path.write_bytes(content)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = send_file(Request(scope, receive), path, "image/jpeg", {"ETag": '"a"'})
        path.unlink()
        await response(scope, receive, send)

    answer = TestClient(app).get("/")
    assert (answer.status_code, answer.content) == (200, content)
    with pytest.raises(FileNotFoundError):  # which its routes answer with 404
        TestClient(app).get("/")
