"""What routes share: the services behind them, and waiting for work only as long as somebody listens."""

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from service.api.services import Services
from service.errors import Problem
from service.ingest.multipart import Form, FormLimits
from service.ingest.spool import spooled

T = TypeVar("T")


class Gone(Problem):
    """The caller hung up; nobody reads this."""

    status = 499
    kind = "gone"
    title = "The caller hung up"


def services_of(request: Request) -> Services:
    """The services the application was made with."""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


Using = Annotated[Services, Depends(services_of)]


def content_length(request: Request) -> int | None:
    """Bytes that the body is said to have, where that is said."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None


def uploaded(request: Request, services: Services, limits: FormLimits) -> AbstractAsyncContextManager[Form]:
    """The form that is being sent, its files on disk until the block ends. TooLarge, InvalidRequest."""
    return spooled(
        request.headers.get("content-type", ""),
        content_length(request),
        request.stream(),
        services.originals.incoming,
        limits,
    )


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the caller hangs up. The body must have been read."""
    task = asyncio.ensure_future(work)
    hang_up = asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait({task, hang_up}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone("The caller hung up before the answer was ready.")
        return task.result()
    finally:
        task.cancel()
        hang_up.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
