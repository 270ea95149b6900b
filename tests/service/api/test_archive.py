"""Archives of originals: exactly the uploaded bytes, for those who may write, and for a browser with a ticket."""

import asyncio
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from index.records import Image
from service.api.archive_response import ArchiveResponse, entries_of
from service.api.schemas.archives import ArchiveTicket
from service.auth.permissions import Permission
from tests.support.library import NOW, Library, two_coloured
from tests.support.web_app import Api, checked, png, problem, served

COLOURS = ["red", "green", "blue", "yellow"]


def upload(api: Api, named: dict[str, bytes], **headers: str) -> list[str]:
    files = [("images", one) for one in named.items()]
    answer = api.request("POST", "/ingest", files=files, headers=headers)
    return [one["image_id"] for one in answer.json()["accepted"]]


def pictures(num: int) -> list[bytes]:
    """Different files; the bytes after the end of a PNG are part of an original."""
    return [png(two_coloured("red", COLOURS[n % 4])) + b"%d" % n for n in range(num)]


def read(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert len(set(archive.namelist())) == len(archive.namelist())
        return {name: archive.read(name) for name in archive.namelist()}


def ask(api: Api, image_ids: Any, path: str = "/images/archive", **options: Any) -> Any:
    return api.request("POST", path, json={"image_ids": image_ids}, **options)


def test_an_archive_holds_the_originals_byte_for_byte(api: Api) -> None:
    contents = dict(zip(["a.png", "2024/summer/\N{DOG FACE} ä.png", "b.png"], pictures(3), strict=True))
    ids = upload(api, contents)
    answer = ask(api, [*ids[::-1], ids[0]])  # one twice
    assert answer.status_code == 200, answer.text
    assert read(answer.content) == contents
    assert [*read(answer.content)] == [*contents][::-1]
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"].startswith('attachment; filename="pictures-2')
    assert "content-encoding" not in answer.headers
    assert answer.headers["content-length"] == str(len(answer.content))  # else one cut short may look complete
    by_form = api.request("POST", "/images/archive", data={"image_ids": ids})
    assert read(by_form.content) == contents


def test_only_an_archive_itself_passes_through_a_frame_of_the_page(api: Api) -> None:
    """Safari asks, before it downloads, whether a frame may show the answer."""
    given, refused = ask(api, upload(api, {"a.png": pictures(1)[0]})), ask(api, ["0" * 32])
    assert (given.status_code, refused.status_code) == (200, 404)
    assert [one.headers["x-frame-options"] for one in (given, refused)] == ["SAMEORIGIN", "DENY"]
    policies = [one.headers["content-security-policy"] for one in (given, refused)]
    assert policies == [f"default-src 'none'; frame-ancestors {whose}" for whose in ("'self'", "'none'")]


def test_files_of_one_name_are_all_there(api: Api) -> None:
    contents = pictures(3)
    ids = [*upload(api, {"dog.png": contents[0]}), *upload(api, {"dog.png": contents[1]})]
    ids += upload(api, {"DOG.png": contents[2]})
    found = read(ask(api, ids).content)
    assert list(found.values()) == contents
    assert list(found) == ["dog.png", f"dog-{ids[1][:12]}.png", f"DOG-{ids[2][:12]}.png"]


def image(number: int, filename: str, taken_at: float | None = None) -> Image:
    return Image(
        image_id=f"{number:032x}", filename=filename, extension="jpg", num_bytes=1, state="ready", slot=0, width=1,
        height=1, extractor=None, taken_at=taken_at, added_at=NOW, deleted_at=None, captions=(), tags={},
    )  # fmt: skip


def test_no_file_is_where_another_has_its_folder() -> None:
    entries = entries_of([image(1, "a.jpg"), image(2, "A.jpg/b.jpg", 5.0), image(3, "c.jpg/b.jpg"), image(4, "c.jpg")])
    assert [entry.name for entry in entries] == ["a.jpg", f"{2:032x}.jpg", "c.jpg/b.jpg", f"c-{4:032x}"[:14] + ".jpg"]
    assert [entry.modified_at for entry in entries] == [NOW, 5.0, NOW, NOW]


def test_no_name_leads_out_of_its_folder_on_windows_either() -> None:
    entries = entries_of([image(1, r"..\..\a.jpg"), image(2, r"b\c.jpg"), image(3, "b_c.jpg")])
    assert [entry.name for entry in entries] == ["_._.._a.jpg", "b_c.jpg", f"b_c-{3:032x}"[:16] + ".jpg"]


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("Screenshot 12:30:05.png", "Screenshot 12_30_05.png"),
        ("C:a.jpg", "C_a.jpg"),  # of the current folder of a drive
        ('a?*|<>".jpg', "a______.jpg"),
        ("2024. /summer /a.jpg", "2024__/summer_/a.jpg"),
        ("a.jpg::$DATA", "a.jpg__$DATA.jpg"),  # a stream of a.jpg
        ("con/Aux.jpg", "_con/_Aux.jpg"),
        ("contact.jpg", "contact.jpg"),
        ("../a//./b.jpg", "a/b.jpg"),
    ],
)
def test_names_are_such_as_windows_can_have(filename: str, name: str) -> None:
    assert [entry.name for entry in entries_of([image(1, filename)])] == [name]


@pytest.mark.parametrize(
    "filename", ["犬" * 251 + ".jpg", "ü/" + "ü" * 253, "犬" * 255, "a" * 251 + ".jpg", "犬. " * 85]
)
def test_no_part_of_a_name_is_longer_than_disks_allow(filename: str, tmp_path: Path) -> None:
    names = [entry.name for entry in entries_of([image(number << 100, filename) for number in range(3)])]
    assert len(set(names)) == 3
    for name in names:
        assert name.startswith(filename[:2])
        assert name.endswith(".jpg")
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch(exist_ok=False)


def test_a_thousand_pictures_and_no_more(api: Api) -> None:
    contents = pictures(1000)
    ids = [
        one for n in range(0, 1000, 200) for one in upload(api, {f"{n}.png": contents[n] for n in range(n, n + 200)})
    ]
    assert list(read(ask(api, ids).content).values()) == contents
    many = [*ids, "f" * 32]
    for answer in (ask(api, many), api.request("POST", "/images/archive", data={"image_ids": many})):
        assert "image_ids" in problem(answer, 422, "invalid-request")["detail"]


@pytest.mark.parametrize("path", ["/images/archive", "/images/archive/ticket"])
def test_what_cannot_be_had_is_named(api: Api, path: str) -> None:
    here, deleted, lost = upload(api, dict(zip(["a.png", "b.png", "c.png"], pictures(3), strict=True)))
    api.request("DELETE", f"/images/{deleted}").raise_for_status()
    unknown = [f"{n:032x}" for n in range(4)]
    found = problem(ask(api, [here, deleted, *unknown], path), 404, "not-found")
    assert found["image_ids"] == [deleted, *unknown]
    assert f"are not there, or deleted: {deleted}" in found["detail"]
    assert found["detail"].endswith("and 2 more.")
    original = api.services.storage.originals.path(lost, "png")
    original.write_bytes(original.read_bytes()[:-1])
    assert problem(ask(api, [here, lost], path), 404, "not-found")["image_ids"] == [lost]
    original.unlink()
    assert problem(ask(api, [here, lost], path), 404, "not-found")["image_ids"] == [lost]
    for ids in ([], ["../../etc/passwd"], "a", [here, 5]):
        problem(ask(api, ids, path), 422, "invalid-request")
    problem(api.request("POST", path, content=b"{"), 422, "invalid-request")


def sent_until_gone(api: Api, response: ArchiveResponse) -> int:
    """The bytes that are sent to a client that hangs up after the first of them."""
    received = 0
    gone = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        nonlocal received
        received += len(message.get("body", b""))
        if received:
            gone.set()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def run(_: Any) -> None:
        await response({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)  # type: ignore[arg-type]

    api.together(run)
    return received


def test_a_client_that_hangs_up_ends_it(api: Api) -> None:
    ids = upload(api, {f"{n}.png": content for n, content in enumerate(pictures(200))})
    images = list(api.services.collection.pictures.images(ids).values())
    slots, opened = api.services.capacity.archives, list[Any]()

    class Noted:
        def missing(self, images: Any) -> list[str]:
            return []

        def open(self, image: Image) -> Any:
            assert slots.num_open == 1
            opened.append(api.services.collection.original_files.open(image))
            return opened[-1]

    response = ArchiveResponse(images, Noted(), slots, "a.zip")
    assert sent_until_gone(api, response) < sum(image.num_bytes for image in images) / 2
    assert len(opened) < len(ids) / 2
    assert all(file.closed for file in opened)
    assert slots.num_open == 0


def test_there_is_a_bound_on_archives_at_once(api: Api) -> None:
    ids = upload(api, {"a.png": pictures(1)[0]})
    api.services.capacity.archives.num_open = 8
    for path in ("/images/archive", "/images/archive/ticket"):
        assert ask(api, ids, path).headers["retry-after"] == "5"
    api.services.capacity.archives.num_open = 0
    assert ask(api, ids).status_code == 200


def test_without_keys_a_form_needs_no_ticket(api: Api) -> None:
    ids = upload(api, {"a.png": pictures(1)[0]})
    given = checked(ask(api, ids, "/images/archive/ticket"), 200, ArchiveTicket)
    own = {"origin": "null", "sec-fetch-site": "same-origin"}  # as of a page with `Referrer-Policy: no-referrer`
    answer = api.request("POST", given["url"], data={"image_ids": ids}, headers=own)
    assert answer.status_code == 200
    assert sum(map(len, read(answer.content).values())) == given["num_bytes"]
    elsewhere = {"origin": "null", "sec-fetch-site": "cross-site"}
    problem(api.request("POST", given["url"], data={"image_ids": ids}, headers=elsewhere), 403, "cross-site-request")


@pytest.fixture
def moment() -> list[float]:
    return [NOW]


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: list[float]) -> Iterator[Api]:
    with served(Library(tmp_path)) as api:
        monkeypatch.setattr(api.services.keys, "_clock", lambda: moment[0])
        yield api


def test_a_ticket_stands_for_the_key_for_a_minute_and_for_its_pictures(
    guarded: Api, moment: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    api = guarded
    writer, reader = (api.services.keys.create_own(one.value, one) for one in (Permission.WRITE, Permission.READ))
    api.services.keys.accept_own([], required=True)
    by_key = {"authorization": f"Bearer {writer}"}
    ids = upload(api, dict(zip(["a.png", "b.png"], pictures(2), strict=True)), **by_key)
    for path in ("/images/archive", "/images/archive/ticket"):
        problem(ask(api, ids, path), 401, "no-key")
        problem(ask(api, ids, path, headers={"authorization": f"Bearer {reader}"}), 403, "forbidden")
    session = api.request("POST", "/session", json={"key": writer}).cookies["regard_session"]
    api.client.cookies.clear()
    problem(ask(api, ids, headers={"cookie": f"regard_session={session}"}), 403, "forbidden")
    url = ask(api, ids, "/images/archive/ticket", headers=by_key).json()["url"]
    caplog.clear()
    assert len(read(api.request("POST", url, data={"image_ids": ids}).content)) == 2
    assert [f"image_ids={','.join(ids)}" in one.getMessage() for one in caplog.records if "audit" in one.msg] == [True]
    problem(api.request("POST", url, data={"image_ids": ids[:1]}), 401, "invalid-key")
    forged = url[:-1] + ("0" if url[-1] != "0" else "1")
    problem(api.request("POST", forged, data={"image_ids": ids}), 401, "invalid-key")
    longer = url.replace(f"_{int(NOW) + 60}_", f"_{int(NOW) + 99}_")
    assert longer != url
    problem(api.request("POST", longer, data={"image_ids": ids}), 401, "invalid-key")
    query = url.partition("?")[2]
    problem(api.request("GET", f"/images?{query}"), 401, "no-key")  # nor anywhere else
    moment[0] += 60
    problem(api.request("POST", url, data={"image_ids": ids}), 401, "invalid-key")
