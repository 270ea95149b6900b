"""The measured figures of docs/quality.json, which README.md, docs/quality.md and the models' cards quote.

python -m benchmarks.quality_table write
    puts them between the marks `<!-- figures: NAME -->` and `<!-- end of figures -->` of both pages and of the models'
    cards
python -m benchmarks.quality_table show
    prints all figures of the models as Markdown
python -m benchmarks.quality_table collect REPORT.json ...
    puts reports of `regard evaluate --json` (also with --grounding or --short-questions, or --part second), `regard
    calibrate --json` and benchmarks.service_recall into docs/quality.json
python -m benchmarks.quality_table collect --seed N REPORT.json ...
    puts reports of `regard evaluate --json` and `--short-questions` of another training of the default model there
python -m benchmarks.quality_table line REPORT.json ...
    prints the exhaustive search of each report in one line
"""

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, stdev

from benchmarks.boxed_tables import pointing, short_questions, table
from benchmarks.collected_reports import DEFAULT, DIRECTION_OF, SECOND_HALF, collect, collect_seed
from benchmarks.figures_file import Report, as_json, read
from service.model_names import shipped_models

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "quality.json"

DIRECTIONS = {"text_to_image": "sentence to picture", "image_to_text": "picture to sentence"}
CUTOFFS = ("r1", "r5", "r10")
SERVED = "100"  # the length of a shortlist unless a request asks for another
SHOWN = ("50", "100", "200")  # lengths of two-stage searches in the full table
COUNTED = {"shortlist_recall": "the right answer", "top10_kept": "the exhaustive top 10"}

ENSEMBLE = "bfan-equal+bfan-equal-gru"  # the best of those measured
REPRODUCED = "<!-- reproduced by tests/models/evaluation/test_shipped_quality.py -->"

BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def recalls(search: Report, direction: str) -> str:
    """Recall at 1, 5 and 10 in one direction; a dash where that direction was not measured."""
    return " ".join(f"{search[direction][name]:.1f}" for name in CUTOFFS) if direction in search else "-"


def rsum(search: Report) -> str:
    """The sum of the six recalls with its interval."""
    low, high = search["interval"]["rsum"]
    return f"{search['rsum']:.1f} ({low:.1f} to {high:.1f})"


def search_row(name: str, search: Report) -> list[str]:
    """One row of a table of recalls."""
    return [name, *(recalls(search, direction) for direction in DIRECTIONS), rsum(search)]


def recall_heads(quality: Report) -> list[str]:
    """The column heads of `search_row` without the first."""
    percent = quality["about"]["intervals"]["percent"]
    return [*(f"{words} R@1, 5, 10" for words in DIRECTIONS.values()), f"rsum ({percent} % interval)"]


def summary_line(report: Report) -> str:
    """One line on the exhaustive search of a report."""
    search = report["exhaustive"]
    ways = [f"{words} {recalls(search, direction)}" for direction, words in DIRECTIONS.items()]
    figures = ", ".join([*ways, f"rsum {search['rsum']:.1f}"])
    return f"The first {report['images']} dev photographs, `{report['model']}`: {figures}"


def searches(report: Report) -> dict[str, Report]:
    """Way of searching -> its recalls: every pair scored, two stages, and the first stage alone."""
    stages = {f"shortlist of {k}": report["two_stage"][k] for k in SHOWN if k in report["two_stage"]}
    return {"every pair": report["exhaustive"], **stages, "stage one alone": report["stage_one"]}


def readme_figures(quality: Report) -> str:
    """Recall of the shortlist alone, the default model and the best ensemble, and the shortlist's recall."""
    reports = quality["models"]["reports"]
    rows = [
        search_row("shortlist alone, no reranking", reports[DEFAULT]["stage_one"]),
        search_row(f"`{DEFAULT}`, the default", reports[DEFAULT]["two_stage"][SERVED]),
        search_row(f"`{ENSEMBLE}`", reports[ENSEMBLE]["two_stage"][SERVED]),
    ]
    held, kept = (reports[DEFAULT][counted][SERVED]["text_to_image"] for counted in COUNTED)
    return (
        f"{table('', *recall_heads(quality), rows=rows)}\n\n"
        f"A shortlist of {SERVED} holds the right picture for {held:.1f} % of the sentences, and {kept:.1f} % of the"
        " ten\npictures that come first when every picture is reranked."
    )


def models_table(quality: Report) -> str:
    """Two-stage recall of every model, the best sum first, and stage one of the default model.

    Optional columns are there if any report has them. A model that was measured on the second half alone comes last.
    """
    reports = quality["models"]["reports"]
    columns = [column for column in OPTIONAL_COLUMNS if any(column.measured(each) for each in reports.values())]
    names = sorted(reports, key=lambda name: (of_half(reports[name]), -reports[name]["two_stage"][SERVED]["rsum"]))
    rows = [
        half_row(name, reports[name], columns)
        if of_half(reports[name])
        else search_row(f"`{name}`", reports[name]["two_stage"][SERVED])
        + [column.cell(reports[name]) for column in columns]
        for name in names
    ]
    alone = search_row(f"`{DEFAULT}`, stage one alone", reports[DEFAULT]["stage_one"]) + [""] * len(columns)
    percent = quality["about"]["intervals"]["percent"]
    heads = [column.head.format(percent=percent) for column in columns]
    return table("model", *recall_heads(quality), *heads, rows=[*rows, alone])


def of_half(report: Report) -> bool:
    """Whether a model was measured on the second half of the pictures alone."""
    return bool(report.get("part") == SECOND_HALF)


def half_row(name: str, report: Report, columns: Sequence["OptionalColumn"]) -> list[str]:
    """The row of a model that was measured on the second half alone, by every pair as the other rows' halves are."""
    cells = [rsum(report["exhaustive"]) if column.needs == "halves" else "-" for column in columns]
    return [f"`{name}`", "-", "-", "-", *cells]


@dataclass(frozen=True)
class OptionalColumn:
    """A column of the table of models that is there if any report has its figures; a dash for reports without."""

    head: str
    needs: str  # key of the report that it shows
    show: Callable[[Report], str]

    def measured(self, report: Report) -> bool:
        """Whether a report has the figures."""
        return self.needs in report

    def cell(self, report: Report) -> str:
        """The column's cell in a model's row."""
        return self.show(report) if self.measured(report) else "-"


OPTIONAL_COLUMNS = (
    OptionalColumn("stage one", "difference", lambda report: rsum(report["stage_one"])),
    OptionalColumn("difference ({percent} %)", "difference", lambda report: rsum(report["difference"])),
    OptionalColumn("second half", "halves", lambda report: rsum(report["halves"]["second"]["exhaustive"])),
)


def shortlist_table(quality: Report) -> str:
    """Recalls of the default model's shortlists, among the dev pictures and among all of them."""
    small = quality["models"]["reports"][DEFAULT]
    measured = [small, *([quality["large_gallery"]["report"]] if "large_gallery" in quality else [])]
    rows = [
        [
            f"{report['images']:,} pictures".replace(",", " "),
            words,
            *(f"{report[counted][k]['text_to_image']:.1f}" for k in lengths(small)),
        ]
        for report in measured
        for counted, words in COUNTED.items()
    ]
    shown = table("gallery", "the shortlist holds", *lengths(small), rows=rows)
    if len(measured) == 1:
        return shown
    large = measured[1]
    found = recalls(large["exhaustive"], "text_to_image")
    size = f"{large['images']:,}".replace(",", " ")
    return f"{shown}\n\nR@1, 5, 10 of every pair among {size} pictures: {found}."


def lengths(report: Report) -> list[str]:
    """The lengths of shortlists of a report, the shortest first."""
    return sorted(report["top10_kept"], key=int)


def seeds_table(quality: Report) -> str:
    """The default model and its trainings from other seeds, by every pair, with the spread of their sums."""
    shipped = {**quality["models"]["reports"][DEFAULT], "short_questions": quality["boxes"]["short_questions"]}
    trainings = {"0, shipped": shipped, **quality["seeds"]["reports"]}
    rows = [
        [*search_row(seed, report["exhaustive"]), rsum(report["difference"]), *words(report)]
        for seed, report in trainings.items()
    ]
    sums = [report["exhaustive"]["rsum"] for report in trainings.values()]
    found = ['"a X": hits of the possible', "first right", "classes without a hit"]
    heads = ["seed", *recall_heads(quality), "minus stage one", *found]
    about = f"rsum: mean {mean(sums):.1f}, standard deviation {stdev(sums):.1f}."
    return f"{table(*heads, rows=rows)}\n\n{about}"


def words(report: Report) -> list[str]:
    """Results of the question "a X": hits as a share of the possible, first right, classes without a hit."""
    found = report["short_questions"]["templates"]["a X"]["exhaustive"]
    return [f"{found['hits_of_possible']:.2f}", f"{found['first_right']:.2f}", f"{len(found['without_hit'])}"]


def first_pictures(quality: Report) -> str:
    """The line that a test reproduces with the shipped weights."""
    return f"{summary_line(quality['first_pictures']['report'])} {REPRODUCED}"


def over_http(quality: Report) -> str:
    """Recall of a running service, or that it was not measured."""
    found = quality.get("over_http", {}).get("reports", {})
    if set(found) != {"text", "image"}:
        return "Not measured yet with these weights."
    rows = [
        [words, *(f"{found[way][name]:.1f}" for name in CUTOFFS), f"{found[way]['r100']:.1f}" if way == "text" else ""]
        for way, words in zip(("text", "image"), DIRECTIONS.values(), strict=True)
    ]
    return table("over HTTP", "R@1", "R@5", "R@10", "in the shortlist", rows=rows)


def calibration_error(quality: Report) -> str:
    """The largest calibration error of any model, direction and gallery, and those of the default model."""
    errors = {name: each["calibration_error"] for name, each in quality["models"]["reports"].items() if "+" not in name}
    largest = max(error for sizes in errors.values() for both in sizes.values() for error in both.values())
    figures = "\nand ".join(
        f"{' and '.join(f'{found[way]:.3f} from {words}' for way, words in DIRECTIONS.items())} among {size} pictures"
        for size, found in errors[DEFAULT].items()
    )
    lines = [f"`{DEFAULT}` {figures}.", f"No model's error is above {largest:.3f}."]
    if first := quality["models"]["reports"][DEFAULT].get("first_answer"):
        size = max(first, key=int)
        each = " and ".join(
            f"{first[size][way]['error']:.3f} ({first[size][way]['brier_skill']:.2f}) from {words}"
            for way, words in DIRECTIONS.items()
        )
        lines.append(f"The first answer alone, with its Brier skill:\n{each} among {size} pictures.")
    return "\n".join(lines)


def matched(quality: Report) -> str:
    """How well the default model distinguishes questions with an answer from those without."""
    found = quality["models"]["reports"][DEFAULT]["matched"]
    rows = [
        [
            DIRECTIONS[DIRECTION_OF[way]],
            f"{size} pictures",
            f"{result['auc']:.2f}",
            f"{100 * result['present']['matched']:.0f}, {100 * result['present']['not_matched']:.0f}",
            f"{100 * result['absent']['matched']:.0f}, {100 * result['absent']['not_matched']:.0f}",
        ]
        for way, sizes in found.items()
        for size, result in sizes.items()
    ]
    heads = ("", "gallery", "area under the ROC curve", "with an answer: told yes, no (%)", "without: told yes, no (%)")
    return table(*heads, rows=rows)


def card_figures(name: str, quality: Report) -> str:
    """The figures of one model, for the card of its weights."""
    report = quality["models"]["reports"][name]
    heads = [f"{words} R@1, 5, 10" for words in DIRECTIONS.values()]
    rows = [
        [way, *(recalls(search, direction) for direction in DIRECTIONS), rsum(search)]
        for way, search in searches(report).items()
    ]
    percent = quality["about"]["intervals"]["percent"]
    lines = [table("", *heads, f"rsum ({percent} % interval)", rows=rows), ""]
    if "difference" in report:
        lines.append(f"Every pair minus stage one alone: {rsum(report['difference'])}.")
    errors = [
        f"{error:.3f} {DIRECTIONS[way]} (of {size} pictures)"
        for size, both in report["calibration_error"].items()
        for way, error in both.items()
    ]
    return "\n".join([*lines, f"Calibration error of the ten best answers: {', '.join(errors)}."])


PAGES: dict[str, dict[str, Callable[[Report], str]]] = {
    "README.md": {"recall": readme_figures},
    "docs/quality.md": {
        "models": models_table,
        "seeds": seeds_table,
        "first-pictures": first_pictures,
        "shortlists": shortlist_table,
        "over-http": over_http,
        "calibration": calibration_error,
        "matched": matched,
        "pointing": pointing,
        "short-questions": short_questions,
    },
    **{f"models/weights/{name}/card.md": {"measured": partial(card_figures, name)} for name in shipped_models()},
}


def filled(page: str, text: str, quality: Report) -> str:
    """The text of a page with new figures. Raises ValueError for a block that is missing, unknown or there twice."""
    blocks = PAGES[page]
    names = [name for _, name, _ in BLOCK.findall(text)]
    if sorted(names) != sorted(blocks):
        raise ValueError(f"{page} has marks for {names}, its blocks are {list(blocks)}")
    return BLOCK.sub(lambda mark: f"{mark[1]}{blocks[mark[2]](quality)}\n{mark[3]}", text)


def full_tables(quality: Report) -> Iterator[str]:
    """Tables of all recalls of every model, and of the recalls of their shortlists."""
    reports = quality["models"]["reports"]
    rows = [
        search_row(f"`{name}`, {way}", search)
        for name, report in reports.items()
        for way, search in searches(report).items()
    ]
    yield table("model and search", *recall_heads(quality), rows=rows)
    kept = [
        [f"`{name}`", words, what, *(f"{report[counted][k][direction]:.1f}" for k in lengths(report))]
        for name, report in reports.items()
        for direction, words in DIRECTIONS.items()
        for counted, what in COUNTED.items()
    ]
    yield table("model", "direction", "the shortlist holds", *lengths(reports[DEFAULT]), rows=kept)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "show", "collect", "line"])
    parser.add_argument("--seed", type=int, help="of another training of the default model")
    parser.add_argument("reports", nargs="*", type=Path, metavar="REPORT.json")
    args = parser.parse_intermixed_args()  # --seed may stand before the reports
    reports = [read(path) for path in args.reports]
    if args.what == "line":
        print("\n".join(map(summary_line, reports)))
        return
    quality = read(FIGURES)
    if args.what == "show":
        print("\n\n".join(full_tables(quality)))
    elif args.what == "collect":
        try:
            for report in reports:
                collect(quality, report) if args.seed is None else collect_seed(quality, args.seed, report)
        except ValueError as fault:
            parser.error(f"{fault}; nothing was written")
        FIGURES.write_text(as_json(quality) + "\n", encoding="utf-8")
    else:
        for page in PAGES:
            text = (ROOT / page).read_text(encoding="utf-8")
            (ROOT / page).write_text(filled(page, text, quality), encoding="utf-8")


if __name__ == "__main__":
    main()
