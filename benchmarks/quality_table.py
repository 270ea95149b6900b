"""The tables of docs/quality.md, in Markdown, from reports of `regard evaluate --json`.

python -m benchmarks.quality_table scan.json "whole picture=whole.json" both.json

python -m benchmarks.quality_table --line first-200.json
    the line that tests/models/evaluation/test_shipped_quality.py reproduces

A report goes by its model's name, or by what stands before the =. Those of a --gallery have a direction less.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DIRECTIONS = {"text_to_image": "sentence to picture", "image_to_text": "picture to sentence"}
SHOWN = ("50", "100", "200")  # two-stage searches in the first table


def table(*columns: str, rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def recalls(figures: dict[str, Any], direction: str) -> str:
    """Recalls at 1, 5, 10 of one direction; a dash where it was not measured."""
    return " ".join(f"{figures[direction][name]:.1f}" for name in ("r1", "r5", "r10")) if direction in figures else "-"


def rsum_cell(figures: dict[str, Any]) -> str:
    """rsum with its interval, or R@1's where one direction alone was measured."""
    if "rsum" in figures:
        value, (low, high) = figures["rsum"], figures["interval"]["rsum"]
        return f"{value:.1f} ({low:.1f} to {high:.1f})"
    low, high = figures["interval"]["text_to_image"]["r1"]
    return f"R@1 {low:.1f} to {high:.1f}"


def summary_line(report: dict[str, Any]) -> str:
    """The figures of one report over all pairs, in one line."""
    figures = report["exhaustive"]
    ways = [f"{words} {recalls(figures, direction)}" for direction, words in DIRECTIONS.items()]
    text = ", ".join([*ways, f"rsum {figures['rsum']:.1f}"])
    return f"The first {report['images']} dev photographs, `{report['model']}`: {text}"


def search_rows(reports: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """A row for every model and way of searching."""
    for name, report in reports.items():
        stages = {f"shortlist of {k}": report["two_stage"][k] for k in SHOWN if k in report["two_stage"]}
        ways = {"every pair": report["exhaustive"], **stages, "stage one alone": report["stage_one"]}
        for way, figures in ways.items():
            yield [name, way, *(recalls(figures, direction) for direction in DIRECTIONS), rsum_cell(figures)]


def shortlist_rows(reports: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """A row for every model, direction and what is counted; a column for every length of any report."""
    lengths = shortlist_lengths(reports)
    for name, report in reports.items():
        for direction, words in DIRECTIONS.items():
            if direction not in report["exhaustive"]:
                continue
            for counted, what in (("shortlist_recall", "a right one"), ("top10_kept", "of the first ten")):
                kept = report[counted]
                cells = [f"{kept[k][direction]:.1f}" if k in kept else "-" for k in lengths]
                yield [name, words, what, *cells]


def shortlist_lengths(reports: dict[str, dict[str, Any]]) -> list[str]:
    """Lengths of the shortlists in any report, the shortest first."""
    return sorted({k for report in reports.values() for k in report["top10_kept"]}, key=int)


def read_reports(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Name -> report of arguments FILE or NAME=FILE; ValueError for two reports of one name."""
    reports: dict[str, dict[str, Any]] = {}
    for argument in given:
        name, _, file = ("", "", argument) if Path(argument).is_file() else argument.partition("=")
        report = json.loads(Path(file).read_text(encoding="utf-8"))
        name = name or f"`{report['model']}`"
        if name in reports:
            raise ValueError(f"two reports are called {name}: write NAME=FILE")
        reports[name] = report
    return reports


def main() -> None:
    """Print both tables, or a line for each report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", metavar="[NAME=]FILE")
    parser.add_argument("--line", action="store_true", help="one line a report instead of tables")
    given = parser.parse_args()
    reports = read_reports(given.reports)
    if given.line:
        print("\n".join(map(summary_line, reports.values())))
        return
    ways = [f"{words} R@1, 5, 10" for words in DIRECTIONS.values()]
    one = next(iter(reports.values()))["intervals"]
    print(table("model", "", *ways, f"rsum ({one['percent']} %)", rows=list(search_rows(reports))))
    print(f"\nIntervals: {one['resamples']} bootstrap samples of the {one['of']}, seed {one['seed']}.\n")
    print(table("model", "", "held, of", *shortlist_lengths(reports), rows=list(shortlist_rows(reports))))


if __name__ == "__main__":
    main()
