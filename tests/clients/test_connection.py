"""Where a client asks and as whom: addresses, API keys, and what goes wrong on the way."""

import asyncio
import contextlib
import logging
import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard_client import (
    AsyncClient,
    Client,
    Misconfigured,
    RegardError,
    RequestRefused,
    ServerUnreachable,
    UnexpectedAnswer,
)
from regard_client.connection import server_url
from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from tests.support.running_server import running_server

KEY = create_key("me", Permission.READ, 0.0)[0]


def answering(status: int, **options: object) -> httpx.MockTransport:
    """A transport that answers every request alike."""
    return httpx.MockTransport(lambda request: httpx.Response(status, **options))  # type: ignore[arg-type]


@pytest.fixture
def answering_once() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a listener that ends the first connection, and the bytes that came over it."""
    received: list[bytes] = []

    def listen() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                received.append(connection.recv(2**16))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=listen)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", received
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://photos.local:8000/", "http://photos.local:8000"),
        ("photos.local:8000", "http://photos.local:8000"),
        ("localhost", "http://localhost"),
        (" nas.local ", "http://nas.local"),
        ("https://photos.example/regard/", "https://photos.example/regard"),
        (" [::1]:8000 ", "http://[::1]:8000"),
        (None, "http://127.0.0.1:8000"),
    ],
)
def test_an_address_may_be_given_or_set_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, given: str | None, meant: str
) -> None:
    with Client(given) as client:
        assert client.url == meant
    monkeypatch.setenv("REGARD_URL", given or "")
    with Client() as client:
        assert client.url == meant
    with Client("http://other:1") as client:  # an argument counts more
        assert client.url == "http://other:1"


@pytest.mark.parametrize(
    "wrong",
    ["ftp://photos.local", "http://", "http://a:99999", "http://a/?b=c", "http://a b", "::1", "a:b", "file:///a"],
)
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(Misconfigured, match="is no address") as refused:
        Client(wrong)
    assert repr(wrong) in str(refused.value)
    with pytest.raises(Misconfigured, match="is no address"):
        AsyncClient(wrong)


@given(st.from_regex(r"[a-z]{1,9}(\.[a-z]{2,9})?", fullmatch=True), st.integers(1, 65535))
def test_an_address_that_was_read_is_read_as_itself(host: str, port: int) -> None:
    read = server_url(f"{host}:{port}")
    assert read == f"http://{host}:{port}"
    assert server_url(read) == read


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(Misconfigured, match="api_key, or in REGARD_API_KEY") as refused:
        Client("http://me:secret@photos.local")
    assert "secret" not in str(refused.value)


def test_a_path_before_the_routes_is_kept() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        return httpx.Response(204)

    with Client("https://photos.example/regard", transport=httpx.MockTransport(answer)) as client:
        client.delete("a/b?c")
        for name in ("", ".", ".."):
            with pytest.raises(Misconfigured, match="neither an id nor a name"):
                client.delete(name)
    assert asked == ["/regard/images/a%2Fb%3Fc"]


def test_the_key_is_sent_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key, stored = create_key("reader", Permission.READ, 0.0)
    change_keys(tmp_path / "keys.json", lambda keys: [stored])
    caplog.set_level(logging.DEBUG)
    with running_server(tmp_path) as address:
        with Client(address) as client, pytest.raises(RequestRefused, match="REGARD_API_KEY") as refused:
            client.models()
        assert (refused.value.status, refused.value.kind) == (401, "no-key")
        monkeypatch.setenv("REGARD_API_KEY", f" {key}\n")
        for given in (None, key):
            with Client(address, given) as client:
                assert client.models()["models"][0]["name"] == "fake"
                with pytest.raises(RequestRefused, match="needs a key with the permission write"):
                    client.delete("0" * 32)
                assert key not in repr(client) + str(client) + repr(vars(client))
        assert asyncio.run(models_of(AsyncClient(address))) == ["fake"]
        with Client(address, "") as client, pytest.raises(RequestRefused):  # no key, whatever the environment says
            client.models()
    assert key[len("rgd_") + 13 :] not in caplog.text


async def models_of(client: AsyncClient) -> list[str]:
    """The names of the server's models."""
    async with client:
        assert KEY not in repr(client)
        return [model["name"] for model in (await client.models())["models"]]


@pytest.mark.parametrize("wrong", ["nonsense", "rgd_short", "Bearer x", "a\nb", "é"])
def test_a_malformed_key_is_refused_before_it_is_sent(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    with pytest.raises(Misconfigured, match="api_key is no API key") as refused:
        Client(api_key=wrong)
    assert wrong not in str(refused.value).removeprefix("api_key")
    monkeypatch.setenv("REGARD_API_KEY", wrong)
    with pytest.raises(Misconfigured, match="REGARD_API_KEY is no API key"):
        AsyncClient()


def test_nobody_at_the_address_is_said_in_words(free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}"
    with Client(url) as client:
        assert not client.is_alive()
        with pytest.raises(ServerUnreachable, match="regard serve"):
            client.models()
    with pytest.raises(ServerUnreachable, match="regard serve"):
        asyncio.run(models_of(AsyncClient(url)))


def test_a_service_that_tells_no_collection_is_an_earlier_one() -> None:
    with Client(transport=answering(200, json={"models": [], "migration": None})) as client:
        assert client.models().get("collection") is None


def test_an_answer_that_comes_too_late_is_said_in_words() -> None:
    def too_late(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("", request=request)

    with Client(transport=httpx.MockTransport(too_late)) as client, pytest.raises(ServerUnreachable, match="in time"):
        client.models()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answering(200, text="<html>"), "as Regard does"),
        (answering(200, json=[]), "there is no migration, no models"),
        (answering(200, json={"modells": [], "collection": None, "migration": None}), "there is no models"),
        (answering(301, headers={"Location": "https://photos.example/"}), "https://photos.example/"),
    ],
)
def test_another_program_at_the_address_is_noticed(answer: httpx.MockTransport, words: str) -> None:
    with Client(transport=answer) as client, pytest.raises(UnexpectedAnswer, match=words):
        client.models()
    with Client(transport=answer) as client:
        assert not client.is_alive()


def test_fields_of_later_servers_do_no_harm() -> None:
    with Client(transport=answering(200, json={"failures": [], "next": None, "more": 1})) as client:
        assert client.failures()["failures"] == []


@pytest.mark.parametrize("answer", [answering(502, text="<html>"), answering(502, json=["x"]), answering(502)])
def test_a_refusal_without_a_reason_names_its_status(answer: httpx.MockTransport) -> None:
    with Client(transport=answer) as client, pytest.raises(RequestRefused, match="status 502") as refused:
        client.models()
    assert (refused.value.instance, refused.value.kind, refused.value.document) == (None, None, {})


def test_errors_have_one_base_and_go_between_processes() -> None:
    document = {"detail": "No.", "instance": "urn:regard:request:1", "type": "urn:regard:problem:not-found"}
    error = pickle.loads(pickle.dumps(RequestRefused(404, document)))
    assert (error.status, error.document, error.instance, str(error)) == (404, document, document["instance"], "No.")
    for one in (RequestRefused, ServerUnreachable, UnexpectedAnswer, Misconfigured):
        assert issubclass(one, RegardError)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_proxy_of_the_environment_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: type[Client] | type[AsyncClient]
) -> None:
    monkeypatch.setenv("ALL_PROXY", "wrong://nowhere")
    with pytest.raises(Misconfigured, match="ALL_PROXY"):
        kind("http://photos.example")


def test_nothing_that_is_meant_for_this_machine_goes_to_a_proxy(
    monkeypatch: pytest.MonkeyPatch, answering_once: tuple[str, list[bytes]], free_port: int
) -> None:
    proxy, received = answering_once
    monkeypatch.setenv("HTTP_PROXY", proxy)
    for host in ("127.0.0.1", "localhost", "[::1]"):
        with Client(f"http://{host}:{free_port}", api_key=KEY) as client, pytest.raises(ServerUnreachable):
            client.models()
    assert received == []
    with Client("http://photos.example", api_key=KEY) as client, pytest.raises(RegardError):
        client.models()
    assert received[0].startswith(b"GET http://photos.example/models ")


@pytest.mark.parametrize("wrong", [{"min_score": float("nan")}, {"filter": {"tags": {"a": object()}}}])
def test_what_cannot_be_sent_is_refused(wrong: dict[str, object]) -> None:
    with Client(transport=answering(200)) as client, pytest.raises(Misconfigured, match="cannot be sent"):
        client.search_text("a dog", **wrong)  # type: ignore[arg-type]
    with Client(transport=answering(200)) as client, pytest.raises(Misconfigured, match="cannot be sent"):
        client.search_text("\ud800")
    with pytest.raises(Misconfigured, match="was closed"):
        client.models()
    with Client(transport=answering(200)) as client, pytest.raises(Misconfigured, match="are a list"):
        list(client.upload("photo.jpg"))
