"""Markdown tables of results on hand-drawn boxes: where explanations point, what single words find."""

from collections.abc import Sequence
from typing import Any

POINTERS = {
    "random": "a random region",
    "shares": "the largest share",
    "attention": "the largest attention",
    "similarity": "the largest cosine",
}


def table(*columns: str, rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def pointing(quality: dict[str, Any]) -> str:
    """The table of where the default model's explanations point, among hand-drawn boxes."""
    grounding = quality["boxes"]["grounding"]

    def cell(points: dict[str, Any], measure: str) -> str:
        low, high = points["interval"][measure]
        return f"{points[measure]:.1f} ({low:.1f} to {high:.1f})"

    rows = [
        [kind, POINTERS[name], cell(points, "overlap"), cell(points, "centre")]
        for kind, pointers in grounding["pointing"].items()
        for name, points in pointers.items()
        if name in POINTERS
    ]
    return table("asked", "pointed at by", "overlaps it (IoU 0.3)", "centre inside", rows=rows)


def short_questions(quality: dict[str, Any]) -> str:
    """The table of single words in a few templates, asked of the default model."""
    report = quality["boxes"]["short_questions"]
    rows = []
    for template, searches in report["templates"].items():
        for name, suffix in (("exhaustive", ""), ("stage_one", ", stage one alone")):
            measures = searches[name]
            shares = [f"{measures[measure]:.2f}" for measure in ("hits_of_possible", "first_right")]
            missed, mean = str(len(measures["without_hit"])), f"{measures['mean_average_precision']:.2f}"
            rows.append([f"{template}{suffix}", *shares, missed, mean])
    heads = ("question", "hits among five, of the possible", "first right", "classes without a hit", "mAP")
    return table(*heads, rows=rows)
