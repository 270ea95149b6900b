"""Problems as HTTP responses, and as entries of the OpenAPI document."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Response

from service.errors import InvalidRequest, Problem
from service.problem_page import HTML, is_opened_by_browser, problem_page
from service.validation_messages import plain_message

PROBLEM_JSON = "application/problem+json"
AWAY_RETRY_S = 30  # for faults that an operator must repair first
LATER = (429, 503, 507)  # statuses of requests that may succeed when they are repeated
LONGEST_TEXT = 2000  # characters of one text in a problem document, which may repeat what the client sent


def problem_response(problem: Problem, scope: Mapping[str, Any]) -> Response:
    """The response with a problem document, which has the request's id in the log.

    A browser that opens the address gets the problem as a page.
    """
    if is_opened_by_browser(scope):
        return Response(problem_page(problem), problem.status, problem.headers, HTML)
    instance = f"urn:regard:request:{scope.get('request_id', 'unknown')}"
    return Response(
        json.dumps(_shortened(problem.document(instance))),
        status_code=problem.status,
        headers=problem.headers,
        media_type=PROBLEM_JSON,
    )


def _shortened(value: Any) -> Any:
    """The value with every text in it at most LONGEST_TEXT characters long, cut in the middle."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        half = LONGEST_TEXT // 2
        return f"{value[: half - 1]}\N{HORIZONTAL ELLIPSIS}{value[-half:]}"
    if isinstance(value, dict):
        return {_shortened(name): _shortened(member) for name, member in value.items()}
    return [_shortened(element) for element in value] if isinstance(value, list) else value


def invalid_request(errors: Iterable[Mapping[str, Any]]) -> InvalidRequest:
    """Pydantic's errors as a problem that names each field and what is wrong with it."""
    fields = [{"field": _field_name(error), "problem": _message(error)} for error in errors]
    return InvalidRequest("; ".join(f"{field['field']}: {field['problem']}" for field in fields), fields)


def _field_name(error: Mapping[str, Any]) -> str:
    path = error["loc"]
    if len(path) > 1 and path[0] in ("body", "query", "path"):  # alone it is the name of a form's field
        path = path[1:]
    steps = [str(step) for step in path if step not in ("", "[key]")]  # these mark a name that is itself wrong
    return "body" if error["type"] == "json_invalid" or not steps else ".".join(steps)


def _message(error: Mapping[str, Any]) -> str:
    match error["type"]:
        case "json_invalid":
            return f"is not JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
        case "missing" if error["loc"] == ("body",):
            return "is missing; send a JSON object with Content-Type application/json"
        case "missing":
            return "is missing"
        case "model_attributes_type" | "dict_type" | "model_type":
            problem = "must be a JSON object"
            return f"{problem}, sent with Content-Type application/json" if error["loc"] == ("body",) else problem
    return plain_message(error)


def problem_responses(*kinds: type[Problem]) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer with these problems."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for kind in kinds:
        example = {
            "type": f"urn:regard:problem:{kind.kind}",
            "title": kind.title,
            "status": kind.status,
            "detail": (kind.__doc__ or "").partition("\n")[0],
            "instance": "urn:regard:request:4f1c0d0c2f6a4a57b8c9",
        }
        entry = by_status.setdefault(kind.status, _entry())
        entry["description"] = "; ".join(filter(None, [entry["description"], kind.title]))
        entry["content"][PROBLEM_JSON]["examples"][kind.kind] = {"value": example}
        if kind.status in LATER:
            entry["headers"] = {
                "Retry-After": {"description": "Seconds to wait before asking again.", "schema": {"type": "integer"}}
            }
    return by_status


def _entry() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemAnswer"}
    return {"description": "", "content": {PROBLEM_JSON: {"schema": schema, "examples": {}}}}
