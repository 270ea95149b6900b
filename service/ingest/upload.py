"""Uploads of any size, received as they come: files go to disk, memory stays flat, nothing is left behind."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from service.errors import TooLarge
from service.ingest.multipart import FormLimits, MultipartForm, MultipartReader, parse_boundary
from service.storage.incoming import upload_folder
from service.units import MB

CHUNK_BYTES = MB  # handed to a thread at a time: few enough to hold in memory, enough to be worth the switch
T = TypeVar("T")


@asynccontextmanager
async def receive_form(
    content_type: str,
    content_length: int | None,
    body: AsyncIterable[bytes],
    incoming: Path,
    limits: FormLimits,
) -> AsyncIterator[MultipartForm]:
    """The form of a request; its files lie below `incoming` until the block ends. Raises TooLarge where the body is
    over a limit, InvalidRequest where it is no such form."""
    check_length(content_length, limits)
    boundary = parse_boundary(content_type)
    async with (
        in_threads(upload_folder(incoming)) as folder,
        in_threads(MultipartReader(boundary, folder, limits)) as reader,
    ):
        waiting, waiting_bytes, total = [], 0, 0
        async for chunk in body:
            total += len(chunk)
            if total > limits.max_body_bytes:
                raise _too_large(limits)
            waiting.append(chunk)
            waiting_bytes += len(chunk)
            if waiting_bytes >= CHUNK_BYTES:
                await asyncio.to_thread(reader.feed, b"".join(waiting))
                waiting, waiting_bytes = [], 0
        await asyncio.to_thread(reader.feed, b"".join(waiting))
        yield reader.result()


def check_length(content_length: int | None, limits: FormLimits) -> None:
    """Raises TooLarge where a body is announced to be over the limit."""
    if content_length is not None and content_length > limits.max_body_bytes:
        raise _too_large(limits)


@asynccontextmanager
async def in_threads(work: AbstractContextManager[T]) -> AsyncIterator[T]:
    """The value of a block that is begun and ended in threads: thousands of files take a while to remove, and a reader
    waits for what a disk is still writing."""
    entered = await asyncio.to_thread(work.__enter__)
    try:
        yield entered
    finally:  # also where the request is cut off meanwhile
        await asyncio.shield(asyncio.to_thread(work.__exit__, None, None, None))


def _too_large(limits: FormLimits) -> TooLarge:
    if limits.max_files == 1:
        return TooLarge(f"The file is too large: it may have {limits.max_file_bytes / MB:g} MB; take a smaller one.")
    return TooLarge(f"A request may hold {limits.max_body_bytes / MB:g} MB; send the files in several requests.")
