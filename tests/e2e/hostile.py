"""Files that are not what they seem, and a multipart body that says exactly what a test wants said."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import PIL.Image

from tests.e2e.pictures import painted
from tests.support.pictures import encoded

MB = 2**20
BOUNDARY = b"regard-test-boundary"


@dataclass(frozen=True)
class Upload:
    """One part of a body: its name as the bytes in the header, its content repeated `times`."""

    name: bytes
    content: bytes
    times: int = 1


def body(uploads: Sequence[Upload]) -> Iterator[bytes]:
    """The multipart body, streamed; names are not escaped."""
    for upload in uploads:
        yield b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="images"; filename="'
        yield upload.name + b'"\r\nContent-Type: application/octet-stream\r\n\r\n'
        for _ in range(upload.times):
            yield upload.content
        yield b"\r\n"
    yield b"--" + BOUNDARY + b"--\r\n"


def chunk(kind: bytes, content: bytes) -> bytes:
    """One chunk of a PNG."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def one_colour_png(side: int) -> bytes:
    """A grey PNG of side x side pixels, a few hundred kilobytes whatever it unfolds to."""
    packer, rows = zlib.compressobj(9), []
    for _ in range(side):
        rows.append(packer.compress(bytes(side + 1)))
    rows.append(packer.flush())
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"".join(rows)) + chunk(b"IEND", b"")


def endless_gif(frames: int) -> bytes:
    """A small animation of that many frames."""
    pair = [PIL.Image.new("P", (48, 48), colour) for colour in (0, 1)]
    for frame in pair:
        frame.putpalette([200, 30, 30, 30, 30, 200])
    rest = [pair[number % 2] for number in range(1, frames)]
    return encoded(pair[0], "GIF", save_all=True, append_images=rest, duration=20)


def archive() -> bytes:
    """A zip file with a picture in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as folder:
        folder.writestr("picture.png", painted(1, seed=9)[0].content)
    return buffer.getvalue()


def bad_files() -> dict[str, Upload]:
    """Files that cannot be ingested, by their fault."""
    photograph = encoded(PIL.Image.effect_noise((400, 300), 80).convert("RGB"), "JPEG")
    return {
        "empty": Upload(b"empty.jpg", b""),
        "text": Upload(b"notes.jpg", b"Dear diary, this is no picture.\n" * 40),
        "truncated": Upload(b"truncated.jpg", photograph[: len(photograph) // 2]),
        "huge": Upload(b"huge.png", one_colour_png(20_000)),
        "archive": Upload(b"archive.zip", archive()),
        "zeros": Upload(b"zeros.jpg", bytes(MB), times=300),
    }


def bad_names(outside: str, content: bytes) -> list[Upload]:
    """One picture under names that would do harm as paths; one leads to the folder `outside`."""
    climbing = [b"../../../climbing.png", b"..\\..\\climbing.png", b"%2e%2e%2fclimbing.png", b".."]
    others = [outside.encode() + b"/absolute.png", b"nul\x00.png", b"nul%00.png", b"n" * 4000 + b".png", b""]
    return [Upload(name, content) for name in (*climbing, *others)]
