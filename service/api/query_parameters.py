"""Query parameters that a route does not know are refused, as unknown fields of a body are: mostly misspelt ones. So
are those that are given twice, as in a form."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from service.errors import InvalidRequest

NO_PARAMETERS = "is not a parameter of this request, which has none in its address"


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of routes; InvalidRequest names each parameter that the route does not have, or has once alone."""
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = sorted(set(_parameters(route.dependant)))
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        said = f"is not a parameter of this request; it has {', '.join(known)}" if known else NO_PARAMETERS
        raise InvalidRequest(
            "; ".join(f"{name}: {said}" for name in unknown), [{"field": name, "problem": said} for name in unknown]
        )
    if twice := next((name for name in known if len(request.query_params.getlist(name)) > 1), None):
        raise InvalidRequest.field(twice, "is given twice; give it once")


def _parameters(dependant: Dependant) -> Iterator[str]:
    """The names of the query parameters of a route, those of its dependencies included."""
    yield from (field.alias for field in dependant.query_params)
    for other in dependant.dependencies:
        yield from _parameters(other)
