"""Uploads to a server that takes less in one request than the client sends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from regard_client import AsyncClient, Client, Picture, RequestRefused
from tests.support.either_client import CLIENTS, closed, settled
from tests.support.pictures import encoded
from tests.support.running_server import running_server
from tests.support.worker_store import noise

LARGEST = 100_000  # bytes of a request


def picture(seed: int, side: int) -> bytes:
    """About three bytes a pixel."""
    return encoded(noise(seed, side, side), "PNG")


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.__name__)
def test_one_file_that_is_too_large_is_rejected_and_the_others_are_sent(
    kind: type[Client] | type[AsyncClient], tmp_path: Path
) -> None:
    contents = [picture(0, 110), picture(1, 110), picture(2, 110), picture(3, 300), picture(4, 110)]
    assert [len(content) > LARGEST for content in contents] == [False, False, False, True, False]
    assert sum(map(len, contents[:3])) > LARGEST  # no three of them go together
    pictures = [Picture(content, f"{number}.png") for number, content in enumerate(contents)]

    async def whole(url: str) -> Any:
        client = kind(url)
        try:
            return await settled(client.upload(pictures))
        finally:
            await closed(client)

    with running_server(tmp_path, max_body_bytes=LARGEST) as url:
        receipts = asyncio.run(whole(url))
    assert [[one["filename"] for one in receipt.accepted] for receipt in receipts] == [
        ["0.png", "1.png"],
        ["2.png"],
        [],
        ["4.png"],
    ]
    (rejected,) = receipts[2].rejected
    assert rejected["filename"] == "3.png"
    assert "MB" in rejected["problem"] or "bytes" in rejected["problem"]
    assert receipts[2].job_id is None


def test_a_limit_of_a_proxy_is_told_from_the_services_own() -> None:
    assert "larger than a proxy before it takes" in RequestRefused(413, {}).reason
    assert RequestRefused(413, {"detail": "The file is too large."}).reason == "The file is too large."
