"""The caller of a request, identified by the API key in the header Authorization or the session token in a cookie; for
a download, also by a ticket in the address."""

from dataclasses import dataclass

from starlette.requests import HTTPConnection
from starlette.types import Scope

from service.auth.api_keys import KEY, SESSION, session_token
from service.auth.key_ring import KeyRing
from service.auth.permissions import Permission
from service.errors import Forbidden, InvalidKey, Unauthenticated

SESSION_COOKIE = "regard_session"
BY_TICKET = "/images/archive"  # the path that tickets are for


@dataclass(frozen=True)
class Caller:
    """The caller of a request, with the permission of its key. Without keys every caller is KEYLESS."""

    key_id: str | None
    name: str | None
    permission: Permission
    purpose: str | None = None  # of the ticket, if it came with one
    by_cookie: bool = False  # whether by a browser's session, which may only read, whatever its key may do

    def refusal(self, needed: Permission) -> Forbidden | None:
        """The refusal of a request that needs a permission; None where the caller has it."""
        if self.permission.includes(needed):
            return None
        cookie = "the cookie of a browser's session may only read"
        has = cookie if self.by_cookie else f"{self.key_id} has {self.permission}"
        return Forbidden(
            f"This needs a key with the permission {needed}, in the header Authorization; {has}.", needed=needed
        )


KEYLESS = Caller(None, None, Permission.ADMIN)


def identify_caller(scope: Scope, keys: KeyRing, open_without_keys: bool) -> Caller:
    """The caller of the request. Unauthenticated where a key is needed and missing, InvalidKey where it is wrong.

    The header takes precedence over a ticket, and that over the cookie. A key anywhere else, such as in the URL, is
    ignored.
    """
    if not keys.required and open_without_keys:
        return KEYLESS
    connection = HTTPConnection(scope)
    headers = connection.headers.getlist("authorization")
    if headers:
        return _by_header(headers, keys)
    if scope["path"] == BY_TICKET and (ticket := connection.query_params.get("ticket")) is not None:
        key, purpose = keys.redeem(ticket)
        return Caller(key.key_id, key.name, key.permission, purpose)
    token = connection.cookies.get(SESSION_COOKIE)
    if token is None:
        raise Unauthenticated(
            "Send an API key in the header `Authorization: Bearer KEY`. Keys are made on the server by"
            " `regard keys create`."
        )
    if not SESSION.fullmatch(token):
        raise InvalidKey("The session cookie is malformed; sign in again.")
    key = keys.identify(token)
    # READ whatever the key may do: browsers send cookies also with requests that other pages make.
    return Caller(key.key_id, key.name, Permission.READ, by_cookie=True)


def _by_header(headers: list[str], keys: KeyRing) -> Caller:
    scheme, _, token = headers[0].partition(" ")
    token = token.strip(" ")
    if len(headers) > 1 or scheme.lower() != "bearer" or not KEY.fullmatch(token):
        raise InvalidKey("The header Authorization is malformed; it should be `Authorization: Bearer KEY`, once.")
    key = keys.identify(token)
    return Caller(key.key_id, key.name, key.permission)


def sign_in(key: str, keys: KeyRing) -> tuple[Caller, str]:
    """The caller that a key belongs to, and a session token for it. Raises InvalidKey where the key is not valid."""
    if not KEY.fullmatch(key):
        raise InvalidKey("This is no whole key: one begins with rgd_. Copy all of it.")
    record = keys.identify(key)
    return Caller(record.key_id, record.name, record.permission), session_token(key)
