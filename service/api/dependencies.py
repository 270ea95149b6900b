"""Parts that routes share: services, uploaded forms, a query's model, threads, work that ends with its client."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from fastapi import Depends, Request

from index.catalog.database.connection import BUSY_SECONDS, still_locked
from service.api.services import Services
from service.errors import Problem, UnreadablePicture
from service.ingest.multipart import FormLimits, MultipartForm
from service.ingest.upload import check_length, receive_form
from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.search.query import OpenQuery
from service.storage.disk import refused_by_disk

P = ParamSpec("P")
T = TypeVar("T")


class ClientDisconnected(Problem):
    """The client hung up; nobody reads this."""

    status = 499
    kind = "gone"
    title = "The caller hung up"


async def get_services(request: Request) -> Services:  # a plain function would be given to a thread each time
    """The services that the application was created with."""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


ServicesDep = Annotated[Services, Depends(get_services)]


async def decoded_picture(services: Services, path: Path) -> DecodedPicture:
    """The picture in a file, from a decoder. Only a limited number of requests wait for one, whoever sends files
    meanwhile.

    Raises UnreadablePicture where it cannot be decoded, Overloaded where too many wait.
    """
    try:
        with services.capacity.decoding.taken():
            return await asyncio.wrap_future(services.pool.submit(path))
    except DecodeFailed as fault:
        raise UnreadablePicture(fault.reason) from fault


LONGEST_LENGTH = 25  # digits of a Content-Length that are read, which are too many for any body


def content_length(request: Request) -> int | None:
    """The Content-Length header in bytes; None where there is none."""
    length = request.headers.get("content-length", "")
    return int(length[:LONGEST_LENGTH]) if length.isascii() and length.isdecimal() else None


@asynccontextmanager
async def uploaded_form(
    request: Request, services: Services, limits: FormLimits, exempt_bytes: int = -1
) -> AsyncIterator[MultipartForm]:
    """The form in the request's body; its files are on disk until the block ends.

    A form of at most `exempt_bytes` is also received where the disk is nearly full, since it takes little room, and
    however many uploads arrive.

    Raises TooLarge or InvalidRequest for a body that is not taken, Overloaded while too many uploads arrive, and
    DiskFull where there is no room for this one.
    """
    services.storage.catalog.check_in_place()
    length = content_length(request)
    lies_here = not services.storage.catalog.read_only  # otherwise it is received elsewhere
    is_small = length is not None and length <= exempt_bytes
    check_length(length, limits)
    if lies_here and not is_small:
        services.storage.space.require(length)
    kind, incoming = request.headers.get("content-type", ""), services.storage.originals.incoming
    async with AsyncExitStack() as stack:
        with nullcontext() if is_small else services.capacity.uploads.taken():
            received = receive_form(kind, length, request.stream(), incoming, limits)
            with refused_by_disk():
                form = await stack.enter_async_context(received)
        yield form


async def cancel_on_disconnect(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client hangs up, or sends a body that is too large."""
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            if (fault := disconnect.exception()) is not None:
                raise fault
            raise ClientDisconnected("The caller hung up before the answer was ready.")
        return task.result()
    finally:
        task.cancel()
        disconnect.cancel()
        await asyncio.wait({task, disconnect})  # before the caller takes away what the work uses


async def load_at_first_use(request: Request, services: Services, query: OpenQuery[Any]) -> dict[str, float]:
    """Wait until the model of a query is loaded and its cost is measured; the milliseconds that it took, as a stage of
    the query, nothing where there was nothing to wait for. Raises ModelNotLoaded where its weights cannot be read,
    NotReady where the service ends.
    """
    if not query.awaits_model:
        return {}

    measure = partial(services.capacity.accelerator.enqueue, 0, services.collection.search.costs.measure)
    started = time.perf_counter()
    await cancel_on_disconnect(request, services.loader.load(query.model, measure))
    return {"load": (time.perf_counter() - started) * 1000}


async def _disconnect(request: Request) -> None:
    """Returns when the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def look_up(services: Services, work: Callable[..., T], *arguments: Any) -> T:
    """The result of a short piece of work, in threads that neither uploads nor scoring hold."""
    return await asyncio.get_running_loop().run_in_executor(services.capacity.threads.lookup, partial(work, *arguments))


def in_change_thread(route: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """A route that changes pictures, run in the threads for that: whoever only reads does not wait for a catalog that
    another process keeps. Refused as by SQLite where no thread is free for as long as one waits there."""

    @wraps(route)
    async def run(*given: P.args, **named: P.kwargs) -> T:
        services = named["services"]
        assert isinstance(services, Services)
        running = services.capacity.threads.changes.submit(partial(route, *given, **named))
        answer = asyncio.wrap_future(running)
        try:
            await asyncio.wait([answer], timeout=BUSY_SECONDS)
            if running.cancel():  # it has not begun
                raise still_locked()
            return await answer
        finally:
            running.cancel()

    return run
