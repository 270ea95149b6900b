"""Redis as all who use it see it: addresses, as they may be shown, without the password."""

import re
from urllib.parse import unquote, urlsplit

CREDENTIALS = re.compile(r"//\S*@")  # up to the last @: a password may hold any sign, though it should not
SCHEMES = ("redis", "rediss", "unix")
PASSWORD_FIELD = re.compile(r"([?&](?:password|username)=)[^&#]*", re.IGNORECASE)


def check_redis_url(url: str) -> str:
    """The address; ValueError, in words that do not show it, for what is none."""
    expected = "write redis://host:6379/0, rediss:// or unix://; signs such as @ / # in a password as %40, %2F, %23"
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in SCHEMES and (parts.scheme == "unix" or (bool(parts.hostname) and parts.port != 0))
    except ValueError:  # of a port that is none
        is_one = False
    if not is_one:
        raise ValueError(f"is no address of a Redis: {expected}")
    return url


def without_password(text: str, url: str | None = None) -> str:
    """The text with `***` in the place of every password in it: those of addresses, and that of `url` anywhere."""
    hidden = PASSWORD_FIELD.sub(r"\1***", CREDENTIALS.sub("//***@", text))
    try:
        password = urlsplit(url or "").password
    except ValueError:
        password = None
    for secret in filter(None, (password, unquote(password or ""))):
        hidden = hidden.replace(secret, "***")
    return hidden
