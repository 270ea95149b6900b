"""Problems as pages, for people who open an address in a browser."""

import html
from collections.abc import Iterable

from service.errors import Problem

HTML = "text/html; charset=utf-8"


def is_opened_by_browser(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a browser asks for a page to show to somebody, which no program and no script of a page says."""
    return any(name == b"sec-fetch-mode" and value == b"navigate" for name, value in headers)


def problem_page(problem: Problem) -> str:
    """The page that says what the problem's document says."""
    title, detail = html.escape(problem.title), html.escape(problem.detail)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title} \N{MIDDLE DOT} Regard</title>\n<h1>{title}</h1>\n<p>{detail}</p>\n"
        '<p><a href="/">Regard</a></p>\n'
    )
