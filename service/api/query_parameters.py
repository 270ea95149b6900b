"""Query parameters that a route does not know are refused, as unknown fields of a body are: mostly misspelt ones. So
are those that are given twice, as in a form, and numbers that are not written as such."""

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from service.errors import InvalidRequest

NO_PARAMETERS = "is not a parameter of this request, which has none in its address"


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of routes; InvalidRequest names each parameter that the route does not have, or the first one that
    is given twice, or is no number where it has one."""
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    kinds = dict(_parameters(route.dependant))
    known = sorted(kinds)
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        said = f"is not a parameter of this request; it has {', '.join(known)}" if known else NO_PARAMETERS
        raise InvalidRequest(
            "; ".join(f"{name}: {said}" for name in unknown), [{"field": name, "problem": said} for name in unknown]
        )
    if twice := next((name for name in known if len(request.query_params.getlist(name)) > 1), None):
        raise InvalidRequest.field(twice, "is given twice; give it once")
    for name, value in request.query_params.items():
        if kinds[name] is int and (fault := no_number(value)) is not None:
            raise InvalidRequest.field(name, fault)


def no_number(value: str) -> str | None:
    """The fault of a number that Python would read all the same, passing over what stands between digits; else None."""
    return f"must be a number, and {value!r} is none" if "_" in value else None


def _parameters(dependant: Dependant) -> Iterator[tuple[str, Any]]:
    """The names of the query parameters of a route and their types, those of its dependencies included."""
    yield from ((field.alias, field.field_info.annotation) for field in dependant.query_params)
    for other in dependant.dependencies:
        yield from _parameters(other)
