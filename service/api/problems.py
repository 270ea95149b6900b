"""Problems as responses, and as entries of the OpenAPI document."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Response

from service.errors import InvalidRequest, Problem

PROBLEM_JSON = "application/problem+json"


def response_of(problem: Problem, instance: str) -> Response:
    """The problem document with its status."""
    return Response(
        json.dumps(problem.document(instance)),
        status_code=problem.status,
        headers=problem.headers,
        media_type=PROBLEM_JSON,
    )


def invalid(errors: Iterable[Mapping[str, Any]]) -> InvalidRequest:
    """Pydantic's errors in words, each with the field it concerns."""
    fields = [{"field": _field(error), "problem": _words(error)} for error in errors]
    return InvalidRequest("; ".join(f"{one['field']}: {one['problem']}" for one in fields), fields)


def _field(error: Mapping[str, Any]) -> str:
    path = error["loc"][1:] if error["loc"][:1] in {("body",), ("query",), ("path",)} else error["loc"]
    return "body" if error["type"] == "json_invalid" or not path else ".".join(map(str, path))


def _words(error: Mapping[str, Any]) -> str:
    match error["type"]:
        case "json_invalid":
            return f"is not JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
        case "missing" if error["loc"] == ("body",):
            return "is missing; send a JSON object with Content-Type application/json"
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not a field of this request"
    return str(error["msg"]).removeprefix("Value error, ")


def problems(*kinds: type[Problem]) -> dict[int | str, dict[str, Any]]:
    """What a route declares it may answer instead of what was asked for."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for kind in kinds:
        example = {
            "type": f"urn:regard:problem:{kind.kind}",
            "title": kind.title,
            "status": kind.status,
            "detail": (kind.__doc__ or "").strip(),
            "instance": "urn:regard:request:4f1c0d0c2f6a4a57b8c9",
        }
        entry = by_status.setdefault(kind.status, _entry())
        entry["description"] = "; ".join(filter(None, [entry["description"], kind.title]))
        entry["content"][PROBLEM_JSON]["examples"][kind.kind] = {"value": example}
    return by_status


def _entry() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemAnswer"}
    return {"description": "", "content": {PROBLEM_JSON: {"schema": schema, "examples": {}}}}
