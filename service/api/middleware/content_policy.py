"""Security headers: what an answer may load, who may embed it, and that its type is not to be guessed."""

from http import HTTPStatus

# Data may load nothing. A picture that is opened by itself is a document: it gets neither an origin nor scripts.
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
    "frame-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
"""Sources of pages: built files and pictures of this origin, and pictures chosen by the user; nothing inline. A
frame, in which nothing may be shown (X-Frame-Options), takes downloads."""
PAGE_POLICY = "; ".join(f"{directive} {value}" for directive, value in PAGE_SOURCES.items())

EVERY_ANSWER = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
DOWNLOAD_IN_FRAME = {
    "X-Frame-Options": "SAMEORIGIN",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'self'",
}
"""Of a file that the page downloads by a frame of its own: Safari refuses it otherwise, although it shows nothing."""


def content_security_policy(media_type: str) -> str:
    """The Content-Security-Policy of an answer of this media type."""
    if media_type.startswith("image/"):
        return PICTURE_POLICY
    return PAGE_POLICY if media_type.startswith("text/html") else DATA_POLICY


def protective_headers(status: int, present: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The security headers that an answer lacks besides those `present`, such as a route's own.

    A 304 has no media type, and so gets no Content-Security-Policy: browsers would replace that of their copy with it
    (RFC 9111, section 3.2).
    """
    names = {name.lower() for name, _ in present}
    headers = dict(EVERY_ANSWER)
    if status != HTTPStatus.NOT_MODIFIED:
        media_type = next((value.decode("latin-1") for name, value in present if name.lower() == b"content-type"), "")
        headers["Content-Security-Policy"] = content_security_policy(media_type)
    lower = {name.lower().encode("ascii"): value.encode("ascii") for name, value in headers.items()}
    return [(name, value) for name, value in lower.items() if name not in names]
