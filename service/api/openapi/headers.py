"""The headers of answers in the OpenAPI document."""

from typing import Any


def _header(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "example": example}


HEADERS = {
    "Location": _header("Where to follow what was accepted.", "/jobs/7c1f6a4be0d94b0f8a6f4c0d0c2f6a4a"),
    "ETag": _header("To be sent as `If-None-Match`.", '"9f09fd16cbd706a9aab135c6461c5b5a"'),
    "Last-Modified": _header("To be sent as `If-Modified-Since`.", "Thu, 26 Nov 2026 12:00:00 GMT"),
    "Accept-Ranges": _header("Parts can be asked for, by `Range`.", "bytes"),
    "Content-Range": _header("The part that this is, and the size of all.", "bytes 0-1023/48213"),
    "No-Content-Range": _header("The size of all.", "bytes */48213"),
    "WWW-Authenticate": _header("How to send a key.", 'Bearer realm="regard"'),
    "Set-Cookie": _header("The session's cookie.", "regard_session=..; HttpOnly; Path=/; SameSite=strict"),
}


def add_headers(operation: dict[str, Any]) -> None:
    """Document the headers that the operation's answers have besides those of every answer."""
    answers = operation["responses"]
    if "416" in answers:  # a file
        _add(answers["200"], "ETag", "Last-Modified", "Accept-Ranges")
        _add(answers["206"], "ETag", "Last-Modified", "Accept-Ranges", "Content-Range")
        _add(answers["304"], "ETag")
        answers["416"].setdefault("headers", {})["Content-Range"] = _reference("No-Content-Range")
    if "202" in answers:
        _add(answers["202"], "Location")
    if "401" in answers:
        _add(answers["401"], "WWW-Authenticate")
    if operation["operationId"] in ("sign_in", "sign_out"):
        _add(next(answer for status, answer in answers.items() if status.startswith("2")), "Set-Cookie")


def _add(answer: dict[str, Any], *names: str) -> None:
    answer.setdefault("headers", {}).update({name: _reference(name) for name in names})


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}"}
