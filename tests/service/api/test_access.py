"""Every route tried with every kind of key: what is let in is what the table says, and nothing else."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route

from service.api.access.credentials import SESSION_COOKIE
from service.api.access.permissions import NEEDED, OPEN, READ, WRITE, needed_permission
from service.api.app import create_routes
from service.auth.api_keys import create_key, session_token
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from tests.support.library import NOW, Library
from tests.support.web_app import Api, problem, served


def list_routes(routes: Sequence[BaseRoute]) -> Iterator[tuple[str, str]]:
    """(method, declared path) of every route, as `permissions.py` lists them."""
    for context in iter_route_contexts(routes):
        path = context.path
        assert path is not None, f"{context.route} has no path that a permission could be given for"
        for method in _methods(context):
            yield method, path


def _methods(context: RouteContext) -> Sequence[str]:
    if isinstance(context.original_route, Mount):
        return ["GET"]
    methods: Any = context.methods
    return sorted(set(methods) - {"HEAD"} if "GET" in methods else methods)


ROUTES = sorted(list_routes(create_routes().routes))


class Keys:
    """A key of each kind in a data directory, and the headers that a request sends it by."""

    def __init__(self, folder: Path) -> None:
        made = {permission.value: create_key(permission.value, permission, NOW) for permission in Permission}
        made["revoked"] = create_key("revoked", Permission.ADMIN, NOW)
        made["expired"] = create_key("expired", Permission.ADMIN, NOW, expires_at=NOW)
        made["unknown"] = create_key("unknown", Permission.ADMIN, NOW)
        self.text = {name: key for name, (key, _) in made.items()}
        self.stored = {name: stored for name, (_, stored) in made.items()}
        stored = [key for name, key in self.stored.items() if name != "unknown"]
        change_keys(
            folder / "keys.json", lambda keys: [one.revoke(NOW) if one.name == "revoked" else one for one in stored]
        )

    def headers(self, kind: str) -> dict[str, str]:
        """The headers of a caller of that kind."""
        admin = self.text["admin"]
        odd = {
            "none": {},
            "malformed": {"Authorization": f"Bearer {admin[:-1]}"},
            "longer": {"Authorization": f"Bearer {admin}a"},
            "no scheme": {"Authorization": admin},
            "basic": {"Authorization": f"Basic {admin}"},
            "empty": {"Authorization": ""},
            "elsewhere": {"X-API-Key": admin, "api-key": admin},
            "digest": {"Authorization": f"Bearer {self.stored['admin'].digest}"},
            "session in the header": {"Authorization": f"Bearer {session_token(admin)}"},
            "key in the cookie": {"Cookie": f"{SESSION_COOKIE}={admin}"},
            "odd cookie": {"Cookie": f"{SESSION_COOKIE}=odd"},
            "revoked session": {"Cookie": f"{SESSION_COOKIE}={session_token(self.text['revoked'])}"},
            "session of read": {"Cookie": f"{SESSION_COOKIE}={session_token(self.text['read'])}"},
            "session of admin": {"Cookie": f"{SESSION_COOKIE}={session_token(admin)}"},
            "revoked beside a good session": {
                "Authorization": f"Bearer {self.text['revoked']}",
                "Cookie": f"{SESSION_COOKIE}={session_token(admin)}",
            },
        }
        return odd[kind] if kind in odd else {"Authorization": f"Bearer {self.text[kind]}"}


# What each kind of caller may do.
CALLERS: dict[str, Permission | None] = {
    "none": None,
    "read": Permission.READ,
    "write": Permission.WRITE,
    "admin": Permission.ADMIN,
    "revoked": None,
    "expired": None,
    "unknown": None,
    "malformed": None,
    "longer": None,
    "no scheme": None,
    "basic": None,
    "empty": None,
    "elsewhere": None,
    "digest": None,
    "session in the header": None,
    "key in the cookie": None,
    "odd cookie": None,
    "revoked session": None,
    "session of read": Permission.READ,
    "session of admin": Permission.READ,
    "revoked beside a good session": None,
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    library = Library(tmp_path_factory.mktemp("data"))
    library.catalog.processes.heartbeat("worker", NOW)
    with served(library, rate_limit=0) as api:
        yield api


@pytest.fixture(scope="module")
def keys(api: Api) -> Keys:
    return Keys(api.library.folder)


def ask(api: Api, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    """A request of that route about things that are not there, so that whoever is let in changes nothing."""
    filled = path.replace("{image_id}", "0" * 32).replace("{job_id}", "0" * 32).replace("{name}", "nothing")
    assert "{" not in filled, f"say here what to fill in for {path}"
    return api.request(method, filled, headers=headers)


def test_every_route_has_a_decision_and_every_decision_a_route() -> None:
    assert set(ROUTES) == set(NEEDED), "decide in service/api/access/permissions.py who may call a new route"
    assert len(ROUTES) == len(set(ROUTES))


def test_only_what_tells_nothing_of_the_pictures_is_open() -> None:
    allowed = {"/", "/page/{name}", "/docs", "/docs/style.css", "/openapi.json", "/livez", "/readyz", "/session"}
    assert {path for (_, path), needed in NEEDED.items() if needed is OPEN} <= allowed


def test_what_changes_something_needs_more_than_reading() -> None:
    searches = {"/search/text", "/search/image", "/session"}
    for (method, path), needed in NEEDED.items():
        if method != "GET" and path not in searches:
            assert needed is not OPEN
            assert needed is not READ


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=str)
def test_a_route_lets_in_who_may_and_refuses_everybody_else(
    api: Api, keys: Keys, method: str, path: str, caller: str
) -> None:
    answer = ask(api, method, path, keys.headers(caller))
    needed, has = needed_permission(method, path), CALLERS[caller]
    if needed is OPEN or (has is not None and has.includes(needed)):
        assert answer.status_code not in {401, 403}, answer.text
        return
    if has is not None:
        assert problem(answer, 403, "forbidden")["needed"] == needed
        return
    problem(answer, 401, "no-key" if caller in {"none", "elsewhere"} else "invalid-key")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if needed_permission(*route) is not OPEN])
def test_a_key_in_the_url_opens_nothing(api: Api, keys: Keys, method: str, path: str) -> None:
    for name in ("key", "api_key", "token", "access_token"):
        query = f"?{name}={keys.text['admin']}"
        problem(ask(api, method, path + query, {}), 401, "no-key")


@pytest.mark.parametrize(
    "path", [path for method, path in ROUTES if method == "GET" and needed_permission(method, path) is not OPEN]
)
def test_head_is_no_way_around(api: Api, keys: Keys, path: str) -> None:
    assert ask(api, "HEAD", path, {}).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        *("/images/", "//images", "/images/../images", "/./images", "/IMAGES", "/images;", "/docs/../images"),
        *("/livez/images", "/%69mages/", "/images%2F", "/docs%2f..%2fimages", "/nowhere"),
    ],
)
def test_paths_written_in_another_way_lead_nowhere_without_a_key(api: Api, keys: Keys, path: str) -> None:
    async def get(client: httpx.AsyncClient) -> httpx.Response:
        request = client.build_request("GET", "/")
        request.url = request.url.copy_with(raw_path=path.encode())
        return await client.send(request)

    assert api.together(get).status_code in {401, 404, 405}


def test_another_method_is_refused_with_all_that_there_are(api: Api, keys: Keys) -> None:
    answer = api.request("PUT", f"/images/{'0' * 32}")
    problem(answer, 405, "method-not-allowed")
    assert {"GET", "DELETE"} <= set(answer.headers["allow"].split(", "))


def test_a_refused_upload_is_not_read(api: Api, keys: Keys) -> None:
    sent = 0

    async def endless() -> "Iterator[bytes]":  # type: ignore[misc]
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b"x" * 65536

    answer = api.request("POST", "/ingest", content=endless(), headers=keys.headers("read"))
    assert answer.status_code == 403
    assert sent <= 1


def test_a_route_without_a_decision_is_for_admin_alone(tmp_path: Path) -> None:
    library = Library(tmp_path)
    keys = Keys(tmp_path)
    with served(library, rate_limit=0) as api:

        async def say(request: object) -> PlainTextResponse:
            return PlainTextResponse("secret")

        api.app.router.routes.append(Route("/new", say))
        api.app.router.routes.append(Mount("/mounted", app=say_app))
        for path in ("/new", "/mounted/file"):
            assert api.request("GET", path, headers=keys.headers("admin")).text == "secret"
            for caller in ("none", "read", "write"):
                answer = api.request("GET", path, headers=keys.headers(caller))
                assert answer.status_code in {401, 403}
                assert "secret" not in answer.text


async def say_app(scope: object, receive: object, send: object) -> None:
    """A mounted application with something to hide."""
    await PlainTextResponse("secret")(scope, receive, send)  # type: ignore[arg-type]


def test_without_keys_this_machine_may_do_all_and_with_the_first_one_it_may_not(tmp_path: Path) -> None:
    with served(Library(tmp_path)) as api:
        assert api.get("/images").status_code == 200
        assert api.request("DELETE", f"/images/{'0' * 32}").status_code == 404
        assert api.get("/session").json() == {
            "required": False,
            "permission": "admin",
            "key_id": None,
            "name": None,
        }
        keys = Keys(tmp_path)
        problem(api.get("/images"), 401, "no-key")
        assert api.request("GET", "/images", headers=keys.headers("read")).status_code == 200
        change_keys(tmp_path / "keys.json", lambda stored: [key.revoke(NOW) for key in stored])
        problem(api.request("GET", "/images", headers=keys.headers("read")), 401, "invalid-key")
        (tmp_path / "keys.json").unlink()
        problem(api.get("/images"), 401, "no-key")
        problem(api.request("GET", "/images", headers=keys.headers("read")), 503, "not-ready")


def test_a_service_for_other_machines_answers_nobody_without_keys(tmp_path: Path) -> None:
    with served(Library(tmp_path), host="0.0.0.0") as api:
        problem(api.get("/images"), 401, "no-key")
        assert api.get("/session").json()["required"] is True
        assert api.get("/livez").status_code == 200


def test_health_checks_need_no_key(api: Api, keys: Keys) -> None:
    assert api.get("/livez").status_code == 200
    assert api.get("/readyz").status_code == 200


@pytest.mark.parametrize("caller", ["read", "session of admin", "write"])
def test_what_was_deleted_is_listed_for_those_alone_who_may_bring_it_back(api: Api, keys: Keys, caller: str) -> None:
    def deleted(said: str) -> httpx.Response:
        return api.request("GET", "/images", params={"deleted": said}, headers=keys.headers(caller))

    assert deleted("false").status_code == 200
    if caller == "write":
        assert deleted("true").status_code == 200
        return
    for said in ("true", "1", "on"):
        assert problem(deleted(said), 403, "forbidden")["needed"] == WRITE


def test_refusals_are_counted_by_reason(api: Api, keys: Keys) -> None:
    ask(api, "GET", "/images", {})
    ask(api, "POST", "/ingest", keys.headers("read"))
    lines = api.request("GET", "/metrics", headers=keys.headers("read")).text.splitlines()
    counted = {line.split()[0] for line in lines if line.startswith("regard_refusals_total")}
    assert {'regard_refusals_total{reason="no-key"}', 'regard_refusals_total{reason="forbidden"}'} <= counted


def test_writing_includes_reading(api: Api, keys: Keys) -> None:
    assert WRITE.includes(READ)
    assert api.request("GET", "/tags", headers=keys.headers("write")).status_code == 200
