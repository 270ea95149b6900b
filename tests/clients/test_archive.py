"""Archives are saved as they come, and only whole."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from regard_client import AsyncClient, Client, RequestRefused, ServerUnreachable
from tests.support.either_client import CLIENTS, closed, settled


class Cut(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body whose connection breaks after its first part."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"PK"
        raise httpx.RemoteProtocolError("peer closed connection")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


@pytest.mark.parametrize("kind", CLIENTS)
def test_an_archive_is_saved_and_a_broken_one_is_not(kind: type[Client] | type[AsyncClient], tmp_path: Path) -> None:
    answers = [
        httpx.Response(200, stream=Cut()),
        httpx.Response(404, json={"detail": "no"}),
        httpx.Response(200, content=b"PKzip"),
    ]
    asked: list[object] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        return answers.pop(0)

    async def use() -> None:
        client = kind(transport=httpx.MockTransport(answer))
        path = tmp_path / "a.zip"
        path.write_bytes(b"older")
        for fault in (ServerUnreachable, RequestRefused):
            with pytest.raises(fault):
                await settled(client.archive(iter(["1", "2"]), path))
            assert path.read_bytes() == b"older"
        await settled(client.archive(["1", "2"], str(path)))
        assert path.read_bytes() == b"PKzip"
        await closed(client)

    asyncio.run(use())
    assert asked == [{"image_ids": ["1", "2"]}] * 3
    assert [one.name for one in tmp_path.iterdir()] == ["a.zip"]
