"""The address of a server and the API key for it: from arguments, or from the environment."""

import ipaddress
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from regard_client.errors import Misconfigured
from regard_client.version import VERSION

URL, API_KEY = "REGARD_URL", "REGARD_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8000"
KEY = re.compile(r"rgd_[a-z0-9]{12}_[A-Za-z0-9_-]{43}")
SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
LAST_PORT = 65535
TIMEOUT = httpx.Timeout(120.0, connect=10.0)  # of each pause within an answer; a large upload takes its time


def server_url(url: str | None) -> str:
    """The address given, or that of REGARD_URL, or a server on this machine. A host and port alone mean HTTP."""
    named = (url or os.environ.get(URL) or DEFAULT_URL).strip()
    text = named if SCHEME.match(named) else f"http://{named}"
    try:
        parsed = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        parsed = httpx.URL()
    if parsed.userinfo:  # not shown: it may be a password
        raise Misconfigured(
            f"the address of a server holds no user or password; an API key is given as api_key, or in {API_KEY}"
        )
    is_whole = parsed.scheme in ("http", "https") and parsed.host and not (parsed.query or parsed.fragment)
    if not is_whole or re.search(r"\s", text) or not 0 < (parsed.port or 80) <= LAST_PORT:
        raise Misconfigured(f"{named!r} is no address of a service: write host:port, http://host:port or https://host")
    return text.rstrip("/")


def is_this_machine(url: str) -> bool:
    """Whether an address of `server_url` is this machine's own, which nothing is sent to through a proxy."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@contextmanager
def reading_environment() -> Iterator[None]:
    """Misconfigured for proxies and certificates of the environment that no connection can be made with."""
    try:
        yield
    except (ImportError, ValueError, OSError) as fault:
        raise Misconfigured(
            f"the environment names a proxy or certificates that cannot be used ({fault}): see HTTP_PROXY, HTTPS_PROXY,"
            " ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from fault


def request_headers(api_key: str | None) -> dict[str, str]:
    """The headers of each request: with the key given, or that of REGARD_API_KEY, or without one."""
    headers = {"User-Agent": f"regard-client/{VERSION}"}
    source = API_KEY if api_key is None else "api_key"
    key = (os.environ.get(API_KEY, "") if api_key is None else api_key).strip()
    if key and not KEY.fullmatch(key):  # the message does not show it
        raise Misconfigured(
            f"{source} is no API key: keys look like rgd_<12 letters and digits>_<43 letters and digits>"
        )
    return headers | {"Authorization": f"Bearer {key}"} if key else headers
