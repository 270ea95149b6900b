"""Requests of any size read as they come: files go to disk, memory stays flat, nothing is left behind."""

import asyncio
import fcntl
import os
import secrets
import shutil
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from service.errors import TooLarge
from service.ingest.multipart import Form, FormLimits, FormReader, boundary_of
from service.settings import MB

__all__ = ["Form", "FormLimits", "remove_strays", "spooled"]

AT_ONCE = MB  # bytes handed to a thread together: few enough to hold, enough to be worth the way


@asynccontextmanager
async def spooled(
    content_type: str,
    content_length: int | None,
    body: AsyncIterable[bytes],
    incoming: Path,
    limits: FormLimits,
) -> AsyncIterator[Form]:
    """The form of a request, its files below `incoming` until the block ends. TooLarge, InvalidRequest."""
    if content_length is not None and content_length > limits.max_body_bytes:
        raise _too_large(limits)
    with _own_folder(incoming) as folder, FormReader(boundary_of(content_type), folder, limits) as reader:
        waiting, waiting_bytes, total = [], 0, 0
        async for chunk in body:
            total += len(chunk)
            if total > limits.max_body_bytes:
                raise _too_large(limits)
            waiting.append(chunk)
            waiting_bytes += len(chunk)
            if waiting_bytes >= AT_ONCE:
                await asyncio.to_thread(reader.feed, b"".join(waiting))
                waiting, waiting_bytes = [], 0
        await asyncio.to_thread(reader.feed, b"".join(waiting))
        yield reader.finished()


def remove_strays(incoming: Path) -> int:
    """Remove what ended processes left below `incoming`; requests being read keep theirs. How many."""
    removed = 0
    for folder in incoming.iterdir():
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
            removed += 1
        except BlockingIOError:  # a living process reads a request into it
            pass
        finally:
            os.close(handle)
    return removed


@contextmanager
def _own_folder(incoming: Path) -> Iterator[Path]:
    """A new folder below `incoming`, locked against `remove_strays` of any process, removed at the end."""
    while True:
        folder = incoming / secrets.token_hex(8)
        folder.mkdir()
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():  # else it was taken for a stray before it was locked
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _too_large(limits: FormLimits) -> TooLarge:
    return TooLarge(f"A request may hold {limits.max_body_bytes / MB:g} MB; send the files in several requests.")
