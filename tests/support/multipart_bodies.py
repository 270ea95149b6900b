"""Multipart forms as bytes, for tests of what reads them."""

import itertools
from collections.abc import AsyncIterator, Sequence

BOUNDARY = "the-boundary"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def part(name: str, content: bytes, filename: str | None = None) -> bytes:
    """One part of a form as a client writes it."""
    named = "" if filename is None else f'; filename="{filename}"'
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n'
    return head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n"


def multipart_body(*parts: bytes) -> bytes:
    """A whole form."""
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


async def pieces(content: bytes, cuts: Sequence[int] = ()) -> AsyncIterator[bytes]:
    """The content as it may come from a network, cut at these places."""
    places = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    for start, stop in itertools.pairwise(places):
        yield content[start:stop]
