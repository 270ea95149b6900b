"""A process that decodes pictures for a DecodePool, which limits its time and ends it when it misbehaves.

It imports only Pillow, libheif and an XML parser (LibRaw with the first RAW file), so that it starts in a fifth of a
second. Then it gives up all rights that decoding does not need (`sandbox.py`): it can only open files for reading and
reply. Requests come on stdin, replies go to stdout; both are frames: the lengths of a JSON object and of a body, then
these two. The process ends with its stdin.
"""

import json
import os
import resource
import signal
import struct
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import PIL.Image

from models.pictures import LONGEST_SIDE
from service.errors import UnreadablePicture
from service.media import pixels
from service.media.file_type import check_header, image_extension
from service.media.formats import register_formats
from service.media.raw_preview import RAW_EXTENSION
from service.media.sandbox import restrict_process
from service.media.strip_metadata import strip_metadata

FRAME_HEADER = struct.Struct("<II")  # lengths of the JSON object and of the bytes after it
LONGEST_REASON = 500  # characters
MAY_MOVE = ("gif", "png", "webp")  # extensions of possible animations, displayed by the first frame, as searched
ENCODED_AGAIN = ("tif", "avif", "heic")  # extensions of formats displayed as a JPEG, and decoded only at full size
LONGEST_JPEG_SIDE = 65_500  # pixels, a limit of libjpeg
LARGEST_STRIPPED_FILE = 256 * 2**20  # bytes of a file without metadata, perhaps re-encoded
# Errors that mean an unaccepted kind of file rather than a damaged one.
NO_SUCH_PICTURE = (
    PIL.UnidentifiedImageError,
    PIL.Image.DecompressionBombError,
    PIL.Image.DecompressionBombWarning,
)

Reply = tuple[dict[str, Any], list[bytes]]


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


def handle_request(request: dict[str, Any], max_pixels: int) -> Reply:
    """The reply to one request: the result of `inspect` or `decode`, or the reason why there is none."""
    try:
        if request["do"] == "inspect":
            return inspect(Path(request["path"]), max_pixels)
        return decode(request)
    except UnreadablePicture as problem:  # a RAW file whose reader is no longer installed
        reply = {"reason": problem.detail[:LONGEST_REASON], "final": True}
    except MemoryError:
        reply = {"reason": "Decoding the picture takes more memory than is allowed.", "final": False}
    except OSError as error:
        # Pillow's own errors have no error number, those of the system do.
        unreadable = {"reason": f"The stored file cannot be read: {error.strerror}.", "final": False}
        reply = damaged_reply(error, Path(request["path"]), max_pixels) if error.errno is None else unreadable
    except pixels.DECODE_ERRORS as error:
        reply = damaged_reply(error, Path(request["path"]), max_pixels)
    return reply, []


def inspect(path: Path, max_pixels: int) -> Reply:
    """The format of a file, from its header, or why it is refused."""
    PIL.Image.MAX_IMAGE_PIXELS = None  # nothing is decoded, and `image_extension` checks the limit
    try:
        return {"extension": image_extension(path, max_pixels)}, []
    except UnreadablePicture as problem:
        return {"unreadable": problem.detail[:LONGEST_REASON]}, []
    finally:
        PIL.Image.MAX_IMAGE_PIXELS = max_pixels


def decode(request: dict[str, Any]) -> Reply:
    """The requested parts: `pixels` reduced for the detector, a `thumbnail`, the `stripped` display copy."""
    message: dict[str, Any] = {}
    body: list[bytes] = []
    decoded = None
    if request["pixels"] or request["thumbnail"]:
        check_header(Path(request["path"]))
        large_side = LONGEST_JPEG_SIDE if request["stripped"] in ENCODED_AGAIN else None
        decoded = pixels.decode_file(request["path"], LONGEST_SIDE, request.get("coordinates", False), large_side)
        if request["pixels"]:
            message |= {"size": decoded.size, "reduced": decoded.picture.size, "taken_at": decoded.taken_at}
            message |= {"coordinates": decoded.coordinates} | decoded.description._asdict()
            body.append(decoded.picture.tobytes())
        if request["thumbnail"]:
            body.append(pixels.thumbnail_jpeg(decoded.picture))
    if request["stripped"] is not None:
        content, message["stripped"] = stripped_file(Path(request["path"]), request["stripped"], decoded)
        if len(content) > LARGEST_STRIPPED_FILE:
            reason = f"The picture takes more than {LARGEST_STRIPPED_FILE >> 20} MB as a JPEG: save it smaller."
            return {"reason": reason, "final": True}, []
        body.append(content)
    return message | {"parts": [len(part) for part in body]}, body


def stripped_file(path: Path, extension: str, decoded: pixels.DecodedFile | None) -> tuple[bytes, str]:
    """The picture's file without metadata, and its extension: `jpg` if it had to be re-encoded.

    `decoded` is the file if it was decoded before; for formats in ENCODED_AGAIN it includes the large picture.
    """
    # A RAW file's preview is decoded twice: it is a JPEG, which decodes quickly at a reduced size.
    if extension in (*ENCODED_AGAIN, RAW_EXTENSION) or (extension in MAY_MOVE and pixels.is_animated(str(path))):
        return encoded_again(path, decoded), "jpg"
    content = path.read_bytes()
    try:  # fails where the file's structure is irregular
        return strip_metadata(content, extension, decoded and decoded.orientation), extension
    except (ValueError, IndexError, struct.error):
        del content
        return encoded_again(path, decoded), "jpg"


def encoded_again(path: Path, decoded: pixels.DecodedFile | None) -> bytes:
    """The picture of a file as a JPEG, scaled down to the longest side of a JPEG if need be."""
    large = decoded and decoded.large
    return pixels.encode_jpeg(large or pixels.decode_file(str(path), LONGEST_JPEG_SIDE).picture, quality=92)


def damaged_reply(error: BaseException, path: Path, max_pixels: int) -> dict[str, Any]:
    """The reply for a file that does not decode: that it is no accepted picture, or else that it is damaged.

    A picture sent as a query has not been inspected before.
    """
    if isinstance(error, NO_SUCH_PICTURE):
        with suppress(OSError, MemoryError):
            refused, _ = inspect(path, max_pixels)
            if "unreadable" in refused:
                return {"reason": refused["unreadable"], "final": True}
    cause = str(error)[: LONGEST_REASON - 100]
    return {"reason": f"The file is damaged or cut short ({cause}); upload a complete copy of it.", "final": True}


def set_limits(memory_bytes: int, max_pixels: int) -> None:
    """Limit this process's memory, files and pixels, and disable core files; signals meant for its parent are
    ignored."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):  # Python ignores SIGXFSZ
        resource.setrlimit(limit, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    PIL.Image.MAX_IMAGE_PIXELS = max_pixels
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)


def silence() -> IO[bytes]:
    """The stream of replies; output printed by libraries is discarded, and enters neither the replies nor the log."""
    replies = os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_WRONLY)
    for handle in (1, 2):
        os.dup2(devnull, handle)
    os.close(devnull)
    return replies


def main() -> None:
    """Answer requests until stdin ends."""
    memory_bytes, max_pixels, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    register_formats()
    set_limits(memory_bytes, max_pixels)
    replies = silence()
    write_frame(replies, {"protection": restrict_process([Path(folder) for folder in sys.argv[4:]])})
    while (request := read_frame(sys.stdin.buffer)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)  # ends this process even if its parent is gone
        try:
            message, body = handle_request(request, max_pixels)
        except Exception as error:  # an internal fault: reported here, since nothing is printed
            message, body = {"fault": f"{type(error).__name__}: {error}"[:LONGEST_REASON]}, []
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(replies, message, b"".join(body))


if __name__ == "__main__":
    main()
