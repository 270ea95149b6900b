"""API keys: their creation, their stored form, and the comparison of a presented key with it.

A key is `rgd_<id>_<secret>`. The id is public: `regard keys list` and audit lines identify a key by it. The secret is
256 random bits. Only two SHA-256 digests are stored: that of the key, and that of its session token. A fast hash is
sufficient: passwords need a slow one because people choose them from a small set, while searching all 256-bit secrets
is impossible at any speed. A slow hash would delay every request, and let strangers waste the server's time with wrong
keys.

A session token is `rgs_<id>_<HMAC of the key>`. Browsers keep it as a cookie, and send cookies to every port of a
machine. Another service there that reads the token can read pictures with it, but cannot derive the key, which is
needed to write.

A ticket is `rgt_<id>_<its end>_<what for>_<HMAC by the digest of the key>`. It stands in the address of a download that
a browser makes by itself, without the key, for a minute and for those pictures alone.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, replace

from service.auth.permissions import Permission
from service.errors import UserError

ID_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # without look-alikes
ID_LENGTH, SECRET_BYTES = 12, 32
KEY = re.compile(r"rgd_([a-z0-9]{12})_[A-Za-z0-9_-]{43}")
SESSION = re.compile(r"rgs_([a-z0-9]{12})_[0-9a-f]{64}")
TICKET = re.compile(r"rgt_([a-z0-9]{12})_(\d{10})_([0-9a-f]{32})_[0-9a-f]{64}", re.ASCII)
MAX_NAME = 64
SHOWN_LETTERS = 2 * MAX_NAME  # quoted from a refused name
NAME = re.compile(rf"[\w.@+-](?:[\w.@+ -]{{0,{MAX_NAME - 2}}}[\w.@+-])?")  # printable in a line of a list


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """The stored form of a key. Times are unix seconds."""

    key_id: str
    name: str
    permission: Permission
    digest: str
    session_digest: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None

    def unusable(self, now: float) -> str | None:
        """The reason why the key can no longer be used; None while it can."""
        if self.revoked_at is not None:
            return "was revoked"
        if self.expires_at is not None and now >= self.expires_at:
            return "has expired"
        return None

    def matches(self, token: str) -> bool:
        """Whether the token is this key, its session token or a ticket of it, compared in constant time."""
        if (ticket := TICKET.fullmatch(token)) is not None:
            return hmac.compare_digest(token, self.ticket(int(ticket[2]), ticket[3]))
        stored = self.session_digest if SESSION.fullmatch(token) else self.digest
        return hmac.compare_digest(digest_of(token), stored)

    def ticket(self, ends_at: int, purpose: str) -> str:
        """A ticket until a time; `purpose` is 32 hex digits."""
        given = f"rgt_{self.key_id}_{ends_at}_{purpose}"
        return f"{given}_{hmac.new(self.digest.encode(), given.encode(), hashlib.sha256).hexdigest()}"

    def revoke(self, now: float) -> "ApiKey":
        """The key as stored after its revocation; the time of the first revocation counts."""
        return self if self.revoked_at is not None else replace(self, revoked_at=now)


def create_key(name: str, permission: Permission, now: float, expires_at: float | None = None) -> tuple[str, ApiKey]:
    """A new key, and its stored form. UserError for an invalid name."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"a key cannot be called {name[:SHOWN_LETTERS]!r}{'...' if len(name) > SHOWN_LETTERS else ''}: use 1 to"
            f" {MAX_NAME} letters, digits, spaces or . _ @ + -, with no space at the ends"
        )
    key_id = "".join(secrets.choice(ID_LETTERS) for _ in range(ID_LENGTH))
    key = f"rgd_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
    stored = ApiKey(
        key_id=key_id,
        name=name,
        permission=permission,
        digest=digest_of(key),
        session_digest=digest_of(session_token(key)),
        created_at=now,
        expires_at=expires_at,
    )
    return key, stored


def digest_of(token: str) -> str:
    """SHA-256 of a key or session token, in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def session_token(key: str) -> str:
    """The token derived from a key that permits only reading."""
    return f"rgs_{token_id(key)}_{hmac.new(key.encode(), b'regard session', hashlib.sha256).hexdigest()}"


def token_id(token: str) -> str | None:
    """The id in a key, session token or ticket; None if the text is none of them."""
    match = KEY.fullmatch(token) or SESSION.fullmatch(token) or TICKET.fullmatch(token)
    return None if match is None else match[1]


def redact_keys(text: str) -> str:
    """The text without the secrets of the keys, session tokens and tickets in it."""
    return REDACTED.sub(r"\1...", text)


REDACTED = re.compile(r"(rg[dst]_[a-z0-9]{12}_)[A-Za-z0-9_-]+")
