"""The guard in front of the routes: who calls, whether that one may, how often, and what is written down of it."""

import math
from collections.abc import Sequence

from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.access.audit import audited
from service.api.access.credentials import KEYLESS, Caller, identify_caller
from service.api.access.permissions import OPEN, needed_permission
from service.api.problems import problem_response
from service.api.services import Services
from service.auth.exposure import open_without_keys
from service.auth.permissions import Permission
from service.errors import MethodNotAllowed, NotFound, Problem, RateLimited


class AccessMiddleware:
    """Refuses requests before anything of their body is read.

    It matches routes by the very code of the router, and lets nothing pass that it did not match: what the router
    might make of such a path (a redirect, a fallback) is for `admin` alone. `scope["caller"]` is set for the routes.
    """

    def __init__(self, app: ASGIApp, services: Services, routes: Sequence[BaseRoute]) -> None:
        """`routes` are all routes of the application."""
        self._app = app
        self._services = services
        self._open = open_without_keys(services.settings)
        self._routes = list(iter_route_contexts(routes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no routes for web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            needed = self._needed(scope)
            scope["caller"] = None if needed is OPEN else await self._admit(scope, needed)
        except Problem as problem:
            await problem_response(problem, scope)(scope, receive, send)
            return
        if needed in (OPEN, Permission.READ) or "route" not in scope:
            await self._app(scope, receive, send)
            return
        with audited(scope, send) as send_audited:
            await self._app(scope, receive, send_audited)

    def _needed(self, scope: Scope) -> Permission | None:
        """The permission that the request's route needs. Raises NotFound where there is no such route, MethodNotAllowed
        where it has other methods."""
        # A route that answers GET may come to answer HEAD, here or in what is between this and the router.
        asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        allowed: set[str] = set()
        for route in self._routes:
            match, child = route.matches(asked)
            if match is Match.FULL:
                scope["route"] = route
                scope["path_params"] = child.get("path_params", {})
                return needed_permission(scope["method"], route.path or "")
            if match is Match.PARTIAL:
                allowed |= set(route.methods or ()) | ({"HEAD"} if "GET" in (route.methods or ()) else set())
        path = scope["path"]
        if allowed:
            listed = ", ".join(sorted(allowed))
            raise MethodNotAllowed(
                f"{scope['method']} {path} is not possible; allowed: {listed}.", headers={"Allow": listed}
            )
        try:
            caller = identify_caller(scope, self._services.keys, self._open)
        except Problem:
            caller = None
        if caller is None or not caller.permission.includes(Permission.ADMIN):
            raise NotFound(f"There is no route {path}; /docs lists all of them.")
        return Permission.ADMIN

    async def _admit(self, scope: Scope, needed: Permission) -> Caller:
        """The caller, who is allowed to make the request. Raises Unauthenticated, Forbidden or RateLimited for any
        other."""
        try:
            caller = identify_caller(scope, self._services.keys, self._open)
            if caller is KEYLESS:
                return caller
            assert caller.key_id is not None
            wait_s = await self._services.rate_limiter.take(caller.key_id)
            if wait_s > 0:
                raise RateLimited(
                    f"The key {caller.key_id} made too many requests; try again in {math.ceil(wait_s)} s.",
                    retry_after=math.ceil(wait_s),
                )
            if (refusal := caller.refusal(needed)) is not None:
                raise refusal
        except Problem as problem:
            self._services.metrics.refusals.labels(problem.kind).inc()
            raise
        return caller
