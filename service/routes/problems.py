"""Problems as responses, and as entries of the OpenAPI document."""

import json
from typing import Any

from fastapi import Response

from service.errors import Problem

PROBLEM_JSON = "application/problem+json"


def response_of(problem: Problem, instance: str) -> Response:
    """The problem document with its status."""
    return Response(
        json.dumps(problem.document(instance)),
        status_code=problem.status,
        headers=problem.headers,
        media_type=PROBLEM_JSON,
    )


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
