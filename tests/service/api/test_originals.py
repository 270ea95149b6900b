"""Originals over HTTP: the uploaded bytes as they came, for those who may write."""

import io
from pathlib import Path
from typing import Any
from urllib.parse import quote

import PIL.Image
import pytest

from service.api.schemas.resources import IngestAnswer
from tests.support.library import two_coloured
from tests.support.pictures import encoded
from tests.support.web_app import Api, checked, png, problem

GPS = 0x8825


def upload(api: Api, name: str, content: bytes, detected: bool = True) -> str:
    answer = api.request("POST", "/ingest", files={"images": (name, content)})
    if detected:
        api.library.work(api.services.storage.originals, api.services.pool)
    image_id: str = checked(answer, 202, IngestAnswer)["accepted"][0]["image_id"]
    return image_id


def photograph() -> bytes:
    """A JPEG that tells where it was taken, with bytes after its end."""
    exif = PIL.Image.Exif()
    exif.get_ifd(GPS)[2] = (48.0, 51.0, 30.0)
    content = io.BytesIO()
    two_coloured("red", "blue").save(content, "JPEG", exif=exif)
    return content.getvalue() + b"a film of a phone"


@pytest.mark.parametrize("name", ["a.jpg", '2024/summer/\N{PILE OF POO} "b"; c\'.jpg'])
def test_an_original_is_the_uploaded_file_byte_for_byte(api: Api, name: str) -> None:
    content = photograph()
    image_id = upload(api, name, content)
    assert api.get(f"/images/{image_id}").content != content
    answer = api.get(f"/images/{image_id}/original")
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, content, "image/jpeg")
    last = name.rsplit("/", 1)[-1]
    by_ascii, by_utf8 = f'attachment; filename="{last}"', f"attachment; filename*=utf-8''{quote(last)}"
    assert answer.headers["content-disposition"] == (by_ascii if quote(last) == last else by_utf8)
    assert "sandbox" in answer.headers["content-security-policy"]


def test_an_original_comes_in_its_own_format(api: Api) -> None:
    content = encoded(two_coloured("red", "blue"), "TIFF")
    image_id = upload(api, "a.tif", content)
    answer = api.get(f"/images/{image_id}/original")
    assert (answer.content, answer.headers["content-type"]) == (content, "image/tiff")
    part = api.request("GET", f"/images/{image_id}/original", headers={"range": "bytes=2-9"})
    assert (part.status_code, part.content) == (206, content[2:10])
    again = api.request("GET", f"/images/{image_id}/original", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    shown = api.get(f"/images/{image_id}")
    assert shown.headers["etag"] != answer.headers["etag"], "the file to show is another one"


def test_an_original_is_there_before_and_without_regions(api: Api) -> None:
    content = png(two_coloured("red", "blue"))
    waiting = upload(api, "a.png", content, detected=False)
    assert api.get(f"/images/{waiting}/original").content == content
    api.library.catalog.queue.set_aside(waiting, "broken", 0.0)
    problem(api.get(f"/images/{waiting}"), 404, "not-found")
    assert api.get(f"/images/{waiting}/original").content == content


def test_a_deleted_picture_has_no_original_to_take(api: Api) -> None:
    content = png(two_coloured("red", "blue"))
    image_id = upload(api, "a.png", content)
    api.request("DELETE", f"/images/{image_id}")
    problem(api.get(f"/images/{image_id}/original"), 404, "not-found")
    api.request("POST", f"/images/{image_id}/restore")
    assert api.get(f"/images/{image_id}/original").content == content
    problem(api.get(f"/images/{'0' * 32}/original"), 404, "not-found")


def test_an_original_that_the_disk_has_lost_is_said_in_words(api: Api) -> None:
    image_id = upload(api, "a.png", png(two_coloured("red", "blue")))
    original = api.services.storage.originals.path(image_id, "png")
    original.write_bytes(original.read_bytes()[:-1])  # nobody should take this for the file that was uploaded
    refused = [problem(api.get(f"/images/{image_id}/original"), 404, "not-found")]
    assert "is damaged on the server" in refused[0]["detail"]
    original.unlink()
    refused.append(problem(api.get(f"/images/{image_id}/original"), 404, "not-found"))
    original.mkdir()
    refused.append(problem(api.get(f"/images/{image_id}/original"), 404, "not-found"))
    assert all("upload the same file again" in one["detail"] for one in refused)


def test_an_original_in_a_folder_that_may_not_be_entered_is_said_in_words(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_id, stat = upload(api, "a.png", png(two_coloured("red", "blue"))), Path.stat

    def forbidden(path: Path, **options: Any) -> Any:
        if path.stem == image_id:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", forbidden)
    problem(api.get(f"/images/{image_id}/original"), 404, "not-found")
