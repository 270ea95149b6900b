"""Strict query parameters: unknown ones are refused, as unknown fields of a body are, since most are misspelt. So are
repeated ones, and numbers in a notation that only Python reads."""

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from service.errors import InvalidRequest

NO_PARAMETERS = "is not a parameter of this request, which has none in its address"


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of routes. InvalidRequest names all unknown parameters, or the first that is repeated or is not the
    number it should be."""
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    kinds = dict(_parameters(route.dependant))
    known = sorted(kinds)
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        problem = f"is not a parameter of this request; it has {', '.join(known)}" if known else NO_PARAMETERS
        raise InvalidRequest(
            "; ".join(f"{name}: {problem}" for name in unknown),
            [{"field": name, "problem": problem} for name in unknown],
        )
    if repeated := next((name for name in known if len(request.query_params.getlist(name)) > 1), None):
        raise InvalidRequest.field(repeated, "is given twice; give it once")
    for name, value in request.query_params.items():
        if kinds[name] is int and (fault := no_number(value)) is not None:
            raise InvalidRequest.field(name, fault)


def no_number(value: str) -> str | None:
    """The fault of a number with underscores between digits, which Python would accept; None without."""
    return f"must be a number, and {value!r} is none" if "_" in value else None


def _parameters(dependant: Dependant) -> Iterator[tuple[str, Any]]:
    """The names and types of a route's query parameters, including those of its dependencies."""
    yield from ((field.alias, field.field_info.annotation) for field in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _parameters(dependency)
