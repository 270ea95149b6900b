"""Authentication, authorization, rate limits and the audit log, in front of all routes."""

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

    It matches routes with the router's own code. A path without a match passes for `admin` alone, whatever the router
    might do with it (a redirect, a fallback). `scope["caller"]` is set for the routes.
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
        """The permission that the request's route needs. Raises NotFound for an unknown route, MethodNotAllowed for a
        method that it lacks."""
        # HEAD is matched as GET, which a middleware may turn it into before the router.
        matched = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        allowed: set[str] = set()
        for route in self._routes:
            match, child = route.matches(matched)
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
        """The caller, if it may make the request; otherwise raises Unauthenticated, Forbidden or RateLimited."""
        try:
            caller = identify_caller(scope, self._services.keys, self._open)
            if caller is KEYLESS:
                return caller
            assert caller.key_id is not None
            wait_s = await self._services.capacity.rate_limiter.take(caller.key_id)
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
