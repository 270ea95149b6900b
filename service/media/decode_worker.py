"""A process that decodes pictures for a DecodePool, which limits its time and ends it when it misbehaves.

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

FRAME_HEADER = struct.Struct("<II")  # lengths of the JSON object and of the bytes after it


def read_frame(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next request; None at the end of the stream."""
    head = stream.read(FRAME_HEADER.size)
    if len(head) < FRAME_HEADER.size:
        return None
    request: dict[str, Any] = json.loads(stream.read(FRAME_HEADER.unpack(head)[0]))
    return request


def write_frame(stream: IO[bytes], message: dict[str, Any], body: bytes = b"") -> None:
    """Send one frame."""
    text = json.dumps(message).encode()
    stream.write(FRAME_HEADER.pack(len(text), len(body)) + text)
    stream.write(body)
    stream.flush()


def handle_request(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The reply to one request: the reduced picture as pixels, or the full one as JPEG where `render` says so."""
    try:
        decoded = pixels.decode_file(request["path"], None if request["render"] else pixels.DETECTOR_SIDE)
    except MemoryError:
        return {"reason": "Decoding the picture takes more memory than is allowed.", "final": False}, b""
    except OSError as error:
        # Pillow's own complaints carry no error number: those with one are the system's.
        if error.errno is not None:
            return {"reason": f"The stored file cannot be read: {error.strerror}.", "final": False}, b""
        return damaged_reply(error), b""
    except pixels.DECODE_ERRORS as error:
        return damaged_reply(error), b""
    if request["render"]:
        return {}, pixels.encode_jpeg(decoded.picture, quality=92)
    message: dict[str, Any] = {
        "size": decoded.size,
        "reduced": decoded.picture.size,
        "taken_at": decoded.taken_at,
    }
    if request["thumbnail"] is not None:
        try:
            pixels.write_thumbnail(decoded.picture, Path(request["thumbnail"]))
        except OSError as error:  # the disk's fault, and not to be counted against the picture
            message["disk"] = str(error)
    return message, decoded.picture.tobytes()


def damaged_reply(error: BaseException) -> dict[str, Any]:
    """The reply for a file that opens as a picture and does not decode."""
    reason = f"The file is damaged or cut short ({error}); upload a complete copy of it."
    return {"reason": reason, "final": True}


def set_limits(memory_bytes: int, max_pixels: int) -> None:
    """Limit this process in memory and pixels, without core files; signals meant for its parent are ignored."""
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
    set_limits(memory_bytes, max_pixels)
    # A library that prints must not write into the replies.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    write_frame(replies, {"ready": True})
    while (request := read_frame(sys.stdin.buffer)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)  # ends this process also when its parent is gone
        reply = handle_request(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(replies, *reply)


if __name__ == "__main__":
    main()
