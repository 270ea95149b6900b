"""Pictures whose regions are known: coloured rectangles on black, as a camera held in any way stores them."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

from service.panels import DIMMED, GAP, LINE, OUTLINE, PANEL, panel_corner
from tests.support.fakes import COLOURS, FakeExtractor
from tests.support.pictures import as_stored, encoded

Edges = tuple[float, float, float, float]

# Left, top, right and bottom as parts of width and height. No turn and no mirror takes them to themselves.
MARKS: Mapping[str, Edges] = {
    "red": (0.125, 0.25, 0.375, 0.5),
    "blue": (0.5, 0.125, 0.875, 0.375),
    "green": (0.25, 0.625, 0.75, 0.875),
}
UPRIGHT = (640, 480)
QUERY = " ".join(MARKS)
SIZES = {  # multiples of 8, so that every mark has whole pixels
    "huge": (4800, 3600),
    "panorama": (8000, 480),
    "tower": (480, 8000),
}
TINY = {"tiny": (16, 8), "small": (64, 32)}  # as PNG, since JPEG has blocks of 8 pixels


class MarkExtractor(FakeExtractor):
    """A detector that finds the picture and its marks where they are in an upright picture."""

    labels = ("picture", "red", "blue", "green")

    def _boxes(self, width: int, height: int) -> list[tuple[int, int, int, int]]:
        return [(0, 0, width, height), *(box_of(colour, (width, height)) for colour in MARKS)]


def box_of(colour: str, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a mark in pixels of a picture of that size."""
    left, top, right, bottom = MARKS[colour]
    return round(left * size[0]), round(top * size[1]), round(right * size[0]), round(bottom * size[1])


def marked(size: tuple[int, int]) -> PIL.Image.Image:
    """The upright picture in that size."""
    picture = PIL.Image.new("RGB", size)
    for colour in MARKS:
        picture.paste(tuple(255 * part for part in COLOURS[colour]), box_of(colour, size))
    return picture


def marked_files() -> dict[str, bytes]:
    """Files by name: each orientation as JPEG and PNG, and very large, small, wide and high pictures."""
    sharp = {"quality": 95, "subsampling": 0}
    files = {f"turned-{n}.png": as_stored(marked(UPRIGHT), "PNG", n) for n in range(1, 9)}
    files |= {f"turned-{n}.jpg": as_stored(marked(UPRIGHT), "JPEG", n, **sharp) for n in range(1, 9)}
    files |= {f"{name}.jpg": encoded(marked(size), "JPEG", **sharp) for name, size in SIZES.items()}
    return files | {f"{name}.png": encoded(marked(size), "PNG") for name, size in TINY.items()}


def size_of(name: str) -> tuple[int, int]:
    """Width and height of the upright picture in one of `marked_files`."""
    return (SIZES | TINY).get(name.partition(".")[0], UPRIGHT)


def extent(mask: npt.NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """The smallest box around what is true in [height, width]: left, top, right and bottom, the last two beyond it."""
    across, down = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
    return int(across[0]), int(down[0]), int(across[-1]) + 1, int(down[-1]) + 1


def check_panels(sheet: PIL.Image.Image, size: tuple[int, int]) -> None:
    """AssertionError unless the panel of each word of QUERY is bright in its mark, to the pixel, and dark elsewhere.

    `size` is that of the explained picture; boxes found in a picture that was reduced may be one pixel off.
    """
    zoom = PANEL / max(size)
    shown = max(1, round(size[0] * zoom)), max(1, round(size[1] * zoom))
    pixels = np.asarray(sheet.convert("RGB"))
    for n, colour in enumerate(MARKS):
        left, top = panel_corner(n, (max(shown[0], PANEL) + GAP, shown[1] + LINE + GAP))
        panel = pixels[top : top + shown[1], left : left + shown[0]]
        bright = panel.max(-1) > DIMMED + 1  # what no region lights is DIMMED at most
        found = extent(bright)
        assert found == pytest.approx(box_of(colour, shown), abs=1), colour
        assert bright[found[1] : found[3], found[0] : found[2]].all()
        inner = panel[bright & (panel != OUTLINE).any(-1)]
        assert len(inner) > 0
        assert (inner.argmax(-1) == COLOURS[colour].index(1)).all()
