"""Bar charts as PNG: groups of horizontal bars, each with its number, drawn with Pillow."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

WIDTH = 900
MARGIN, LABEL_WIDTH, NUMBER_WIDTH = 16, 250, 90  # pixels around, for the names on the left, for numbers on the right
BAR, BAR_GAP, GROUP_GAP = 18, 4, 14
TITLE_SIZE, TEXT_SIZE = 20, 14
COLOURS = ("#2563eb", "#9ca3af", "#f59e0b", "#10b981", "#7c3aed", "#be185d")
INK, PAPER = "#111827", "white"

Font = PIL.ImageFont.FreeTypeFont | PIL.ImageFont.ImageFont


@dataclass(frozen=True, kw_only=True)
class BarChart:
    """Groups of bars, a bar for each series that has a value in the group; values are not negative."""

    title: str
    unit: str
    groups: Mapping[str, Mapping[str, float]]  # label of a group -> name of a series -> value

    @property
    def series(self) -> Sequence[str]:
        """Names of all series, in order of first appearance."""
        return list(dict.fromkeys(name for values in self.groups.values() for name in values))

    @property
    def largest(self) -> float:
        """The value whose bar has the full width; 1 if there is none."""
        finite = [value for values in self.groups.values() for value in values.values() if math.isfinite(value)]
        return max(finite, default=0.0) or 1.0

    @property
    def bar_width(self) -> int:
        """Pixels of the longest bar."""
        return WIDTH - 2 * MARGIN - LABEL_WIDTH - NUMBER_WIDTH

    def length(self, value: float) -> int:
        """Pixels of a value's bar; at least one, so that it can be seen."""
        return max(1, round(self.bar_width * min(value, self.largest) / self.largest))

    def to_png(self) -> bytes:
        """The chart as a PNG file, WIDTH pixels wide. Raises ValueError if it has no bars."""
        if not self.series:
            raise ValueError(f"there is nothing to draw in {self.title!r}")
        bars = sum(map(len, self.groups.values()))
        top = MARGIN + TITLE_SIZE + MARGIN + TEXT_SIZE + MARGIN
        height = top + bars * (BAR + BAR_GAP) + len(self.groups) * GROUP_GAP + MARGIN
        image = PIL.Image.new("RGB", (WIDTH, height), PAPER)
        draw = PIL.ImageDraw.Draw(image)
        draw.text((MARGIN, MARGIN), f"{self.title} ({self.unit})", INK, PIL.ImageFont.load_default(TITLE_SIZE))
        text = PIL.ImageFont.load_default(TEXT_SIZE)
        colours = self.colours()
        self._draw_legend(draw, text, MARGIN + TITLE_SIZE + MARGIN)
        for label, values in self.groups.items():
            draw.text((MARGIN, top), label, INK, text)
            for name, value in values.items():
                left = MARGIN + LABEL_WIDTH
                end = left + self.length(value)
                draw.rectangle((left, top, end - 1, top + BAR - 1), colours[name])
                draw.text((end + 6, top + 1), short(value), INK, text)
                top += BAR + BAR_GAP
            top += GROUP_GAP
        packed = io.BytesIO()
        image.quantize(32).save(packed, "PNG", optimize=True)
        return packed.getvalue()

    def colours(self) -> dict[str, str]:
        """The colour of each series."""
        return {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(self.series)}

    def _draw_legend(self, draw: PIL.ImageDraw.ImageDraw, text: Font, top: int) -> None:
        left = float(MARGIN)
        for name, colour in self.colours().items():
            draw.rectangle((left, top + 2, left + TEXT_SIZE - 2, top + TEXT_SIZE), colour)
            draw.text((left + TEXT_SIZE + 4, top), name, INK, text)
            left += TEXT_SIZE + 4 + draw.textlength(name, text) + 2 * MARGIN


def short(value: float) -> str:
    """A number with three digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
