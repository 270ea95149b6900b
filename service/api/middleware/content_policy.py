"""Headers that tell browsers how far an answer may be trusted: what it may load, who may embed it, what it is."""

from http import HTTPStatus

# Data: nothing is loaded from it. A picture opened by itself is a document of its own: it gets no origin and no script.
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
PAGE_SOURCES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "manifest-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
"""Sources of pages: built files of this origin, pictures of it or chosen by the user; nothing inline, no other."""
PAGE_POLICY = "; ".join(f"{directive} {value}" for directive, value in PAGE_SOURCES.items())

EVERY_ANSWER = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


def content_security_policy(media_type: str) -> str:
    """The Content-Security-Policy of an answer of this media type."""
    if media_type.startswith("image/"):
        return PICTURE_POLICY
    return PAGE_POLICY if media_type.startswith("text/html") else DATA_POLICY


def protective_headers(status: int, given: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that an answer with the `given` ones lacks; those that a route set itself stay.

    An answer that the client's copy is still right (304) has no type, and says nothing of how far that copy may be
    trusted: browsers put the headers of such an answer in the place of the copy's own (RFC 9111, section 3.2).
    """
    names = {name.lower() for name, _ in given}
    wanted = dict(EVERY_ANSWER)
    if status != HTTPStatus.NOT_MODIFIED:
        media_type = next((value.decode("latin-1") for name, value in given if name.lower() == b"content-type"), "")
        wanted["Content-Security-Policy"] = content_security_policy(media_type)
    lower = {name.lower().encode("ascii"): value.encode("ascii") for name, value in wanted.items()}
    return [(name, value) for name, value in lower.items() if name not in names]
