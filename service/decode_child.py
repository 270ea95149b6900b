"""A process that decodes pictures for another one, which limits it and ends it when it misbehaves.

It imports Pillow alone, so that it starts in a tenth of a second. Requests come on stdin, answers leave on
stdout: both are frames, a JSON object and bytes behind their lengths. The process ends with its stdin.
"""

import io
import json
import os
import re
import resource
import signal
import struct
import sys
import warnings
import zlib
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import PIL.Image
from PIL import TiffImagePlugin, WebPImagePlugin  # noqa: F401 - Pillow would look for them among all plugins

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
PICTURE_SIDE = 1333  # pixels of the longest side given to a detector
THUMBNAIL_SIDE = 320

HEAD = struct.Struct("<II")  # lengths of the JSON object and of the bytes after it

ORIENTATION, EXIF_IFD, TAKEN, TAKEN_OFFSET = 0x0112, 0x8769, 0x9003, 0x9011
UPRIGHT = {
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}

# What Pillow's decoders raise on damaged files, beside an OSError without a number.
DAMAGE = (
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    struct.error,
    zlib.error,
    PIL.Image.DecompressionBombError,
    PIL.Image.DecompressionBombWarning,
)


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next frame; None at the end of the stream."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    text, body = HEAD.unpack(head)
    return json.loads(stream.read(text)), stream.read(body)


def write_frame(stream: IO[bytes], message: dict[str, Any], body: bytes = b"") -> None:
    """Send one frame."""
    text = json.dumps(message).encode()
    stream.write(HEAD.pack(len(text), len(body)))
    stream.write(text)
    stream.write(body)
    stream.flush()


def fitted(size: tuple[int, int], side: int) -> tuple[int, int]:
    """`size` reduced to a longest side of `side`, or as it is when smaller; no side becomes zero."""
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def upright(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """Width and height after the EXIF orientation is applied."""
    return (size[1], size[0]) if orientation >= 5 else size


def exif_of(image: PIL.Image.Image) -> tuple[int, float | None]:
    """EXIF orientation (1 to 8; 1 where it makes no sense) and when taken. Damaged EXIF is no EXIF."""
    try:
        exif = image.getexif()
        orientation, tags = exif.get(ORIENTATION, 1), exif.get_ifd(EXIF_IFD)
    except (OSError, *DAMAGE):
        return 1, None
    return (orientation if orientation in UPRIGHT else 1), taken_at(tags)


def taken_at(tags: dict[int, Any]) -> float | None:
    """DateTimeOriginal in unix seconds; a camera that names no zone is taken to show UTC."""
    match = re.match(r"(\d{4}):(\d\d):(\d\d) (\d\d:\d\d:\d\d)", str(tags.get(TAKEN, "")))
    zone = re.match(r"[+-]\d\d:\d\d", str(tags.get(TAKEN_OFFSET, "")))
    if not match:
        return None
    try:
        moment = datetime.fromisoformat("{}-{}-{}T{}".format(*match.groups()) + (zone.group() if zone else "+00:00"))
    except ValueError:  # 0000:00:00 00:00:00, as cameras without a clock write
        return None
    return moment.timestamp()


def direct_colours(image: PIL.Image.Image) -> PIL.Image.Image:
    """Any mode as L, RGB or RGBA, whose values may be averaged."""
    if image.mode.startswith("I;16"):
        return image.point(lambda value: value / 256).convert("L")
    if image.mode in ("I", "F"):
        low, high = image.getextrema()
        assert isinstance(low, float | int) and isinstance(high, float | int)  # one band
        if image.mode == "I" and 0 <= low and high < 2**16:
            low, high = 0, 2**16 - 1 if high > 255 else 255
        scale = 255 / (high - low) if high > low else 0
        return image.point(lambda value: value * scale - low * scale).convert("L")
    if image.mode == "RGBA" or image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


class Decoded(NamedTuple):
    """The first frame, upright, RGB (over white), and what the whole picture is."""

    picture: PIL.Image.Image
    size: tuple[int, int]
    taken_at: float | None


def decoded(path: str, side: int | None) -> Decoded:
    """Decode a file; the picture's longest side is at most `side` pixels, its size that of the full picture."""
    with PIL.Image.open(path, formats=FORMATS) as image:
        full = image.size
        _, taken = exif_of(image)
        if side is not None:
            image.draft("RGB", fitted(full, side))  # JPEG alone: decodes at a half, a quarter or an eighth
        image.load()
        if image.format == "TIFF":  # which Pillow turns upright while loading, forgetting the tag
            full = image.size
        orientation, _ = exif_of(image)
        picture = direct_colours(image)
        if side is not None:
            picture = picture.resize(fitted(full, side), PIL.Image.Resampling.BICUBIC, reducing_gap=2.0)
    if picture.mode == "RGBA":
        white = PIL.Image.new("RGB", picture.size, "white")
        white.paste(picture, mask=picture.getchannel("A"))
        picture = white
    if orientation in UPRIGHT:
        picture = picture.transpose(UPRIGHT[orientation])
    return Decoded(picture.convert("RGB"), upright(full, orientation), taken)


def jpeg(picture: PIL.Image.Image, quality: int) -> bytes:
    """The pixels as JPEG and nothing else: no EXIF, no profile, no comment."""
    picture.info.clear()  # comments and the like would be written again
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def write_thumbnail(picture: PIL.Image.Image, path: Path) -> None:
    """Write the thumbnail so that a reader finds the whole of it or nothing. It can be remade: no fsync."""
    small = picture.resize(fitted(picture.size, THUMBNAIL_SIDE), PIL.Image.Resampling.BICUBIC, reducing_gap=2.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(jpeg(small, quality=80))
    temporary.replace(path)


def answer(request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What to reply: the decoded picture as pixels, or as a JPEG of full size where `render` says so."""
    try:
        found = decoded(request["path"], None if request["render"] else PICTURE_SIDE)
    except MemoryError:
        return {"reason": "Decoding the picture takes more memory than is allowed.", "final": False}, b""
    except OSError as error:
        # Pillow's own complaints carry no error number: those with one are the system's.
        if error.errno is not None:
            return {"reason": f"The stored file cannot be read: {error.strerror}.", "final": False}, b""
        return {"reason": damaged(error), "final": True}, b""
    except DAMAGE as error:
        return {"reason": damaged(error), "final": True}, b""
    if request["render"]:
        return {}, jpeg(found.picture, quality=92)
    message: dict[str, Any] = {"size": found.size, "reduced": found.picture.size, "taken_at": found.taken_at}
    if request["thumbnail"] is not None:
        try:
            write_thumbnail(found.picture, Path(request["thumbnail"]))
        except OSError as error:
            message["disk"] = str(error)
    return message, found.picture.tobytes()


def damaged(error: BaseException) -> str:
    """The reason shown for a file that opens as a picture and does not decode."""
    return f"The file is damaged or cut short ({error}); upload a complete copy of it."


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
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    write_frame(answers, {"ready": True})
    while (frame := read_frame(requests)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)  # ends this process also when its parent is gone
        reply = answer(frame[0])
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(answers, *reply)


if __name__ == "__main__":
    main()
