"""Folders sent to a server on a real socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from regard_client import Client
from service.cli.sending import send_files
from tests.support.library import two_coloured
from tests.support.running_server import running_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("data")) as address:
        yield address


@pytest.mark.parametrize("albums", [True, False])
def test_folders_become_albums_unless_that_is_turned_off(url: str, tmp_path: Path, albums: bool) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text('{"image": "Beach/a.png", "captions": ["our beach"]}\n')
    for folder, colour in (("one/Beach", "red"), ("two/Beach", "cyan")):  # two pictures of one name
        (tmp_path / folder).mkdir(parents=True)
        two_coloured(colour, colour, width=60 + albums).save(tmp_path / folder / "a.png")
    summary = send_files(url, [tmp_path / "one", tmp_path / "two"], captions, albums=albums)
    assert (summary.accepted, summary.rejected, summary.failed) == (2, [], [])
    with Client(url) as client:
        stored = [image for image in client.images() if image["width"] == 60 + albums]
        assert [image["captions"] for image in stored] == [["our beach"]] * 2
        assert [image["tags"] for image in stored] == [{"album": "Beach"} if albums else {}] * 2
        by_album = client.search_text("album beach", match="text")["results"]
        assert len([hit for hit in by_album if hit["width"] == 60 + albums]) == 2 * albums
