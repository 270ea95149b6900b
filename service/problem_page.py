"""Problems as pages, for people who open an address in a browser."""

import html
from collections.abc import Mapping
from typing import Any

from service.errors import Problem

HTML = "text/html; charset=utf-8"


def is_opened_by_browser(scope: Mapping[str, Any]) -> bool:
    """Whether a browser requests a page for display, as neither programs nor scripts of a page do."""
    is_navigation = (b"sec-fetch-mode", b"navigate") in scope.get("headers", ())
    return is_navigation and scope.get("method") in ("GET", "HEAD")


def problem_page(problem: Problem, reload_s: int | None = None) -> str:
    """The problem's document as a page, which reloads after `reload_s` seconds if given."""
    title, detail = html.escape(problem.title), html.escape(problem.detail)
    # A script, since the header `Refresh` does not reload an address with a fragment, such as that of a question.
    script = f"<script>setTimeout(() => location.reload(), {1000 * reload_s})</script>\n" if reload_s else ""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title} \N{MIDDLE DOT} Regard</title>\n<h1>{title}</h1>\n<p>{detail}</p>\n"
        f'<p><a href="/">Regard</a></p>\n{script}'
    )
