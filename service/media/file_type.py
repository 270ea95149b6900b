"""The type of an uploaded file, from its first bytes, with advice for files that are not accepted."""

import codecs
from pathlib import Path

import PIL.Image

from service.errors import UnreadablePicture
from service.media.file_parts import TooManyParts, check_parts
from service.media.formats import open_picture
from service.media.pixels import DECODE_ERRORS
from service.media.raw_preview import RAW_EXTENSION, RAW_FORMAT

EXTENSIONS = {
    "JPEG": "jpg",
    "MPO": "jpg",  # a JPEG followed by further pictures, as from phones
    "PNG": "png",
    "WEBP": "webp",
    "BMP": "bmp",
    "TIFF": "tif",
    "GIF": "gif",
    "AVIF": "avif",
    "HEIF": "heic",
    RAW_FORMAT: RAW_EXTENSION,
}
ACCEPTED = "JPEG, PNG, WebP, HEIC, AVIF, BMP, TIFF or GIF"
WHOLE_OR_JPEG = "upload a complete copy, or export it as JPEG."

# Signatures of files that are not accepted: offset, bytes, advice.
SIGNATURES = (
    (0, b"PK", "This is a ZIP archive: unpack it and upload the pictures in it."),
    (0, b"\x1f\x8b", "This is a gzip archive: unpack it and upload the pictures in it."),
    (0, b"Rar!", "This is a RAR archive: unpack it and upload the pictures in it."),
    (0, b"7z\xbc\xaf", "This is a 7-Zip archive: unpack it and upload the pictures in it."),
    (0, b"%PDF", f"This is a PDF document: save its pages as {ACCEPTED} files."),
    (4, b"ftyphe", f"This HEIC picture is damaged, or not coded as phones do: {WHOLE_OR_JPEG}"),
    (4, b"ftypmif1", f"This HEIF picture is damaged, or not coded as phones do: {WHOLE_OR_JPEG}"),
    (4, b"ftypmsf1", "This is a HEIF sequence that cannot be read: export one picture of it as JPEG."),
    (4, b"ftypavi", f"This AVIF picture is damaged, or of a kind that is not read: {WHOLE_OR_JPEG}"),
    (4, b"ftyp", f"This is a film: upload single pictures of it as {ACCEPTED}."),
    (4, b"jP  ", f"This is a JPEG 2000 picture: export it as {ACCEPTED}."),
    (0, b"\xff\x0a", f"This is a JPEG XL picture: export it as {ACCEPTED}."),
)


def check_header(path: Path) -> None:
    """Raises UnreadablePicture for a picture whose many parts would take long to read."""
    try:
        with path.open("rb") as file:
            check_parts(file)
    except TooManyParts as error:
        raise UnreadablePicture(f"The picture is not read, as {error}: save it anew with another program.") from None


def image_extension(path: Path, max_pixels: int) -> str:
    """The file name extension for the picture's format. Reads only the header; runs in a decoding process.

    UnreadablePicture, with advice, for a file that is no accepted picture, or has more than `max_pixels`.
    """
    try:
        check_header(path)
        with open_picture(path) as image:
            width, height = image.size
            extension = EXTENSIONS[image.format or ""]
    except PIL.UnidentifiedImageError:
        raise UnreadablePicture(_advice(path)) from None
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning):
        raise UnreadablePicture(
            f"The picture has many more pixels than {_megapixels(max_pixels)}: save it smaller."
        ) from None
    except (OSError, Warning, *DECODE_ERRORS) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the system: Pillow's own have no number
        raise UnreadablePicture(f"The file is damaged ({error}): upload a sound copy.") from None
    if width * height > max_pixels:
        raise UnreadablePicture(
            f"The picture has {width} x {height} pixels, more than {_megapixels(max_pixels)}: save it smaller."
        )
    return extension


def _megapixels(pixels: int) -> str:
    return f"{pixels / 1e6:g} megapixels"


def _advice(path: Path) -> str:
    """The kind of file that this is instead of a picture, and what to do."""
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        return "The file is empty: the copy or upload was cut; upload it again."
    if not any(head):
        return "The file holds nothing but zeros: it was damaged while copying; take it from its source again."
    for offset, signature, advice in SIGNATURES:
        if head.startswith(signature, offset):
            return advice
    if _is_text(head):
        return f"This is text, not a picture, whatever its name says: upload {ACCEPTED} files."
    return f"This is no picture of a kind that is read here: upload {ACCEPTED} files."


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # incremental, since the last character may be cut
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)
