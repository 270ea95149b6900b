"""Redis addresses: their validation, and their display without the password."""

import re
from urllib.parse import unquote, urlsplit

CREDENTIALS = re.compile(r"//\S*@")  # up to the last @, which a password may contain, although it should not
SCHEMES = ("redis", "rediss", "unix")
PASSWORD_FIELD = re.compile(r"([?&](?:password|username)=)[^&#]*", re.IGNORECASE)


def check_redis_url(url: str) -> str:
    """The address; ValueError, with a message that does not quote it, for an invalid one."""
    expected = "write redis://host:6379/0, rediss:// or unix://; signs such as @ / # in a password as %40, %2F, %23"
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in SCHEMES and (parts.scheme == "unix" or (bool(parts.hostname) and parts.port != 0))
    except ValueError:  # an invalid port
        is_valid = False
    if not is_valid:
        raise ValueError(f"is no address of a Redis: {expected}")
    return url


def without_password(text: str, url: str | None = None) -> str:
    """The text with `***` in place of every password: those inside addresses, and that of `url` anywhere."""
    hidden = PASSWORD_FIELD.sub(r"\1***", CREDENTIALS.sub("//***@", text))
    try:
        password = urlsplit(url or "").password
    except ValueError:
        password = None
    for secret in filter(None, (password, unquote(password or ""))):
        hidden = hidden.replace(secret, "***")
    return hidden
