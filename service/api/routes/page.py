"""The page at `/`, and the built files that it loads: the same for everybody, without any data."""

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, Request, Response

import service
from service.api.file_response import not_modified
from service.errors import NotFound

router = APIRouter(include_in_schema=False)

BUILT = Path(service.__path__[0]) / "web"
START = "index.html"
PAGE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@router.get("/")
def show_page(request: Request) -> Response:
    """The page itself."""
    return built_file(request, START)


@router.get("/page/{name}")
def show_part(name: str, request: Request) -> Response:
    """A file that the page loads."""
    return built_file(request, name)


def built_file(request: Request, name: str) -> Response:
    """A built file, which browsers revalidate each time. Raises NotFound where there is none of that name."""
    if name not in built_files():
        raise NotFound(f"The page has no file {name}.")
    content, tag = built_files()[name]
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    fresh = Response(content, media_type=PAGE_TYPES[Path(name).suffix], headers=headers)
    return not_modified(request, {**headers, "Vary": "Accept-Encoding"}) or fresh


@functools.cache
def built_files() -> Mapping[str, tuple[bytes, str]]:
    """Name -> content and ETag of every built file."""
    contents = {path.name: path.read_bytes() for path in BUILT.iterdir() if path.suffix in PAGE_TYPES}
    return {name: (content, f'"{hashlib.sha256(content).hexdigest()[:16]}"') for name, content in contents.items()}
