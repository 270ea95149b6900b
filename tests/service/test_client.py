"""The client against a server on a real socket."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.api.schemas.results import CaptionHit, PictureHit
from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from service.cli.sending import send_files
from service.client import MAX_BATCH_BYTES, MAX_BATCH_FILES, Client, RequestRefused, ServerUnreachable, upload_batches
from service.errors import UserError
from tests.support.library import two_coloured
from tests.support.redis_server import free_port
from tests.support.running_server import running_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("data")) as address:
        yield address


@pytest.fixture
def photos(tmp_path: Path) -> list[tuple[str, Path]]:
    files = []
    for colour in ("red", "green", "blue"):
        path = tmp_path / f"{colour}.png"
        two_coloured(colour, colour).save(path)
        files.append((path.name, path))
    return files


def test_a_folder_goes_in_and_is_found_again(url: str, photos: list[tuple[str, Path]]) -> None:
    with Client(url) as client:
        receipt = client.ingest(photos, {"red.png": {"captions": ["a red wall"], "tags": {"year": 2024}}})
        assert [one.filename for one in receipt.accepted] == ["red.png", "green.png", "blue.png"]
        *_, job = client.wait(receipt.job_id)
        assert (job.state, job.done, job.failed) == ("done", 3, 0)
        best = client.search_text("red", k=1, explain=True).results[0]
        assert (best.filename, best.tags) == ("red.png", {"year": 2024})
        assert best.explanation is not None
        alike = client.search_image(photos[0][1], target="images", k=1).results[0]
        assert isinstance(alike, PictureHit)
        assert alike.image_id == best.image_id
        caption = client.search_image(best.image_id, filter={"tags": {"year": 2024}}).results[0]
        assert isinstance(caption, CaptionHit)
        assert caption.text == "a red wall"
        assert client.models().models[0].name == "fake"
        assert len(client.regions(best.image_id).regions) == 4
        assert [image.filename for image in client.images(limit=2).images] == ["red.png", "green.png"]
        changed = client.edit(best.image_id, captions=["a wall"], tags={"year": None})
        assert (changed.captions, changed.tags, changed.filename) == (["a wall"], {}, "red.png")
        client.delete(best.image_id)
        assert client.restore(best.image_id) == changed
        client.delete(best.image_id)
        assert best.image_id not in {hit.image_id for hit in client.search_text("red").results}
        assert client.failures().failures == []


def test_a_refusal_says_what_the_server_said(url: str) -> None:
    with Client(url) as client:
        with pytest.raises(RequestRefused, match="No model is called 'scam'") as refused:
            client.search_text("red", model="scam")
        assert (refused.value.status, refused.value.document["known"]) == (404, ["fake"])
        with pytest.raises(RequestRefused, match="There is no job"):
            client.job("nope")


def test_nobody_at_the_address_is_said_in_words() -> None:
    with Client(f"http://127.0.0.1:{free_port()}") as client:
        assert not client.is_alive()
        with pytest.raises(ServerUnreachable, match="regard serve"):
            client.models()


class Overloaded(BaseHTTPRequestHandler):
    """Says 503 twice to whatever is sent, then what was sent."""

    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        answer = b'{"job_id": "1", "status_url": "/jobs/1", "accepted": [], "rejected": []}'
        self.send_response(503 if len(self.bodies) < 3 else 202)
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_an_overloaded_server_is_asked_again_after_the_time_it_names(photos: list[tuple[str, Path]]) -> None:
    slept: list[float] = []
    handler = type("Handler", (Overloaded,), {"bodies": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with Client(f"http://127.0.0.1:{server.server_port}", slept.append) as client:
            assert client.ingest(photos).job_id == "1"
        server.shutdown()
        thread.join()
    assert slept == [7.0, 7.0]
    assert len(handler.bodies) == 3
    for body in handler.bodies:  # all of every file, each time
        assert all(path.read_bytes() in body for _, path in photos)


def test_batches_are_of_reasonable_size_and_lose_nothing(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MAX_BATCH_BYTES)
    small = tmp_path / "small"
    small.write_bytes(b"1")
    files = [(str(n), large if n in {3, 4, 90} else small) for n in range(100)]
    parts = list(upload_batches(files))
    assert [file for part in parts for file in part] == files
    for part in parts:
        assert len(part) <= MAX_BATCH_FILES
        assert len(part) == 1 or sum(path.stat().st_size for _, path in part) <= MAX_BATCH_BYTES
    assert list(upload_batches([])) == []


def test_two_files_of_one_name_go_in_two_requests(tmp_path: Path) -> None:
    files = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "a.jpg"
        path.write_bytes(folder.encode())
        files.append(("a.jpg", path))
    assert list(upload_batches(files)) == [files[:1], files[1:]]


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
        stored = [image for image in client.images().images if image.width == 60 + albums]
        assert [image.captions for image in stored] == [["our beach"]] * 2
        assert [image.tags for image in stored] == [{"album": "Beach"} if albums else {}] * 2
        by_album = client.search_text("album beach", match="text").results
        assert len([hit for hit in by_album if hit.width == 60 + albums]) == 2 * albums


def test_the_key_of_the_environment_is_sent_and_never_in_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, stored = create_key("cli", Permission.READ, 0.0)
    change_keys(tmp_path / "keys.json", lambda keys: [stored])
    with running_server(tmp_path) as address:
        with Client.from_environment(address) as client, pytest.raises(RequestRefused, match="REGARD_API_KEY"):
            client.models()
        monkeypatch.setenv("REGARD_API_KEY", f" {key}\n")
        with Client.from_environment(address) as client:
            assert client.models().models[0].name == "fake"
            with pytest.raises(RequestRefused, match="needs a key with the permission write"):
                client.delete("0" * 32)
            assert key not in str(client._client.base_url)
            assert key not in repr(client._client)


@pytest.mark.parametrize("wrong", ["nonsense", "rgd_short", "Bearer x", "a\nb", "é"])
def test_a_malformed_key_is_refused_before_it_is_sent(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("REGARD_API_KEY", wrong)
    with pytest.raises(UserError, match="REGARD_API_KEY is no API key") as refused:
        Client.from_environment("http://127.0.0.1:1")
    assert wrong not in str(refused.value).removeprefix("REGARD_API_KEY")


def test_a_key_that_asks_too_often_waits_as_it_is_told() -> None:
    slept: list[float] = []
    handler = type("Handler", (TooOften,), {"asked": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        key = create_key("cli", Permission.READ, 0.0)[0]
        with Client(f"http://127.0.0.1:{server.server_port}", slept.append, SecretStr(key)) as client:
            assert client.failures().failures == []
        server.shutdown()
        thread.join()
    assert slept == [3.0]
    assert handler.asked == [f"Bearer {key}"] * 2


class TooOften(BaseHTTPRequestHandler):
    """Says 429 to the first request, then answers."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.headers["authorization"])
        answer = b'{"failures": []}'
        self.send_response(429 if len(self.asked) == 1 else 200)
        self.send_header("Retry-After", "3")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass
