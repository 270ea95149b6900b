"""The description of the routes: checked in as it is, and complete."""

import json
import re
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest

from docs.openapi_document import document
from service.api import app
from service.api.access.permissions import needed_permission
from service.api.openapi.document import complete_document
from service.api.schemas.resources import ProblemAnswer
from service.search.requests import MOST_RESULTS, TextSearchRequest
from tests.support.api_document import declared_responses
from tests.support.project_files import ROOT

DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
OPERATIONS = [
    (f"{method.upper()} {path}", {**operation, "responses": declared_responses(operation, DOCUMENT)})
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
ROUTES = {
    *("POST /ingest", "GET /jobs", "GET /jobs/{job_id}", "GET /jobs/{job_id}/events", "GET /failures"),
    *("POST /failures/{image_id}/retry", "POST /search/text", "POST /search/image", "GET /images"),
    *("GET /images/{image_id}", "DELETE /images/{image_id}", "PATCH /images/{image_id}"),
    *("POST /images/{image_id}/restore", "GET /images/{image_id}/original", "GET /images/{image_id}/thumbnail"),
    *("GET /images/{image_id}/deleted-thumbnail", "GET /images/{image_id}/regions", "GET /images/{image_id}/info"),
    *("POST /images/archive", "POST /images/archive/ticket"),
    *("GET /images/{image_id}/explain.png", "GET /tags", "GET /dates", "GET /models", "POST /models/{name}/build"),
    *("GET /livez", "GET /readyz", "GET /metrics", "GET /session", "POST /session", "DELETE /session"),
}


def references(node: Any) -> set[str]:
    """Every $ref below a node."""
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set[str]()
        return own.union(*map(references, node.values()))
    return set[str]().union(*map(references, node)) if isinstance(node, list) else set()


def test_the_document_is_checked_in_as_it_is() -> None:
    assert (ROOT / "docs" / "openapi.json").read_text(encoding="utf-8") == document(), "run `make docs`"


def test_it_lists_every_route_of_the_contract_and_no_other() -> None:
    assert {name for name, _ in OPERATIONS} == ROUTES, "add a new route to ROUTES of this file: callers rely on them"


def test_every_reference_leads_somewhere() -> None:
    found = references(DOCUMENT)
    assert found == set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(DOCUMENT)))
    assert "#/components/schemas/TextAnswer" in found
    for reference in found:
        node = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


@pytest.mark.parametrize(("name", "operation"), OPERATIONS)
def test_an_operation_has_a_name_words_and_its_errors(name: str, operation: dict[str, Any]) -> None:
    assert operation["operationId"].isidentifier()
    assert operation["summary"]
    assert operation["description"]
    good = {status for status in operation["responses"] if status.startswith("2")} - {"206"}
    assert len(good) == 1
    assert ("206" in operation["responses"]) == ("416" in operation["responses"])  # of what can be had in parts
    assert "421" in operation["responses"]
    assert ("503" in operation["responses"]) == (operation["operationId"] != "alive")  # the data directory may be away
    faults = {status: said for status, said in operation["responses"].items() if status >= "400"}
    assert "500" in faults, f"declare the errors of {name}: responses=problem_responses(.., Problem)"
    for status, said in faults.items():
        content = said["content"]["application/problem+json"]
        assert set(said["content"]) == {"application/problem+json"}, f"{name} {status}"
        for kind in content["examples"]:
            example = DOCUMENT["components"]["examples"][kind]
            ProblemAnswer.model_validate(example["value"])
            assert example["value"]["status"] == int(status)


def test_it_is_of_this_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert DOCUMENT["info"]["version"] == project["version"]


def test_names_of_operations_are_unique_and_chosen() -> None:
    names = [operation["operationId"] for _, operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert [name for name in names if "__" in name] == [], "FastAPI made these of paths: set operation_id and summary"


def test_the_document_of_the_http_interface_names_every_route() -> None:
    text = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    named, path = set[str](), ""
    for row in re.findall(r"^\|([^|]*)\|", text[text.index("| route |") :].partition("\n\n")[0], re.MULTILINE):
        for method, further, own in re.findall(r"`([A-Z]+ )?(\.\.\.)?(/[^`]*)`", row):
            path = own if not further else path + own
            named.add(f"{method or 'GET '}{path}")
            path = path if not further else path.removesuffix(own)
    assert ROUTES - named == set(), "add them to the table of docs/http.md"
    assert named - ROUTES == {"GET /"}


@pytest.mark.parametrize(("name", "operation"), OPERATIONS)
def test_an_answer_has_an_example_that_is_one(name: str, operation: dict[str, Any]) -> None:
    answer = next(said for status, said in operation["responses"].items() if status.startswith("2"))
    content = answer.get("content", {}).get("application/json")
    if content is not None:
        operation_id = operation["operationId"]
        assert "example" in content, f"give an example of {operation_id!r} in service/api/openapi/examples.py"
        jsonschema.validate(content["example"], {**content["schema"], "components": DOCUMENT["components"]})
        assert name


def test_every_operation_says_how_any_request_may_be_refused() -> None:
    for name, operation in OPERATIONS:
        assert {"400", "403", "408", "421"} <= operation["responses"].keys(), name
        assert "cross-site-request" in operation["responses"]["403"]["content"]["application/problem+json"]["examples"]
        assert ({"413", "415"} <= operation["responses"].keys()) == ("requestBody" in operation), name


def test_a_form_has_no_field_that_is_null() -> None:
    forms = [
        operation["requestBody"]["content"]["multipart/form-data"]["schema"]["properties"]
        for _, operation in OPERATIONS
        if "multipart/form-data" in operation.get("requestBody", {}).get("content", {})
    ]
    assert len(forms) == 2
    assert "null" not in json.dumps(forms)
    (search,) = [form for form in forms if "min_probability" in form]
    assert search["min_probability"]["maximum"] == 1


def defaults(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema below a node that has a default."""
    if isinstance(node, dict):
        if "default" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from defaults(one)


def test_every_default_is_a_value_that_may_be_sent() -> None:
    found = list(defaults(DOCUMENT))
    assert len(found) > 10
    for schema in found:
        jsonschema.validate(schema["default"], {**schema, "components": DOCUMENT["components"]})


def test_a_client_that_sends_every_default_may_ask_for_the_most_results() -> None:
    fields = DOCUMENT["components"]["schemas"]["TextSearchRequest"]["properties"]
    sent = {name: field["default"] for name, field in fields.items() if "default" in field}
    assert len(sent) > 4
    asked = TextSearchRequest.model_validate({**sent, "query": "a dog", "k": MOST_RESULTS})
    assert asked.shortlist == MOST_RESULTS


def test_members_that_a_problem_may_lack_are_never_null() -> None:
    problem = DOCUMENT["components"]["schemas"]["ProblemAnswer"]
    optional = {name: problem["properties"][name] for name in problem["properties"].keys() - set(problem["required"])}
    assert optional.keys() == {"errors", "rejected", "known", "needed", "retry_after"}
    assert list(defaults(optional)) == []
    assert not any("anyOf" in member for member in optional.values())


@pytest.mark.parametrize(("name", "operation"), OPERATIONS)
def test_an_operation_says_who_may_call_it(name: str, operation: dict[str, Any]) -> None:
    method, path = name.split(" ")
    needed = needed_permission(method, path)
    schemes = [scheme for one in operation["security"] for scheme in one]
    assert schemes == {None: [], "read": ["key", "session"]}.get(needed, ["key"])
    assert (f"`{needed}`" in operation["description"]) is (needed is not None)
    assert {"401", "403", "429"} <= set(operation["responses"]) or needed is None
    assert set(schemes) <= set(DOCUMENT["components"]["securitySchemes"])


PAGES = {"get_image", "get_original", "get_thumbnail", "get_regions", "get_info", "get_session", "sign_in", "sign_out"}
PROBES = {"alive", "ready", "metrics"}
CHANGES = {"delete_image", "restore_image", "edit_image", "retry_failure", "build_view", "ingest"}


@pytest.mark.parametrize(("route", "operation"), OPERATIONS)
def test_a_route_tells_how_it_refuses(route: str, operation: dict[str, Any]) -> None:
    told, name = operation["responses"].keys(), operation["operationId"]
    assert "422" in told or name in PAGES | PROBES  # an unknown parameter
    assert {"409", "507"} <= told or name not in CHANGES  # where nothing may be written, or there is no room


def test_nobody_sees_a_document_before_it_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()

    def slowly(made: dict[str, Any]) -> None:
        begun.set()
        go.wait(0.2)
        complete_document(made)

    monkeypatch.setattr(app, "complete_document", slowly)
    routes = app.create_routes()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(routes.openapi)
        assert begun.wait(60.0)
        second = threads.submit(lambda: "securitySchemes" in routes.openapi()["components"])
        assert second.result()
        assert first.result()["components"]["securitySchemes"]
