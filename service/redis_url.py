"""Addresses of Redis as they may be shown: without the password."""

import re
from urllib.parse import unquote, urlsplit

CREDENTIALS = re.compile(r"//[^/?#]*@")
PASSWORD_FIELD = re.compile(r"([?&](?:password|username)=)[^&#]*", re.IGNORECASE)


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
