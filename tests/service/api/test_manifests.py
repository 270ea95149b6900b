"""Manifests over HTTP: of pictures that are new, and of those that are there."""

import json
from typing import Any

import PIL.Image
import pytest

from index.catalog.changes.description_bounds import MOST_TAGS
from index.records import PictureChange
from service.api.schemas.resources import IngestAnswer
from service.ingest.picture_store import LocalPictureStore, TakenIn
from tests.support.described_pictures import described, jpeg
from tests.support.pictures import encoded
from tests.support.web_app import Api, checked, problem


class Sender:
    """Sends one picture again and again."""

    def __init__(self, api: Api) -> None:
        self.api, self.content = api, encoded(PIL.Image.new("RGB", (20, 10), "red"), "PNG")

    def send(self, **said: Any) -> dict[str, Any]:
        """The picture as it is listed once its regions are found."""
        form = {"images": ("a.png", self.content), "manifest": (None, json.dumps({"a.png": said}))}
        receipt = self.api.request("POST", "/ingest", files=form).json()
        assert receipt["rejected"] == []
        self.api.library.work(self.api.services.storage.originals, self.api.services.pool)
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


@pytest.mark.parametrize("said", [{"taken_at": "2020-01-01"}, {"default_taken_at": "2020-01-01"}])
def test_a_default_date_replaces_none_of_a_copy_sent_before_it(api: Api, sender: Sender, said: dict[str, str]) -> None:
    manifest = json.dumps({"a.png": said, "b.png": {"default_taken_at": "2021-01-01"}})
    form = [("images", (name, sender.content)) for name in ("a.png", "b.png")] + [("manifest", (None, manifest))]
    api.request("POST", "/ingest", files=form)
    (listed,) = api.get("/images").json()["images"]
    assert listed["taken_at"] == "2020-01-01T00:00:00Z"


def test_default_tags_of_a_picture_that_is_there_are_not_counted(sender: Sender) -> None:
    full = {f"tag {number}": number for number in range(MOST_TAGS)}
    sender.send(tags=full)
    assert sender.send(default_tags={"album": "May"})["tags"] == full


def test_a_file_whose_picture_another_request_describes_meanwhile_keeps_no_other_out(
    api: Api, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions = {name: [f"{name} {number}" for number in range(600)] for name in ("ours", "theirs")}
    image_id, take_in = sender.send()["image_id"], LocalPictureStore.take_in
    manifest = json.dumps({"a.png": {"captions": captions["ours"]}, "b.png": {"captions": ["blue"]}})
    blue = encoded(PIL.Image.new("RGB", (20, 10), "blue"), "PNG")

    def behind_another(self: LocalPictureStore, *arguments: Any) -> TakenIn:
        api.library.catalog.change(image_id, PictureChange(captions=captions["theirs"]))
        return take_in(self, *arguments)

    def send(*files: tuple[str, bytes]) -> Any:
        form = [("images", file) for file in files] + [("manifest", (None, manifest))]
        return api.request("POST", "/ingest", files=form)

    with monkeypatch.context() as patched:
        patched.setattr(LocalPictureStore, "take_in", behind_another)
        receipt = checked(send(("a.png", sender.content), ("b.png", blue)), 202, IngestAnswer)
    assert [one["filename"] for one in receipt["accepted"]] == ["b.png"]
    ((name, reason),) = [(one["filename"], one["problem"]) for one in receipt["rejected"]]
    assert name == "a.png"
    assert "would have 1200 captions, and may have 1000" in reason
    job = api.library.catalog.jobs.find(receipt["job_id"])
    assert job is not None
    assert job.total == 1
    api.library.catalog.change(image_id, PictureChange(captions=[]))
    monkeypatch.setattr(LocalPictureStore, "take_in", behind_another)
    manifest = json.dumps({"a.png": {"captions": captions["ours"]}})
    refused = problem(send(("a.png", sender.content)), 422, "nothing-accepted")
    assert refused["rejected"][0]["problem"] == reason
    assert len(api.library.catalog.jobs.page(None, 10)) == 2  # and none of what was refused whole


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
