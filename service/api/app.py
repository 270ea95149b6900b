"""The web application: its routes and middleware."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Lifespan

from service import VERSION
from service.api.access.authorization import AccessMiddleware
from service.api.middleware.guard import RequestGuard
from service.api.middleware.origin import RequestOrigin
from service.api.middleware.request import RequestMiddleware
from service.api.openapi.document import complete_document
from service.api.problem_handlers import HANDLERS
from service.api.problems import problem_responses
from service.api.query_parameters import refuse_unknown_parameters
from service.api.routes import (
    archive,
    docs,
    explanations,
    health,
    images,
    ingest,
    library,
    models,
    page,
    picture_changes,
    search,
    session,
)
from service.api.services import Services
from service.api.tracing import Tracing
from service.errors import InvalidRequest

LARGE_ANSWER_BYTES = 16_384  # from which answers are compressed; only those with explanations are so large
NOT_COMPRESSED = ("image/*", "application/zip", "text/event-stream")
BLOCKING_THREADS = 16  # besides one per upload, which holds it while another process locks the catalog


def create_app(services: Services, innermost: Callable[[ASGIApp], ASGIApp] | None = None) -> FastAPI:
    """The application of these services, which start and close with the server.

    `innermost` is a middleware around the routes, inside all others.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Python's own default has a handful of threads on a small machine, and a slow upload holds one.
        threads = ThreadPoolExecutor(services.settings.max_uploads + BLOCKING_THREADS)
        asyncio.get_running_loop().set_default_executor(threads)
        services.start()
        yield
        await services.close()

    app = create_routes(lifespan, services.tracing)
    app.state.services = services
    if innermost is not None:
        app.add_middleware(innermost)
    app.add_middleware(
        GZipMiddleware,
        minimum_size=LARGE_ANSWER_BYTES,
        compresslevel=1,  # already a third of the size; the best level takes ten times as long for another eighth
        exclude_content_types=NOT_COMPRESSED,
    )
    app.add_middleware(AccessMiddleware, services=services, routes=app.routes)
    app.add_middleware(RequestGuard, origin=RequestOrigin(services.settings.allowed_hosts))
    takes_files = ingest.PATH, search.IMAGE_PATH
    app.add_middleware(RequestMiddleware, services=services, takes_files=takes_files)  # the outermost
    return app


def create_routes(lifespan: Lifespan[FastAPI] | None = None, tracing: Tracing | None = None) -> FastAPI:
    """The application without services: enough to write its OpenAPI document."""
    app = RegardApp(
        title="Regard",
        version=VERSION,
        summary="Search your own pictures by what is in them, and see which region answered which word.",
        lifespan=lifespan,
        telemetry=(tracing or Tracing()).config,
        redirect_slashes=False,  # behind a proxy they would lose https and the public host
        docs_url=None,  # FastAPI's own page loads its script from another site
        redoc_url=None,
        exception_handlers=HANDLERS,
    )
    for routes in (
        page,
        docs,
        images,
        health,
        session,
    ):  # opened by browsers and probes, which may add query parameters
        app.include_router(routes.router)
    for routes in (search, explanations, ingest, library, archive, picture_changes, models):
        app.include_router(
            routes.router,
            dependencies=[Depends(refuse_unknown_parameters)],
            responses=problem_responses(InvalidRequest),
        )
    return app


class RegardApp(FastAPI):
    """FastAPI with an OpenAPI document that is completed once, before it is used."""

    _completing = threading.Lock()

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        with self._completing:
            is_made = self.openapi_schema is not None
            document = super().openapi()
            if not is_made:
                complete_document(document)
        return document
