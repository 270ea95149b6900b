"""Manifests over HTTP: of pictures that are new, and of those that are there."""

import json
from typing import Any

import PIL.Image
import pytest

from service.ingest.described_pictures import MOST_TAGS
from tests.support.described_pictures import described, jpeg
from tests.support.pictures import encoded
from tests.support.web_app import Api


class Sender:
    """Sends one picture again and again."""

    def __init__(self, api: Api) -> None:
        self.api, self.content = api, encoded(PIL.Image.new("RGB", (20, 10), "red"), "PNG")

    def send(self, **said: Any) -> dict[str, Any]:
        """The picture as it is listed once its regions are found."""
        form = {"images": ("a.png", self.content), "manifest": (None, json.dumps({"a.png": said}))}
        receipt = self.api.request("POST", "/ingest", files=form).json()
        assert receipt["rejected"] == []
        self.api.library.work(self.api.services.originals, self.api.services.pool)
        (listed,) = self.api.get("/images").json()["images"]
        found: dict[str, Any] = listed
        return found


@pytest.fixture
def sender(api: Api) -> Sender:
    return Sender(api)


def test_an_album_that_was_taken_away_does_not_come_back(api: Api, sender: Sender) -> None:
    listed = sender.send(default_tags={"album": "May"})
    assert listed["tags"] == {"album": "May"}
    for changes in ({"album": None}, None):
        api.request("PATCH", f"/images/{listed['image_id']}", json={"tags": changes})
        assert sender.send(default_tags={"album": "May"})["tags"] == {}
    api.request("DELETE", f"/images/{listed['image_id']}")
    assert sender.send(default_tags={"album": "May"})["tags"] == {}, "one that is brought back is as it was"
    assert sender.send(tags={"album": "mine"}, default_tags={"album": "May"})["tags"] == {"album": "mine"}


def test_default_tags_of_a_picture_that_is_there_are_not_counted(sender: Sender) -> None:
    full = {f"tag {number}": number for number in range(MOST_TAGS)}
    sender.send(tags=full)
    assert sender.send(default_tags={"album": "May"})["tags"] == full


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        ([], (["of the file"], {"keywords": "a; b"}, "2020-01-02T03:04:05Z")),
        (["captions"], ([], {"keywords": "a; b"}, "2020-01-02T03:04:05Z")),
        (["tags"], (["of the file"], {}, "2020-01-02T03:04:05Z")),
        (["taken_at"], (["of the file"], {"keywords": "a; b"}, None)),
    ],
)
def test_in_decided_fields_the_file_has_no_say(sender: Sender, decided: list[str], expected: object) -> None:
    sender.content = jpeg(
        described("of the file", "a", "b").replace(
            b"<rdf:Description ", b'<rdf:Description exif:DateTimeOriginal="2020-01-02T03:04:05Z" '
        )
    )
    listed = sender.send(decided=decided)
    assert (listed["captions"], listed["tags"], listed["taken_at"]) == expected
