"""Conversion of a picture's colour profile to sRGB, which screens show and networks are trained on."""

import io
from functools import cache, lru_cache
from itertools import product
from typing import Any

import PIL.Image
from PIL import ImageChops, ImageCms

LARGEST_PROFILE = 4 * 2**20  # bytes; those of presses and films take up to three megabytes
DEVICES = {"mntr", "scnr", "prtr", "spac"}  # other classes of profile do not describe a picture's colours
MODES = {"RGB": ("RGB", "RGBA"), "GRAY": ("L",), "CMYK": ("CMYK",)}  # colour space of a profile: modes it describes
LARGEST_UNSEEN = 2  # of 255: a profile that changes no colour by more is a variant of sRGB
BAD_PROFILE = (ImageCms.PyCMSError, OSError, ValueError, TypeError)
STEP = 17  # between two values of a channel of the test colours


def to_srgb(picture: PIL.Image.Image, profile: Any) -> PIL.Image.Image:
    """An L, RGB, RGBA or CMYK picture converted to sRGB; CMYK and L become RGB.

    The picture itself if that changes nothing, or if the profile is damaged, too large or of other modes.
    """
    if not isinstance(profile, bytes) or not 0 < len(profile) <= LARGEST_PROFILE:
        return picture
    try:
        transform = _transform(profile, picture.mode)
        return picture if transform is None else _applied(transform, picture)
    except BAD_PROFILE:
        return picture


@lru_cache(
    maxsize=4
)  # one camera's pictures come together, and making a transform mostly takes longer than applying it
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """The transform from a mode to sRGB; None if there is none, or it would change nothing. Raises one of BAD_PROFILE
    if the profile cannot be read."""
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    described = source.profile
    if described.device_class.strip() not in DEVICES or mode not in MODES.get(described.xcolor_space.strip(), ()):
        return None
    transform = ImageCms.buildTransform(source, _srgb(), mode, mode if mode == "RGBA" else "RGB")
    samples = _colours().convert(mode)
    difference = ImageChops.difference(_applied(transform, samples).convert("RGB"), samples.convert("RGB"))
    return transform if max(difference.tobytes()) > LARGEST_UNSEEN else None


def _applied(transform: ImageCms.ImageCmsTransform, picture: PIL.Image.Image) -> PIL.Image.Image:
    converted = ImageCms.applyTransform(picture, transform)
    assert converted is not None  # since the picture is not changed in place
    return converted


@cache
def _srgb() -> ImageCms.ImageCmsProfile:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))


@cache
def _colours() -> PIL.Image.Image:
    """A picture of evenly spaced colours, to test transforms with."""
    values = bytes(value for colour in product(range(0, 256, STEP), repeat=3) for value in colour)
    return PIL.Image.frombytes("RGB", (len(values) // 3, 1), values)
