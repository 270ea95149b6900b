"""Drawings of the regions of photographs: on each photograph, and without it as SVG, which may be published.

python -m benchmarks.drawn_boxes photographs drawn --most 12
"""

import argparse
import colorsys
import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import PIL.ImageOps

from models.extractors.base import PICTURE
from service.cli.find_regions import decode_picture, find_regions
from service.cli.picture_files import find_files
from service.model_loading import detector_of
from service.storage.regions.records import Edges, Region

SVG_SIDE = 480  # of the longer side
LETTERS = 1 / 40  # height of a letter, as a share of the longer side
GOLDEN = 0.618034  # turns of the colour circle from one label to the next
GREY = "#e8e8e8"
LETTER_WIDTH = 0.6  # of its height, about; for the plate behind a label


class DrawnBox(NamedTuple):
    """One box, its caption, and its colour as #rrggbb."""

    box: Edges
    caption: str
    colour: str


def boxes_to_draw(regions: Sequence[Region], labels: Sequence[str], most: int, least: float) -> list[DrawnBox]:
    """The `most` regions of highest confidence, from `least` on, without the whole picture.

    The most confident comes last, and so is drawn on top.
    """
    scored = [(region.confidence or 0.0, region) for region in regions if region.label != PICTURE]
    best = sorted((each for each in scored if each[0] >= least), key=lambda each: each[0])[-most:]
    return [
        DrawnBox(region.box, f"{region.label} {confidence:.2f}", colour_of(labels.index(region.label)))
        for confidence, region in best
        if region.box is not None
    ]


def colour_of(number: int) -> str:
    """A dark colour for a label's number; colours of consecutive numbers differ most."""
    red, green, blue = colorsys.hsv_to_rgb(number * GOLDEN % 1, 0.9, 0.65)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def draw_on_photograph(path: Path, boxes: Sequence[DrawnBox]) -> PIL.Image.Image:
    """The upright photograph with boxes drawn on it."""
    with PIL.Image.open(path) as opened:
        picture = PIL.ImageOps.exif_transpose(opened).convert("RGB")
    height = max(10.0, max(picture.size) * LETTERS)
    font = PIL.ImageFont.load_default(height)
    pen = PIL.ImageDraw.Draw(picture)
    for box, caption, colour in boxes:
        pen.rectangle(box, outline=colour, width=max(2, round(height / 8)))
        plate = pen.textbbox(box[:2], caption, font=font)
        pen.rectangle(plate, fill=colour)
        pen.text(box[:2], caption, fill="white", font=font)
    return picture


def to_svg(size: tuple[int, int], boxes: Sequence[DrawnBox]) -> str:
    """The boxes alone on grey, as SVG, for a photograph of `size` (width, height)."""
    scale = SVG_SIDE / max(size)
    width, height = (round(side * scale) for side in size)
    letters = SVG_SIDE * LETTERS
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' font-family="sans-serif" font-size="{letters:g}">',
        f'<rect width="{width}" height="{height}" fill="{GREY}"/>',
    ]
    for box, caption, colour in boxes:
        left, top, right, bottom = (edge * scale for edge in box)
        corner = f'x="{left:.1f}" y="{top:.1f}"'
        lines += [
            f'<rect {corner} width="{right - left:.1f}" height="{bottom - top:.1f}" fill="none" stroke="{colour}"/>',
            f'<rect {corner} width="{len(caption) * letters * LETTER_WIDTH:.1f}" height="{letters * 1.3:.1f}"'
            f' fill="{colour}"/>',
            f'<text x="{left + 2:.1f}" y="{top + letters:.1f}" fill="white">{html.escape(caption)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Write NAME.jpg and NAME.svg for every photograph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--detector", type=Path, help="the shipped one if not given")
    parser.add_argument("--most", type=int, default=12, help="boxes a photograph, the surest")
    parser.add_argument("--least", type=float, default=0.1, help="confidence from which a box is drawn")
    args = parser.parse_args()
    detector = detector_of(args.detector, "cpu")
    for name, path in find_files([args.folder]).pictures:
        decoded = decode_picture(path)
        found, size = find_regions(detector, decoded), (decoded.width, decoded.height)
        boxes = boxes_to_draw(found.regions, detector.labels, args.most, args.least)
        file = args.out / name
        file.parent.mkdir(parents=True, exist_ok=True)
        draw_on_photograph(path, boxes).save(file.with_suffix(".jpg"), quality=90)
        file.with_suffix(".svg").write_text(to_svg(size, boxes), encoding="utf-8")
        print(f"{name}: {', '.join(box.caption for box in reversed(boxes))}", flush=True)


if __name__ == "__main__":
    main()
