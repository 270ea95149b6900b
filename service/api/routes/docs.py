"""The description of the routes as a page made from the OpenAPI document; it loads nothing but its style."""

import functools

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from service.api.openapi.docs_page import STYLE, docs_page

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def show_docs(request: Request) -> HTMLResponse:
    """The description of the API as a page for browsers."""
    return HTMLResponse(_page(request.app.openapi))


@router.get("/docs/style.css")
def show_style() -> Response:
    """The style of the page."""
    return Response(STYLE, media_type="text/css", headers={"Cache-Control": "max-age=3600"})


@functools.lru_cache(maxsize=2)
def _page(document: object) -> str:
    assert callable(document)
    return docs_page(document())
