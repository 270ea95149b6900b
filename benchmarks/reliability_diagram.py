"""A reliability diagram as SVG, from what `regard calibrate --json` printed.

python -m benchmarks.reliability_diagram calibrated.json > docs/images/reliability.svg

One panel a direction, of the largest held-out gallery: predicted probability to the right, observed share upwards. A
dot's area grows with the number of its answers; a perfectly calibrated model's dots lie on the diagonal.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

SIDE, MARGIN = 240, 48  # of a panel's square and around it, in SVG units
DIRECTIONS = {"text": "sentence to picture", "image": "picture to sentence"}
MAX_RADIUS = 14.0  # radius of the dot with most answers


def panel(title: str, rows: list[dict[str, float]], left: int) -> str:
    """SVG of one direction: axes, diagonal and dots, from `left` on."""
    most = max(row["count"] for row in rows)
    right, bottom, top = left + SIDE, MARGIN + SIDE, MARGIN
    dots = "".join(
        f'<circle cx="{left + SIDE * row["predicted"]:.1f}" cy="{bottom - SIDE * row["observed"]:.1f}"'
        f' r="{max(2.5, MAX_RADIUS * (row["count"] / most) ** 0.5):.1f}"><title>predicted {row["predicted"]:.2f},'
        f" so {row['observed']:.2f}, {row['count']:.0f} answers</title></circle>"
        for row in rows
    )
    ticks = "".join(
        f'<text x="{left + SIDE * share:.0f}" y="{bottom + 16}" text-anchor="middle">{share:g}</text>'
        f'<text x="{left - 6}" y="{bottom - SIDE * share + 4:.0f}" text-anchor="end">{share:g}</text>'
        for share in (0, 0.5, 1)
    )
    return (
        f'<text x="{left + SIDE / 2:.0f}" y="{top - 14}" text-anchor="middle" font-weight="bold">{title}</text>'
        f'<rect x="{left}" y="{top}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>'
        f'<line x1="{left}" y1="{bottom}" x2="{right}" y2="{top}" stroke="#999" stroke-dasharray="4 4"/>'
        f'<g fill="#2563eb" fill-opacity="0.6">{dots}</g>{ticks}'
        f'<text x="{left + SIDE / 2:.0f}" y="{bottom + 34}" text-anchor="middle">predicted</text>'
    )


def diagram(report: dict[str, Any]) -> str:
    """SVG of both directions, from a report of `regard calibrate`."""
    panels = []
    for number, (direction, words) in enumerate(DIRECTIONS.items()):
        galleries = report["held_out"][direction]
        largest = galleries[max(galleries, key=int)]
        title = f"{words}: error {largest['error']:.3f}"
        panels.append(panel(title, largest["reliability"], MARGIN + number * (SIDE + 2 * MARGIN)))
    width, height = len(DIRECTIONS) * (SIDE + 2 * MARGIN), SIDE + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(panels)}</svg>\n'
    )


def main() -> None:
    """Print the SVG."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="what `regard calibrate --json` printed")
    sys.stdout.write(diagram(json.loads(parser.parse_args().report.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
