"""Pictures of any mode and profile as upright sRGB pixels, the same in training, evaluation and service."""

import PIL.Image

from models.colour_profiles import to_srgb

LONGEST_SIDE = 1333  # pixels of a picture for a detector

ORIENTATION = 0x0112  # the EXIF tag
TRANSPOSE_OF = {  # EXIF orientation -> operation that turns the picture upright
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}


def upright_rgb(image: PIL.Image.Image, orientation: int, size: tuple[int, int] | None = None) -> PIL.Image.Image:
    """A loaded picture in sRGB, white where it is transparent, and turned by its EXIF orientation; reduced to `size`
    before it is turned, unless that is None."""
    profile = image.info.get("icc_profile")
    picture = image if image.mode == "CMYK" and profile else to_direct_colours(image)
    if size is not None:
        picture = downscale(picture, size)
    picture = to_srgb(picture, profile)  # after downscaling, since fewer pixels are faster to convert
    if picture.mode == "RGBA":
        picture = composite_on_white(picture)
    elif picture.mode != "RGB" or picture is image:
        picture = picture.convert("RGB")
    return picture.transpose(TRANSPOSE_OF[orientation]) if orientation in TRANSPOSE_OF else picture


def size_within(size: tuple[int, int], side: int) -> tuple[int, int]:
    """`size` with its longest side at most `side`; no side becomes zero."""
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def downscale(picture: PIL.Image.Image, size: tuple[int, int]) -> PIL.Image.Image:
    """The picture at a smaller size: reduced by a whole number first, for speed, then resampled."""
    if picture.size == size:
        return picture
    return picture.resize(size, PIL.Image.Resampling.BICUBIC, reducing_gap=2.0)


def to_direct_colours(image: PIL.Image.Image) -> PIL.Image.Image:
    """The image as L, RGB or RGBA, whatever its mode: values that can be averaged, unlike a palette's."""
    if image.mode.startswith("I;16"):
        numbers = image if image.mode == "I;16" else image.convert("I")  # Pillow scales no other byte order
        return numbers.point(lambda value: value / 256).convert("L")
    if image.mode in ("I", "F"):
        return to_eight_bits(image)
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


def to_eight_bits(image: PIL.Image.Image) -> PIL.Image.Image:
    """A single band of 16 or 32 bits as L, scaled from the range of 16-bit values, or else from its actual range."""
    low, high = image.getextrema()
    assert not isinstance(low, tuple)  # a single band
    assert not isinstance(high, tuple)
    if image.mode == "I" and low >= 0 and 255 < high < 2**16:
        low, high = 0, 2**16 - 1
    scale = 255 / (high - low) if high > low else 0.0
    return image.point(lambda value: value * scale - low * scale).convert("L")


def composite_on_white(picture: PIL.Image.Image) -> PIL.Image.Image:
    """An RGBA picture as RGB, white where it is transparent."""
    white = PIL.Image.new("RGB", picture.size, "white")
    white.paste(picture, mask=picture.getchannel("A"))
    return white
