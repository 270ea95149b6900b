"""The session: a cookie that reads, made of a key that does not leave the page in any URL."""

from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from service.api.access.credentials import SESSION_COOKIE
from service.api.schemas.session import SessionAnswer
from service.auth.api_keys import create_key, session_token
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from tests.support.library import NOW, Library
from tests.support.web_app import Api, checked, problem, served

WRITE, WRITE_STORED = create_key("phone", Permission.WRITE, NOW)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    library = Library(tmp_path)
    change_keys(tmp_path / "keys.json", lambda keys: [WRITE_STORED])
    with served(library) as api:
        yield api


def cookie(answer: httpx.Response) -> SimpleCookie:
    return SimpleCookie(answer.headers["set-cookie"])


def test_signing_in_lets_a_browser_read_and_no_more(api: Api) -> None:
    answer = api.request("POST", "/session", json={"key": WRITE})
    said = checked(answer, 200, SessionAnswer)
    assert said == {"required": True, "permission": "write", "key_id": WRITE_STORED.key_id, "name": "phone"}
    made = cookie(answer)[SESSION_COOKIE]
    assert made.value == session_token(WRITE)
    assert made["httponly"]
    assert (made["samesite"].lower(), made["path"], made["secure"], made["domain"]) == ("strict", "/", "", "")
    assert not made["max-age"]
    assert not made["expires"]
    # The client keeps cookies as a browser does.
    assert api.get("/images").status_code == 200
    assert api.get("/session").json()["permission"] == "read"
    refused = problem(api.request("DELETE", f"/images/{'0' * 32}"), 403, "forbidden")
    assert "in the header Authorization; the cookie of a browser's session may only read" in refused["detail"]


def test_signing_out_removes_the_cookie(api: Api) -> None:
    api.request("POST", "/session", json={"key": WRITE})
    answer = api.request("DELETE", "/session")
    assert answer.status_code == 204
    gone = cookie(answer)[SESSION_COOKIE]
    assert (gone.value, gone["max-age"], gone["path"]) == ("", "0", "/")
    problem(api.get("/images"), 401, "no-key")


def test_over_https_the_cookie_stays_there(api: Api) -> None:
    answer = api.request("POST", "https://localhost/session", json={"key": WRITE})
    assert cookie(answer)[SESSION_COOKIE]["secure"]
    for said, is_secure in (("https", True), ("HTTPS, http", True), ("http", False), ("", False)):
        proxied = api.request("POST", "/session", json={"key": WRITE}, headers={"X-Forwarded-Proto": said})
        assert bool(cookie(proxied)[SESSION_COOKIE]["secure"]) is is_secure


def test_a_session_ends_with_its_key(api: Api) -> None:
    api.request("POST", "/session", json={"key": WRITE})
    change_keys(api.library.folder / "keys.json", lambda keys: [key.revoke(NOW) for key in keys])
    problem(api.get("/images"), 401, "invalid-key")
    assert api.get("/session").json() == {"required": True, "permission": None, "key_id": None, "name": None}


@pytest.mark.parametrize(
    "wrong",
    ["", "rgd_", WRITE[:-1], session_token(WRITE), create_key("x", Permission.READ, 0)[0]],
    ids=["empty", "a beginning", "cut", "a session's token", "another key"],
)
def test_a_wrong_key_signs_nobody_in_and_is_not_repeated(api: Api, wrong: str) -> None:
    answer = api.request("POST", "/session", json={"key": wrong})
    problem(answer, 401, "invalid-key")
    assert "set-cookie" not in answer.headers
    assert not wrong or wrong == "rgd_" or wrong not in answer.text


@pytest.mark.parametrize(
    "body", [{}, {"key": 1}, {"key": None}, {"key": WRITE, "more": 1}, [WRITE], WRITE], ids=range(6)
)
def test_a_body_of_another_form_is_refused_without_showing_it(api: Api, body: object) -> None:
    answer = api.request("POST", "/session", json=body)
    problem(answer, 422, "invalid-request")
    assert WRITE not in answer.text


def test_who_am_i_is_never_refused(api: Api) -> None:
    nobody = {"required": True, "permission": None, "key_id": None, "name": None}
    assert api.get("/session").json() == nobody
    for header in ("Bearer x", "x", f"Bearer {WRITE[:-1]}"):
        assert api.request("GET", "/session", headers={"Authorization": header}).json() == nobody
    mine = api.request("GET", "/session", headers={"Authorization": f"bearer {WRITE}"}).json()
    assert (mine["permission"], mine["name"]) == ("write", "phone")
