"""Six drawn pictures to try Regard on: the photographs it is measured with may not be passed on, these may.

python -m docs.images.draw docs/images/drawings
"""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import PIL.Image
import PIL.ImageDraw

WIDTH, HEIGHT = 480, 360
COLOURS = 128  # of a file, which is small so
FINER = 4  # drawn so many times larger and made smaller, so that edges are smooth

Point = tuple[float, float]


class Polygon(NamedTuple):
    """A filled outline."""

    colour: str
    points: tuple[Point, ...]


class Ellipse(NamedTuple):
    """A filled ellipse by its centre and radii."""

    colour: str
    centre: Point
    radii: Point


class Stroke(NamedTuple):
    """A line through points, with round ends."""

    colour: str
    width: float
    points: tuple[Point, ...]


Shape = Polygon | Ellipse | Stroke


class Pen:
    """Draws in units of `size` from an origin, so that a figure can stand anywhere."""

    def __init__(self, x: float = 0, y: float = 0, size: float = 1) -> None:
        self.x, self.y, self.size = x, y, size

    def at(self, *points: Point) -> tuple[Point, ...]:
        """Points of the figure as points of the picture."""
        return tuple((round(self.x + self.size * x, 1), round(self.y + self.size * y, 1)) for x, y in points)

    def fill(self, colour: str, *points: Point) -> Polygon:
        """A polygon."""
        return Polygon(colour, self.at(*points))

    def stroke(self, colour: str, width: float, *points: Point) -> Stroke:
        """A line."""
        return Stroke(colour, round(width * self.size, 1), self.at(*points))

    def spot(self, colour: str, x: float, y: float, across: float, down: float) -> Ellipse:
        """An ellipse with these radii."""
        return Ellipse(colour, self.at((x, y))[0], (round(across * self.size, 1), round(down * self.size, 1)))


PAGE = Pen()


def bands(*colours_to: tuple[str, float]) -> list[Shape]:
    """Level stripes from the top, each down to a height."""
    tops = [0.0, *(to for _, to in colours_to)]
    return [
        PAGE.fill(colour, (0, top), (WIDTH, top), (WIDTH, to), (0, to))
        for top, (colour, to) in zip(tops, colours_to, strict=False)
    ]


def ground(colour: str, *surface: Point) -> Polygon:
    """Everything below a line."""
    return PAGE.fill(colour, *surface, (WIDTH, HEIGHT), (0, HEIGHT))


def dog(x: float, y: float, size: float, coat: str, dark: str) -> list[Shape]:
    """A dog running to the left."""
    pen = Pen(x, y, size)
    return [
        pen.stroke(dark, 0.16, (0.75, 0.1), (1.05, 0.55), (1.45, 0.75)),
        pen.stroke(dark, 0.16, (-0.7, 0.15), (-1.1, 0.45), (-1.5, 0.5)),
        pen.stroke(coat, 0.14, (0.95, -0.15), (1.35, -0.5), (1.6, -0.55)),
        pen.fill(coat, (-1.05, -0.35), (-0.3, -0.38), (0.6, -0.36), (1, -0.25), (1.1, 0.1), (0.8, 0.3), (0.2, 0.2),
                 (-0.5, 0.38), (-1, 0.25)),
        pen.stroke(coat, 0.2, (0.85, 0.05), (0.75, 0.55), (1.15, 0.9)),
        pen.stroke(coat, 0.2, (-0.85, 0.1), (-1.2, 0.6), (-1.05, 0.95)),
        pen.fill(coat, (-0.8, -0.35), (-1.05, -0.85), (-1.45, -0.8), (-1.35, -0.3), (-1, 0.1)),
        pen.fill(coat, (-1, -0.95), (-1.35, -1.05), (-1.6, -0.8), (-2, -0.68), (-2.02, -0.5), (-1.6, -0.42),
                 (-1.2, -0.4)),
        pen.fill(dark, (-1.05, -1), (-1.25, -1.02), (-1.2, -0.6), (-0.98, -0.5), (-0.9, -0.75)),
        pen.spot("#111111", -1.99, -0.63, 0.07, 0.06),
        pen.spot("#111111", -1.5, -0.8, 0.05, 0.05),
    ]  # fmt: skip


def person(x: float, y: float, size: float, shirt: str, trousers: str, hair: str, feet: Sequence[Point]) -> list[Shape]:
    """Somebody standing, the neck at (x, y)."""
    pen, skin = Pen(x, y, size), "#d9a27c"
    figure: list[Shape] = []
    for across, down in feet:
        figure.append(pen.stroke(trousers, 0.28, (0, 0.75), (across * 0.8, down * 0.6 + 0.3), (across, down)))
        figure.append(pen.spot("#222222", across + 0.05, down + 0.06, 0.2, 0.09))
    figure.append(pen.fill(shirt, (-0.34, 0.02), (0.34, 0.02), (0.3, 0.9), (-0.3, 0.9)))
    for side in (-1, 1):
        figure.append(pen.stroke(shirt, 0.18, (side * 0.28, 0.12), (side * 0.44, 0.26)))
        figure.append(pen.stroke(skin, 0.14, (side * 0.44, 0.26), (side * 0.55, 0.4)))
    return [
        *figure,
        pen.stroke(skin, 0.16, (0, -0.1), (0, 0.08)),
        pen.spot(skin, 0, -0.34, 0.24, 0.3),
        pen.fill(hair, (-0.25, -0.36), (-0.24, -0.6), (0, -0.72), (0.24, -0.6), (0.25, -0.36), (0.12, -0.52),
                 (-0.12, -0.52)),
    ]  # fmt: skip


def tree(x: float, y: float, size: float, colour: str) -> list[Shape]:
    """A fir that stands at (x, y)."""
    pen = Pen(x, y, size)
    trunk = pen.fill("#4a3a2c", (-0.06, 0), (0.06, 0), (0.06, -0.3), (-0.06, -0.3))
    return [trunk, *(pen.fill(colour, (-w, -low), (w, -low), (0, -top)) for w, low, top in FIR)]


FIR = ((0.36, 0.2, 0.8), (0.3, 0.5, 1.05), (0.2, 0.8, 1.3))
FIRS = ((20, 75, "#35503f"), (70, 60, "#2d4636"), (115, 85, "#3b5745"), (330, 70, "#2d4636"), (385, 90, "#35503f"),
        (440, 65, "#3b5745"), (475, 80, "#2d4636"))  # fmt: skip


def dog_in_snow() -> list[Shape]:
    """A brown dog, firs behind it."""
    return [
        *bands(("#b9cfe4", 60), ("#cfdfee", 105), ("#dfe9f2", 150)),
        *(shape for x, size, colour in FIRS for shape in tree(x, 142, size, colour)),
        ground("#f4f7fb", (0, 140), (120, 132), (260, 145), (WIDTH, 134)),
        ground("#e4ebf4", (0, 215), (140, 200), (300, 222), (WIDTH, 205)),
        ground("#eef3f9", (0, 290), (200, 275), (WIDTH, 300)),
        PAGE.spot("#c9d4e3", 245, 268, 120, 12),
        *dog(245, 205, 58, "#8a5a34", "#5f3c22"),
        *(PAGE.spot("#ffffff", *flake) for flake in ((150, 262, 8, 5), (330, 262, 9, 6), (370, 250, 5, 4))),
    ]


def dog_on_grass() -> list[Shape]:
    """A black dog and a red ball."""
    return [
        *bands(("#8fc1ea", 70), ("#b4d7f0", 120)),
        ground("#4f8a3c", (0, 118), (160, 108), (320, 120), (WIDTH, 110)),
        ground("#5fa047", (0, 190), (WIDTH, 180)),
        ground("#6bb052", (0, 270), (WIDTH, 285)),
        PAGE.spot("#447a34", 250, 262, 115, 11),
        *dog(250, 200, 56, "#1d1d1f", "#101012"),
        PAGE.spot("#e23b2e", 95, 170, 13, 13),
    ]


def boy_with_ball() -> list[Shape]:
    """A boy in a red shirt and a football."""
    return [
        *bands(("#9cc9ee", 90), ("#c6e0f4", 130)),
        ground("#5a9c42", (0, 125), (WIDTH, 120)),
        ground("#68ad4e", (0, 220), (WIDTH, 235)),
        PAGE.spot("#4a8538", 225, 322, 70, 10),
        *person(225, 130, 95, "#c8322b", "#27408b", "#3a2a1e", ((-0.45, 1.9), (0.55, 1.6))),
        PAGE.spot("#f5f5f5", 320, 300, 24, 24),
        PAGE.fill("#222222", (314, 292), (326, 292), (330, 303), (320, 310), (310, 303)),
    ]


def two_on_beach() -> list[Shape]:
    """Two children before the sea."""
    return [
        *bands(("#7db9ea", 60), ("#a8d2f2", 108), ("#2f7fb5", 170)),
        ground("#4c9ac9", (0, 150), (WIDTH, 140)),
        ground("#eef6fa", (0, 188), (160, 180), (320, 192), (WIDTH, 182)),
        ground("#e3cfa2", (0, 200), (WIDTH, 192)),
        ground("#d8c08c", (0, 290), (WIDTH, 275)),
        PAGE.spot("#b89f6c", 170, 325, 50, 8),
        PAGE.spot("#b89f6c", 300, 328, 45, 8),
        *person(170, 150, 88, "#e8c522", "#2c7a4b", "#3a2a1e", ((-0.3, 1.95), (0.35, 1.9))),
        *person(300, 170, 80, "#d24a8a", "#d24a8a", "#5c3317", ((-0.35, 1.9), (0.4, 1.8))),
    ]


def sailing_boat() -> list[Shape]:
    """A boat at sunset."""
    return [
        *bands(("#f0b36a", 50), ("#f4c98c", 95), ("#f8dfb4", 130)),
        PAGE.spot("#fff3c4", 360, 120, 26, 26),
        ground("#3b6f8f", (0, 128), (WIDTH, 128)),
        ground("#2f5f7e", (0, 210), (WIDTH, 200)),
        ground("#284f6b", (0, 290), (WIDTH, 300)),
        PAGE.fill("#6b3f22", (110, 215), (330, 215), (290, 262), (150, 262)),
        PAGE.stroke("#3f2a18", 5, (220, 215), (220, 60)),
        PAGE.fill("#f7f4ea", (226, 66), (226, 200), (320, 200)),
        PAGE.fill("#e6dfcd", (214, 80), (214, 200), (140, 200)),
    ]


def cyclist() -> list[Shape]:
    """Somebody in yellow on a red bicycle."""
    wheels = [
        PAGE.spot(colour, x, 270, radius, radius)
        for x in (165, 320)
        for colour, radius in (("#161616", 48), ("#73767b", 41))
    ]
    return [
        *bands(("#9fc8ea", 80), ("#c4def1", 120)),
        ground("#5d8f4a", (0, 115), (150, 95), (330, 112), (WIDTH, 98)),
        ground("#6b6e73", (0, 190), (WIDTH, 180)),
        PAGE.fill("#f0e6b0", (0, 300), (WIDTH, 292), (WIDTH, 298), (0, 306)),
        *wheels,
        PAGE.stroke("#c4261d", 7, (165, 270), (225, 270), (200, 205), (295, 205), (225, 270)),
        PAGE.stroke("#c4261d", 7, (165, 270), (200, 205)),
        PAGE.stroke("#c4261d", 7, (320, 270), (292, 190)),
        PAGE.stroke("#1c1c1c", 6, (292, 190), (312, 182)),
        PAGE.stroke("#20242c", 20, (205, 190), (250, 225), (228, 275)),
        PAGE.stroke("#f2a51e", 34, (205, 185), (255, 120)),
        PAGE.stroke("#f2a51e", 14, (258, 128), (285, 160), (306, 182)),
        PAGE.spot("#d9a27c", 272, 98, 20, 22),
        PAGE.spot("#1d56b8", 273, 85, 23, 15),
    ]


DRAWINGS = {
    "dog-in-snow.webp": dog_in_snow,
    "dog-on-grass.webp": dog_on_grass,
    "boy-with-ball.webp": boy_with_ball,
    "two-on-beach.webp": two_on_beach,
    "sailing-boat.webp": sailing_boat,
    "cyclist.webp": cyclist,
}


def painted(shapes: Sequence[Shape]) -> PIL.Image.Image:
    """The shapes as a picture of WIDTH x HEIGHT pixels."""
    picture = PIL.Image.new("RGB", (WIDTH * FINER, HEIGHT * FINER))
    draw = PIL.ImageDraw.Draw(picture)
    for shape in shapes:
        if isinstance(shape, Ellipse):
            (x, y), (across, down) = shape.centre, shape.radii
            spot(draw, shape.colour, (x, y), across, down)
        elif isinstance(shape, Polygon):
            draw.polygon([(x * FINER, y * FINER) for x, y in shape.points], fill=shape.colour)
        else:
            points = [(x * FINER, y * FINER) for x, y in shape.points]
            draw.line(points, fill=shape.colour, width=round(shape.width * FINER), joint="curve")
            for point in shape.points:
                spot(draw, shape.colour, point, shape.width / 2, shape.width / 2)
    return picture.resize((WIDTH, HEIGHT), PIL.Image.Resampling.LANCZOS)


def encoded(picture: PIL.Image.Image) -> bytes:
    """The picture as a WebP file."""
    file = io.BytesIO()
    few = picture.quantize(COLOURS, dither=PIL.Image.Dither.NONE).convert("RGB")
    few.save(file, "WEBP", lossless=True, quality=100, method=6)
    return file.getvalue()


def spot(draw: PIL.ImageDraw.ImageDraw, colour: str, centre: Point, across: float, down: float) -> None:
    """An ellipse on the enlarged picture."""
    (x, y) = centre
    box = (x - across, y - down, x + across, y + down)
    draw.ellipse([edge * FINER for edge in box], fill=colour)


def as_svg(shapes: Sequence[Shape]) -> str:
    """The shapes as SVG elements."""
    lines = []
    for shape in shapes:
        if isinstance(shape, Ellipse):
            (x, y), (across, down) = shape.centre, shape.radii
            lines.append(f'<ellipse cx="{x:g}" cy="{y:g}" rx="{across:g}" ry="{down:g}" fill="{shape.colour}"/>')
            continue
        points = " ".join(f"{x:g},{y:g}" for x, y in shape.points)
        if isinstance(shape, Polygon):
            lines.append(f'<polygon points="{points}" fill="{shape.colour}"/>')
        else:
            line = f'fill="none" stroke="{shape.colour}" stroke-width="{shape.width:g}"'
            lines.append(f'<polyline points="{points}" {line} stroke-linecap="round" stroke-linejoin="round"/>')
    return "\n".join(lines)


def main() -> None:
    """Write every drawing into the folder given."""
    (folder,) = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for name, shapes in DRAWINGS.items():
        (folder / name).write_bytes(encoded(painted(shapes())))


if __name__ == "__main__":
    main()
