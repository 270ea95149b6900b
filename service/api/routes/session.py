"""The session of a browser, whose cookie authorizes pictures, since they are requested without a key header."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from service.api.access.credentials import KEYLESS, SESSION_COOKIE, Caller, identify_caller, sign_in
from service.api.dependencies import ServicesDep
from service.api.problems import problem_responses
from service.api.schemas.session import SessionAnswer, SessionRequest
from service.auth.exposure import open_without_keys
from service.auth.permissions import Permission
from service.errors import InvalidKey, InvalidRequest, NotReady, Problem, TooLarge, Unauthenticated

router = APIRouter(prefix="/session", tags=["access"])


@router.get("", operation_id="get_session", summary="Who am I?", responses=problem_responses(NotReady, Problem))
async def get_session(request: Request, services: ServicesDep) -> SessionAnswer:
    """Whether a key is needed, and what the caller's key allows. Open to everybody, since the page asks this first."""
    try:
        caller = identify_caller(request.scope, services.keys, open_without_keys(services.settings))
    except Unauthenticated:
        caller = None
    return session_answer(caller, services.storage.catalog.read_only)


@router.post(
    "",
    operation_id="sign_in",
    summary="Let this browser read",
    responses=problem_responses(InvalidKey, InvalidRequest, TooLarge, NotReady, Problem),
)
async def create_session(
    body: Annotated[SessionRequest, Body()], request: Request, response: Response, services: ServicesDep
) -> SessionAnswer:
    """A cookie that scripts cannot read and that ends with the browser. It may only read, whatever the key may do."""
    caller, token = sign_in(body.key.get_secret_value(), services.keys)
    response.set_cookie(SESSION_COOKIE, token, secure=is_encrypted(request), httponly=True, samesite="strict")
    return session_answer(caller, services.storage.catalog.read_only)


@router.delete(
    "", operation_id="sign_out", summary="Forget this browser", status_code=204, response_class=Response,
    responses=problem_responses(Problem),
)  # fmt: skip
async def delete_session(request: Request) -> Response:
    """Removes the cookie. The key stays valid; `regard keys revoke` ends it."""
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, secure=is_encrypted(request), httponly=True, samesite="strict")
    return response


def session_answer(caller: Caller | None, read_only: bool) -> SessionAnswer:
    """The answer for a caller, None for one without the key that is needed. Of a `read_only` collection, everybody may
    only read."""
    if caller is None:
        return SessionAnswer(required=True, permission=None, key_id=None, name=None)
    return SessionAnswer(
        required=caller is not KEYLESS,
        permission=Permission.READ if read_only else caller.permission,
        key_id=caller.key_id,
        name=caller.name,
    )


def is_encrypted(request: Request) -> bool:
    """Whether the browser uses HTTPS, here or to a proxy that says so.

    A client that claims it falsely only loses its own cookie over HTTP.
    """
    proxy_scheme = request.headers.get("x-forwarded-proto", "").split(",")[0].strip().lower()
    return "https" in (request.url.scheme, proxy_scheme)
