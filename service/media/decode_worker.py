"""A process that decodes pictures for another one, which limits it and ends it when it misbehaves.

It imports Pillow alone, so that it starts in a tenth of a second. Requests come on stdin, answers leave on
stdout: both are frames, a JSON object and bytes behind their lengths. The process ends with its stdin.
"""

import json
import os
import resource
import signal
import struct
import sys
import warnings
from pathlib import Path
from typing import IO, Any

import PIL.Image

from service.media import pixels

HEAD = struct.Struct("<II")  # lengths of the JSON object and of the bytes after it


def read_frame(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next request; None at the end of the stream."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    request: dict[str, Any] = json.loads(stream.read(HEAD.unpack(head)[0]))
    return request


def write_frame(stream: IO[bytes], message: dict[str, Any], body: bytes = b"") -> None:
    """Send one frame."""
    text = json.dumps(message).encode()
    stream.write(HEAD.pack(len(text), len(body)) + text)
    stream.write(body)
    stream.flush()


def answer(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What to reply: the reduced picture as pixels, or the full one as JPEG where `render` says so."""
    try:
        found = pixels.read(request["path"], None if request["render"] else pixels.PICTURE_SIDE)
    except MemoryError:
        return {"reason": "Decoding the picture takes more memory than is allowed.", "final": False}, b""
    except OSError as error:
        # Pillow's own complaints carry no error number: those with one are the system's.
        if error.errno is not None:
            return {"reason": f"The stored file cannot be read: {error.strerror}.", "final": False}, b""
        return damaged(error), b""
    except pixels.DAMAGE as error:
        return damaged(error), b""
    if request["render"]:
        return {}, pixels.jpeg(found.picture, quality=92)
    message: dict[str, Any] = {
        "size": found.size,
        "reduced": found.picture.size,
        "taken_at": found.taken_at,
    }
    if request["thumbnail"] is not None:
        try:
            pixels.write_thumbnail(found.picture, Path(request["thumbnail"]))
        except OSError as error:  # the disk's fault, and not to be counted against the picture
            message["disk"] = str(error)
    return message, found.picture.tobytes()


def damaged(error: BaseException) -> dict[str, Any]:
    """The answer for a file that opens as a picture and does not decode."""
    reason = f"The file is damaged or cut short ({error}); upload a complete copy of it."
    return {"reason": reason, "final": True}


def limit(memory_bytes: int, max_pixels: int) -> None:
    """Bind this process: memory, pixels, no core files; signals meant for its parent do not concern it."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    PIL.Image.MAX_IMAGE_PIXELS = max_pixels
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)


def main() -> None:
    """Answer requests until stdin ends."""
    memory_bytes, max_pixels, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    limit(memory_bytes, max_pixels)
    # A library that prints must not write into the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    write_frame(answers, {"ready": True})
    while (request := read_frame(sys.stdin.buffer)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)  # ends this process also when its parent is gone
        reply = answer(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(answers, *reply)


if __name__ == "__main__":
    main()
