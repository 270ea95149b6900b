"""A folder that is sent at every start of a service: each file once, and nothing that was deleted comes back."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from regard_client import Client
from service.auth.api_keys import create_key
from service.auth.permissions import Permission
from service.cli.commands.serve import _ingest_photos
from service.cli.ingesting.sending import send_files
from service.cli.ingesting.sending_once import send_folder_once
from service.cli.ingesting.sent_files import SentFiles, sent_files_path
from service.media.decode_pool import DecodeFailed, DecodePool
from tests.support.library import two_coloured
from tests.support.running_server import running_server

KEY = SecretStr(create_key("unused", Permission.WRITE, 0.0)[0])  # by a service without keys


@pytest.fixture(autouse=True)
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the records."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "regard"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for colour in ("red", "blue"):
        two_coloured(colour, colour).save(folder / f"{colour}.png")
    return folder


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with running_server(tmp_path / "data") as url, Client(url) as client:
        yield client


def start(client: Client, folder: Path) -> tuple[int, ...]:
    """The numbers of files at a start: new, stored already, left out, left deleted, rejected."""
    one = send_folder_once(client.url, folder, KEY, albums=True)
    assert (one.restored, one.failed) == (0, [])
    return one.accepted, one.duplicates, one.left_out, one.left_deleted, len(one.rejected)


def raised(fault: Exception) -> str:
    raise fault


def delete_red(client: Client) -> None:
    client.delete(next(one["image_id"] for one in client.images() if one["filename"] == "red.png"))


def test_only_new_and_changed_files_are_sent_again(client: Client, folder: Path) -> None:
    (folder / "bad.jpg").write_text("hello")
    assert start(client, folder) == (2, 0, 0, 0, 1)
    assert {one["tags"]["album"] for one in client.images()} == {"photos"}
    assert start(client, folder) == (0, 0, 3, 0, 0), "what was rejected is not reported again"
    assert len(client.jobs()["jobs"]) == 1
    two_coloured("red", "cyan").save(folder / "red.png")
    os.utime(folder / "bad.jpg", ns=(0, 1))
    assert start(client, folder) == (1, 0, 1, 0, 1)
    assert sorted(one["filename"] for one in client.images()) == ["blue.png", "red.png", "red.png"]


def test_deleted_pictures_stay_deleted_until_their_files_are_sent_on_purpose(
    client: Client, folder: Path, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(client, folder)
    delete_red(client)
    assert start(client, folder) == (0, 0, 1, 1, 0)
    os.utime(folder / "red.png", ns=(0, 1))
    assert start(client, folder) == (0, 0, 1, 1, 0)
    (folder / "walls").mkdir()
    moved = (folder / "red.png").rename(folder / "walls" / "other.png")
    assert start(client, folder) == (0, 0, 1, 1, 0)
    noted = capsys.readouterr().err.splitlines()
    assert {f"sent before under another name or date: {name}" for name in ("red.png", "walls/other.png")} <= {*noted}
    next(record.iterdir()).unlink()
    assert start(client, folder) == (0, 1, 0, 1, 0), "the service is asked"
    assert start(client, folder) == (0, 0, 1, 1, 0)
    assert send_files(client.url, [moved]).restored == 1
    assert start(client, folder) == (0, 0, 2, 0, 0)


def test_pictures_whose_deletion_is_final_stay_away_by_the_record(tmp_path: Path, folder: Path) -> None:
    with running_server(tmp_path / "data", delete_grace_s=0) as url, Client(url) as client:
        start(client, folder)
        delete_red(client)
        os.utime(folder / "red.png", ns=(0, 1))
        assert start(client, folder) == (0, 0, 2, 0, 0)


def test_a_record_that_was_cut_by_a_kill_costs_one_file(client: Client, folder: Path, record: Path) -> None:
    start(client, folder)
    (file,) = record.iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert [start(client, folder), start(client, folder)] == [(0, 1, 1, 0, 0), (0, 0, 2, 0, 0)]


def test_another_data_directory_is_sent_everything(tmp_path: Path, folder: Path, free_port: int) -> None:
    for data, expected in (("one", (2, 0, 0, 0, 0)), ("two", (2, 0, 0, 0, 0)), ("one", (0, 0, 2, 0, 0))):
        with running_server(tmp_path / data, port=free_port) as url, Client(url) as client:
            assert start(client, folder) == expected


def test_a_file_that_was_not_checked_in_time_is_sent_at_the_next_start(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [DecodeFailed("It took longer than 5 s.", final=False)] * 2
    monkeypatch.setattr(DecodePool, "inspect", lambda *_: raised(slow.pop()) if slow else "png")
    with running_server(tmp_path / "data") as url, Client(url) as client:
        assert [start(client, folder), start(client, folder)] == [(0, 0, 0, 0, 2), (2, 0, 0, 0, 0)]


def test_a_start_without_a_record_sends_everything_and_tells_the_way_back(
    client: Client, folder: Path, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record.parent.write_text("a file in the place of the folder")
    start(client, folder)
    delete_red(client)
    _ingest_photos(client.url, folder, KEY, albums=True)
    table, noted = capsys.readouterr()
    assert "cannot be written: Not a directory; XDG_STATE_HOME names" in noted
    assert "stay deleted: `regard ingest FILE` brings one back" in noted
    assert "\nthere already         1\ndeleted, and left so  1\nsearch at" in table


def test_what_was_sent_is_kept_apart_by_service_and_folders(tmp_path: Path, record: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    paths = {
        sent_files_path(url, folders) for url in ("http://a", "http://b") for folders in ([one], [two], [one, two])
    }
    assert len(paths) == 6
    assert {path.parent for path in paths} == {record}
    assert sent_files_path("http://a", [one, two]) == sent_files_path("http://a", [two, one])


@pytest.mark.parametrize("named", ["", "state", "./state"])
def test_a_folder_of_states_that_depends_on_where_one_stands_is_not_used(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", named)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sent_files_path("http://a", [tmp_path]).parent == tmp_path / ".local" / "state" / "regard"


def test_a_full_disk_below_the_record_stops_no_sending(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SentFiles, "_write", lambda self, entry: raised(OSError(28, "No space left on device")))
    assert start(client, folder) == (2, 0, 0, 0, 0)
    assert capsys.readouterr().err.count("cannot be recorded, and is sent again at the next start") == 1


def test_without_a_home_directory_all_files_are_sent(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: raised(RuntimeError("Could not determine home directory.")))
    assert start(client, folder) == (2, 0, 0, 0, 0)
    assert "All files are sent." in capsys.readouterr().err
