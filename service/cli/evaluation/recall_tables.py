"""Recalls of `regard evaluate`, printed for people."""

from typing import Any

from service.cli.terminal.output import print_table

QUERIES = {"text_to_image": "sentence", "image_to_text": "picture"}
RECALLS = ("r1", "r5", "r10")
SEARCHES = {
    "every pair": "exhaustive",
    "stage one": "stage_one",
    "in five folds": "fold5",
    "difference": "difference",
}


def print_recalls(report: dict[str, Any]) -> None:
    """Print recalls in percent, a line for each way of searching, and the recalls of shortlists."""
    ways = {
        "every pair": report["exhaustive"],
        "stage one alone": report["stage_one"],
        "difference": report["difference"],
        **{f"shortlist {k}": recalls for k, recalls in report["two_stage"].items()},
        **({"in five folds": report["fold5"]} if "fold5" in report else {}),
    }
    for half, searches in report.get("halves", {}).items():
        ways |= {f"{half} half, {way}": searches[name] for way, name in SEARCHES.items() if name in searches}
    names = names_in_rows(report)
    if other := report.get("against"):
        compared = {way: search for way, search in SEARCHES.items() if search in other["difference"]}
        ways |= {f"{names[1]} instead, {way}": other[search] for way, search in compared.items()}
        ways |= {f"difference from it, {way}": other["difference"][search] for way, search in compared.items()}
    of_split = f" of split {split}" if (split := report["about"]["split"]) else ""
    print(
        f"{names[0]}: {report['images']} pictures, {report['captions']} captions{of_split}; recall in percent, by query"
    )
    directions = [direction for direction in QUERIES if direction in report["exhaustive"]]
    heads = [head for direction in directions for head in (f"{QUERIES[direction]}: R@1", "R@5", "R@10")]
    heads += ["rsum"] * ("rsum" in ways["every pair"])
    rows = [row for way, recalls in ways.items() for row in recall_rows(way, recalls, directions)]
    print_table("", *heads, rows=rows)
    kept = [
        [
            k,
            *(
                f"{report[what][k][direction]:.1f}"
                for direction in directions
                for what in ("shortlist_recall", "top10_kept")
            ),
        ]
        for k in report["shortlist_recall"]
    ]
    heads = [head for direction in directions for head in (f"{QUERIES[direction]}: a right one", "of the best 10")]
    if kept:
        print("\nwhat a shortlist contains, in percent")
        print_table("", *heads, rows=kept)


def names_in_rows(report: dict[str, Any]) -> list[str]:
    """The names of the measured model and the one compared with it, if any; their folders if the names are equal."""
    names = [one["model"] for one in (report, report.get("against")) if one]
    if len(set(names)) == len(names):
        return names
    return ["+".join(folders) for folders in report["about"]["weights"]]


def recall_rows(way: str, recalls: dict[str, Any], directions: list[str]) -> list[list[str]]:
    """A row of recalls, and one of their confidence intervals if known."""
    rows = [[way, *(f"{value:.1f}" for value in recall_values(recalls, directions))]]
    if "interval" in recalls:
        ends = recall_values(recalls["interval"], directions)
        rows.append(["", *(f"{low:.1f} to {high:.1f}" for low, high in ends)])
    return rows


def recall_values(recalls: dict[str, Any], directions: list[str]) -> list[Any]:
    """Recalls, or their intervals, in the order of a row."""
    values = [recalls[direction][name] for direction in directions for name in RECALLS]
    return values + ([recalls["rsum"]] if "rsum" in recalls else [])
