"""An explanation as a picture: one panel for each content word, in which the regions that match it stay bright."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from service.search.results import PairExplanation

PANEL = 320  # pixels of a panel's longer side
SMALL_PANEL = 160  # for more words than MANY
MANY = 24
COLUMNS = 4
GAP = 12
LINE = 22
DIMMED = 60  # of 255: the brightness outside of all lit regions
OUTLINE = (255, 183, 3)
PAPER, INK = (255, 255, 255), (27, 31, 35)
SIGN_NOTE = "Below 0 is no misfit."  # unlike on the page, where 0 is the level of other results
LONGEST = 40  # characters of the text below a panel
# Pillow's built-in font, present on every machine, has ASCII and few other characters.
BEYOND_ASCII = "“”‘’…"
PLAIN = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"}
    | {"ð": "d", "þ": "th", "ı": "i", "–": "-", "—": "-"}
)


@dataclass(frozen=True)
class Panel:
    """A word, or the whole sentence where the model does not distinguish words: its text, and the strength of each
    region."""

    text: str
    strengths: Sequence[float]  # relative to the strongest in comparable panels; 0 and below: not lit


def draw_explanation(
    picture: PIL.Image.Image, size: tuple[int, int], explanation: PairExplanation, title: str
) -> PIL.Image.Image:
    """The panels of an explanation of `picture`, upright and perhaps reduced, whose full size in pixels is `size`."""
    panels = panels_of(explanation)
    side = PANEL if len(panels) <= MANY else SMALL_PANEL
    scale = side / max(picture.size)
    small = picture.convert("RGB").resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    cell = max(small.width, side) + GAP, small.height + LINE + GAP
    sheet = PIL.Image.new("RGB", (GAP + columns * cell[0], 2 * LINE + GAP + rows * cell[1]), PAPER)
    draw = PIL.ImageDraw.Draw(sheet)
    font = PIL.ImageFont.load_default(14)
    draw.text((GAP, 4), drawable(title), INK, font)
    boxes = [scaled(region.box, size, small.size) for region in explanation.regions]
    for n, panel in enumerate(panels):
        left, top = panel_corner(n, cell)
        sheet.paste(draw_panel(small, panel.strengths, boxes), (left, top))
        draw.text((left, top + small.height + 3), drawable(panel.text)[:LONGEST], INK, font)
    draw.text((GAP, sheet.height - LINE), drawable(footer(explanation)), INK, font)
    return sheet


def drawable(text: str) -> str:
    """The text in characters of the font: letters without accents, and a question mark for any other."""
    letters = [
        letter if letter in BEYOND_ASCII else unicodedata.normalize("NFKD", letter) for letter in text.translate(PLAIN)
    ]
    plain = [letter for letter in "".join(letters) if not unicodedata.combining(letter)]
    return "".join(letter if " " <= letter <= "~" or letter in BEYOND_ASCII else "?" for letter in plain)


def panel_corner(n: int, cell: tuple[int, int]) -> tuple[int, int]:
    """The upper left pixel of panel `n`, for cells of this width and height."""
    return GAP + n % COLUMNS * cell[0], LINE + GAP // 2 + n // COLUMNS * cell[1]


def panels_of(explanation: PairExplanation) -> list[Panel]:
    """One panel for each displayed word; a single one where the model has no values for words and regions."""
    pairs = explanation.shares or explanation.attention
    if pairs is None:
        return [Panel("the whole sentence", of_strongest(explanation.region_weights or []))]
    words = shown_words(explanation)
    # Shares are parts of one score, so that a word that matches nothing stays dark; attention is relative to each word.
    most = max((max(pairs[n]) for n in words), default=0.0) if explanation.shares else None
    contributions = explanation.contributions
    return [
        Panel(
            explanation.words[n].text + ("" if contributions is None else f"  {contributions[n]:+.4f}"),
            of_strongest(pairs[n], most),
        )
        for n in words
    ]


def shown_words(explanation: PairExplanation) -> list[int]:
    """The indexes of the words that have a panel: content words; without any, all words, or else all marks."""
    words = explanation.words
    content = [n for n, word in enumerate(words) if word.content]
    return content or [n for n, word in enumerate(words) if not word.special] or list(range(len(words)))


def of_strongest(values: Sequence[float], most: float | None = None) -> list[float]:
    """The values divided by the largest, or by `most`; 0 where that is not above 0."""
    largest = max(values, default=0.0) if most is None else most
    return [value / largest if largest > 0 else 0.0 for value in values]


def footer(explanation: PairExplanation) -> str:
    """A note on how to read the parts of the score, with the parts of words without a panel.

    Function words are given by their sum, marks such as <start> one by one.
    """
    if explanation.contributions is None:
        return "This model's score is no sum over the words."
    shown = set(shown_words(explanation))
    pairs = zip(explanation.words, explanation.contributions, strict=True)
    hidden = [(word, contribution) for n, (word, contribution) in enumerate(pairs) if n not in shown]
    function_words = [contribution for word, contribution in hidden if not word.special]
    parts = [f"the other words {sum(function_words):+.4f}"] if function_words else []
    parts += [f"{word.text} {contribution:+.4f}" for word, contribution in hidden if word.special]
    return f"{SIGN_NOTE} Besides: {', '.join(parts)}" if parts else SIGN_NOTE


def draw_panel(
    picture: PIL.Image.Image, strengths: Sequence[float], boxes: Sequence[tuple[int, int, int, int] | None]
) -> PIL.Image.Image:
    """The picture, each pixel as bright as its strongest region; the strongest of all is outlined."""
    light = PIL.Image.new("L", picture.size, DIMMED)
    lit = sorted((strength, box) for strength, box in zip(strengths, boxes, strict=True) if box and strength > 0)
    for strength, box in lit:  # the strongest last, on top of the others
        PIL.ImageDraw.Draw(light).rectangle(box, fill=round(DIMMED + (255 - DIMMED) * min(1.0, strength)))
    panel = PIL.Image.composite(picture, PIL.Image.new("RGB", picture.size), light)
    if lit:
        PIL.ImageDraw.Draw(panel).rectangle(lit[-1][1], outline=OUTLINE, width=2)
    return panel


def scaled(
    box: Sequence[float] | None, size: tuple[int, int], shown: tuple[int, int]
) -> tuple[int, int, int, int] | None:
    """A box in pixels of a picture of `size`, as the first and last pixels in one of size `shown`; None for none."""
    if box is None:
        return None
    left, top, right, bottom = (round(edge * shown[n % 2] / size[n % 2]) for n, edge in enumerate(box))
    left, top = min(max(0, left), shown[0] - 1), min(max(0, top), shown[1] - 1)
    return left, top, min(max(left, right - 1), shown[0] - 1), min(max(top, bottom - 1), shown[1] - 1)
