"""The check of where a request comes from: programs may send any, browsers those of this service's own pages.

A browser sends what any page tells it to, also to services that only its user can reach. Two headers that pages cannot
set say where a request comes from (Origin, Sec-Fetch-Site), and one says under which name the service was reached:
after DNS rebinding it is the attacker's (Host). Programs send neither Origin nor Sec-Fetch-Site.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from starlette.types import Scope

from service.api.access.credentials import BY_TICKET
from service.auth.exposure import is_loopback_name
from service.errors import CrossSiteRequest, UnknownHost

DEFAULT_PORTS = {"http": 80, "https": 443}
OWN_SITES = {"same-origin", "none"}  # `none`: typed into the address bar, or a bookmark
HEADER_SHOWN = 100  # characters of a header in an error


class RequestOrigin:
    """The rules for one service: names that it answers for besides loopback and the address of its socket."""

    def __init__(self, allowed_hosts: Iterable[str]) -> None:
        """`*` allows any name, `*.example.org` those below example.org; a port counts for Origin only."""
        self._allowed = [host.lower().rstrip(".") for host in allowed_hosts]

    def check(self, scope: Scope) -> None:
        """UnknownHost or CrossSiteRequest where the request may not be answered."""
        headers: dict[bytes, str] = {}
        for name, value in scope["headers"]:  # no browser sends one of these twice: several together are none it knows
            text = value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        self._check_host(headers.get(b"host"), scope.get("server"))
        if not _is_navigation(scope["method"], headers):
            self._check_site(scope["path"], headers)

    def _check_host(self, host: str | None, server: tuple[str, int | None] | None) -> None:
        if host is None:  # HTTP/1.0, which no browser speaks
            return
        name = _host_name(host)
        if name is None or not (is_loopback_name(name) or self._is_allowed(name) or _is_address_of(name, server)):
            raise UnknownHost(
                f"This service does not answer for {host[:HEADER_SHOWN]!r}. Whoever runs it can allow the name with the"
                f" setting REGARD_ALLOWED_HOSTS."
            )

    def _check_site(self, path: str, headers: Mapping[bytes, str]) -> None:
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", "none")
        # The form of a download has the origin `null`, since the page tells no address (Referrer-Policy), and over
        # plain HTTP no Sec-Fetch-Site. With keys it needs a ticket, which no other page has; it changes nothing.
        may_be_own_form = origin == "null" and path == BY_TICKET
        if origin is not None and not may_be_own_form and not self._is_own(origin, headers.get(b"host", "")):
            raise CrossSiteRequest(
                f"The request comes from a page of {origin[:HEADER_SHOWN]!r}; only pages of this service may use it."
                " A proxy must pass on the header Host unchanged, with its port; or name the public host in the setting"
                " REGARD_ALLOWED_HOSTS, with the port of the address unless it is 80 or 443."
            )
        if site not in OWN_SITES:
            raise CrossSiteRequest("The request comes from a page of another site; only this service's own may use it.")

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether an Origin names this service: the Host of the same request, or an allowed name."""
        try:
            parts = urlsplit(origin)
            port = parts.port
        except ValueError:
            return False
        if parts.scheme not in DEFAULT_PORTS or parts.hostname is None:  # `null` among others
            return False
        default = DEFAULT_PORTS[parts.scheme]
        own = _host_and_port(host, default)
        if own is not None and (parts.hostname, port or default) == own:
            return True
        shown = parts.hostname if port in (None, default) else f"{parts.hostname}:{port}"
        return shown in self._allowed or (port in (None, default) and self._is_below_allowed(parts.hostname))

    def _is_allowed(self, name: str) -> bool:
        names = {host.partition(":")[0] if host.count(":") == 1 else host.strip("[]") for host in self._allowed}
        return "*" in names or name in names or self._is_below_allowed(name)

    def _is_below_allowed(self, name: str) -> bool:
        return any(host.startswith("*.") and name.endswith(host[1:]) for host in self._allowed)


def _is_navigation(method: str, headers: Mapping[bytes, str]) -> bool:
    """Whether a person follows a link, or opens an address: the answer is shown to them, and to no other page."""
    return (
        method in ("GET", "HEAD")
        and headers.get(b"sec-fetch-mode") == "navigate"
        and headers.get(b"sec-fetch-dest") == "document"
    )


def _host_and_port(host: str, default: int) -> tuple[str, int] | None:
    try:
        parts = urlsplit(f"//{host}")
        return None if not parts.hostname else (parts.hostname, parts.port or default)
    except ValueError:
        return None


def _host_name(host: str) -> str | None:
    """The name or address of a Host header in lower case, without port and last dot; None where it is malformed."""
    if any(character in host for character in "/?#@\\ "):
        return None
    found = _host_and_port(host, 0)
    return None if found is None else found[0].rstrip(".")


def _is_address_of(name: str, server: tuple[str, int | None] | None) -> bool:
    """Whether it is the address that the connection came in on: no name leads there by rebinding."""
    try:
        return server is not None and ipaddress.ip_address(name) == ipaddress.ip_address(server[0])
    except ValueError:
        return False
