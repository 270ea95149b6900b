"""The best picture of a search's answer with the region of each word's largest share, and what each word added.

python -m docs.images.answer_svg > docs/images/answer.svg

docs/images/answer.json is an answer of the shipped models about the drawings beside it, in an empty data directory:

regard serve --data-dir EMPTY --photos docs/images/drawings
curl http://localhost:8000/search/text -H 'Content-Type: application/json' \\
  -d '{"query": "a black dog chases a ball on the grass", "k": 1, "explain": true}' > docs/images/answer.json
"""

import html
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from docs.images.draw import DRAWINGS, HEIGHT, WIDTH, as_svg

ANSWER = Path(__file__).with_name("answer.json")

PAD, TOP = 16, 52  # around everything; above the drawing, for the sentence
LETTERS, LETTER_WIDTH = 14, 7.2
PLATE = 19  # height of the plate behind a label
COLOURS = ("#b3261e", "#7a3ea8", "#1a56b0", "#a35200", "#00695c", "#4a4a4a", "#5d6d00")
GREY = "#8a8a8a"
BARS = 2 * PAD + WIDTH + 76  # where bars begin
LONGEST = 200  # length of the longest bar
ROW = 27


class Spoken(NamedTuple):
    """One word as scored: the place of its region among the regions (none for marks such as <start>), and its
    contribution."""

    text: str
    region: int | None
    contribution: float


def words_of(explanation: dict[str, Any]) -> list[Spoken]:
    """Every word of an explanation."""
    rows = zip(explanation["words"], explanation["shares"], explanation["contributions"], strict=True)
    return [
        Spoken(word["text"], None if word["special"] else shares.index(max(shares)), contribution)
        for word, shares, contribution in rows
    ]


def text(x: float, y: float, words: str, colour: str = "#1f1f1f", **more: str) -> str:
    """A line of text."""
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{rest}>{html.escape(words)}</text>'


def boxes(words: list[Spoken], regions: list[dict[str, Any]], colours: dict[int, str]) -> list[str]:
    """A frame for each region with a word's largest share, with those words on a plate above or, where none fits,
    below, or inside."""
    lines: list[str] = []
    plates: list[tuple[float, float, float]] = []  # left, right, top
    for place, colour in colours.items():
        left, top, right, bottom = regions[place]["box"]
        label = " ".join(word.text for word in words if word.region == place)
        wide = len(label) * LETTER_WIDTH + 8
        at = max(0.0, min(left, WIDTH - wide))
        covered = any(at < end and start < at + wide and abs(y - top + PLATE) < PLATE for start, end, y in plates)
        y = top - PLATE
        if covered or top < PLATE:
            y = bottom if bottom + PLATE <= HEIGHT else top
        plates.append((at, at + wide, y))
        lines += [
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" fill="none"'
            f' stroke="{colour}" stroke-width="3"/>',
            f'<rect x="{at:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{PLATE}" fill="{colour}"/>',
            text(at + 4, y + 14, label, "#ffffff"),
        ]
    return lines


def bars(words: list[Spoken], colours: dict[int, str]) -> list[str]:
    """A bar for each word: what it added to the score."""
    scale = LONGEST / max(abs(word.contribution) for word in words)
    lines = [text(BARS, TOP + 8, "what each word added", GREY)]
    for row, word in enumerate(words):
        y = TOP + 20 + ROW * row
        colour = GREY if word.region is None else colours[word.region]
        long = max(1.0, abs(word.contribution) * scale)
        lines += [
            text(BARS - 8, y + 15, word.text, colour, text_anchor="end"),
            f'<rect x="{BARS}" y="{y + 2}" width="{long:.1f}" height="17" fill="{colour}"'
            f"{' fill-opacity=' + chr(34) + '0.35' + chr(34) if word.contribution < 0 else ''}/>",
            text(BARS + long + 6, y + 15, f"{word.contribution:+.3f}", colour),
        ]
    return lines


def picture(answer: dict[str, Any]) -> str:
    """The whole picture."""
    best = answer["results"][0]
    words = words_of(best["explanation"])
    seen = dict.fromkeys(word.region for word in words if word.region is not None)
    colours = {place: COLOURS[n % len(COLOURS)] for n, place in enumerate(seen)}
    wide, high = BARS + LONGEST + 60 + PAD, TOP + HEIGHT + PAD
    probability = f"score {best['score']:.3f}, probability {best['probability']:.2f}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
        f' font-family="Helvetica, Arial, sans-serif" font-size="{LETTERS}">',
        f"<title>{html.escape(answer['query'])}: {html.escape(best['filename'])}, {probability}</title>",
        f'<rect width="{wide}" height="{high}" fill="white"/>',
        text(PAD, 34, f"“{answer['query']}”", font_size="20"),
        f'<svg x="{PAD}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
        as_svg(DRAWINGS[best["filename"]]()),
        *boxes(words, best["explanation"]["regions"], colours),
        "</svg>",
        *bars(words, colours),
        text(BARS, TOP + HEIGHT - 4, probability, font_weight="bold"),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(picture(json.loads(ANSWER.read_text(encoding="utf-8"))))
