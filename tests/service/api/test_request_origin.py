"""Programs and this service's own pages are answered; pages of others are not, whatever name leads here."""

from collections.abc import Mapping

import pytest

from service.api.middleware.origin import RequestOrigin
from service.errors import CrossSiteRequest, Problem, UnknownHost

LOCAL = {"host": "localhost:8000"}


def check(
    headers: Mapping[str, str],
    method: str = "POST",
    allowed: tuple[str, ...] = (),
    server: str = "127.0.0.1",
    path: str = "/images",
) -> type[Problem] | None:
    """The problem that the request is answered with."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "server": (server, 8000),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    }
    try:
        RequestOrigin(allowed).check(scope)
    except Problem as problem:
        return type(problem)
    return None


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8000", "LOCALHOST.", "regard.localhost:1", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000"],
)
def test_loopback_names_are_answered(host: str) -> None:
    assert check({"host": host}) is None


@pytest.mark.parametrize(
    "host",
    [
        *("attacker.example", "attacker.example:8000", "localhost.attacker.example", "notlocalhost"),
        *("127.0.0.1.attacker.example", "192.168.1.7:8000", "2130706433x", "", "[::1", "localhost:port"),
        *("localhost/attacker.example", "user@attacker.example", "attacker.example#localhost", "fö.example", "::1"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_a_name_that_leads_here_by_rebinding_is_not(host: str, method: str) -> None:
    navigating = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "none"}
    assert check({"host": host}, method) is UnknownHost
    assert check({"host": host, **navigating}, method) is UnknownHost


def test_the_address_that_the_connection_came_in_on_is_answered() -> None:
    assert check({"host": "192.168.1.7:8000"}, server="192.168.1.7") is None
    assert check({"host": "[fe80::1]:8000"}, server="fe80::1") is None
    assert check({"host": "192.168.1.8:8000"}, server="192.168.1.7") is UnknownHost


def test_names_of_the_setting_are_answered() -> None:
    allowed = ("photos.example.org", "*.lan")
    for host in ("photos.example.org", "Photos.Example.org:443", "nas.lan", "a.b.lan:80"):
        assert check({"host": host}, allowed=allowed) is None
    for host in ("example.org", "xphotos.example.org", "lan", "nas.lan.attacker.example"):
        assert check({"host": host}, allowed=allowed) is UnknownHost
    assert check({"host": "whatever"}, allowed=("*",)) is None


def test_a_request_without_host_is_of_no_browser() -> None:
    assert check({}) is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "origin",
    [
        *("https://attacker.example", "http://localhost:3000", "http://127.0.0.1:8000", "http://localhost", "null"),
        *("file://", "http://localhost:port", "http://localhost:8000.attacker.example"),
    ],
)
def test_a_foreign_origin_is_refused(origin: str, method: str) -> None:
    assert check({**LOCAL, "origin": origin}, method) is CrossSiteRequest


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
@pytest.mark.parametrize(
    "kind",
    [
        {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {},
    ],
)
def test_what_another_site_embeds_or_fetches_is_refused(site: str, kind: dict[str, str]) -> None:
    assert check({**LOCAL, "sec-fetch-site": site, **kind}, "GET") is CrossSiteRequest


def test_a_form_of_another_site_is_refused_and_a_link_is_not() -> None:
    navigating = {**LOCAL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert check({**navigating, "origin": "https://attacker.example"}, "POST") is CrossSiteRequest
    assert check({**navigating, "origin": "null"}, "POST") is CrossSiteRequest
    assert check(navigating, "POST") is CrossSiteRequest
    assert check(navigating, "GET") is None


@pytest.mark.parametrize("site", [{}, {"sec-fetch-site": "same-origin"}])  # browsers send none over plain HTTP
def test_a_form_of_a_page_that_tells_no_address_may_ask_for_a_download_alone(site: dict[str, str]) -> None:
    form = {**LOCAL, "origin": "null", **site}
    assert check(form, path="/images/archive") is None
    assert check(form, path="/images/archive/ticket") is CrossSiteRequest
    assert check({**form, "sec-fetch-site": "cross-site"}, path="/images/archive") is CrossSiteRequest
    assert check({**form, "origin": "https://attacker.example"}, path="/images/archive") is CrossSiteRequest


def test_its_own_pages_are_answered() -> None:
    own = {**LOCAL, "origin": "http://localhost:8000", "sec-fetch-site": "same-origin"}
    assert check(own) is None
    assert check({"host": "photos.example.org", "origin": "https://photos.example.org"}, allowed=("*",)) is None
    assert check({"host": "localhost", "origin": "http://localhost:80"}) is None


def test_behind_a_proxy_that_changes_the_host_the_setting_names_the_public_one() -> None:
    public = {"host": "127.0.0.1:8000", "origin": "https://photos.example.org"}
    assert check(public) is CrossSiteRequest
    assert check(public, allowed=("photos.example.org",)) is None
    assert check({**public, "origin": "https://photos.example.org:8443"}, allowed=("photos.example.org",)) is not None
    named = ("photos.example.org:8443",)
    assert check({**public, "origin": "https://photos.example.org:8443"}, allowed=named) is None
    assert check({"host": "photos.example.org:8443"}, allowed=named) is None
    assert check(public, allowed=("*",)) is CrossSiteRequest  # any name is answered, no foreign page is
