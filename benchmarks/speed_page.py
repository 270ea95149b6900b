"""The figures and plots of docs/speed.md: recorded by one command, written into the page by another.

python -m benchmarks.speed_page record
    runs each benchmark and keeps its report, with its command, in benchmarks/results/speed/; about 25 minutes
    on two idle cores. Names of runs may follow, to repeat only these.
python -m benchmarks.speed_page write
    draws the plots into docs/images/ and puts them, the tables and the commands into docs/speed.md
"""

import argparse
import io
import json
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import PIL.Image

from benchmarks.figures_file import as_json
from service.bench.charts import chart_of
from service.cli.commands.bench import format_cell

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "speed"
PAGE = ROOT / "docs" / "speed.md"
IMAGES = ROOT / "docs" / "images"

FAMILY = ("scan-t2i-avg", "scan-i2t-avg", "bfan-equal", "bfan-prob", "summax-t2i", "summax-i2t")
OTHERS = ("caan", "sman", "camp", "camp-released")


def of_models(names: Sequence[str]) -> str:
    """Options that name models."""
    return "".join(f" --model {name}" for name in names)


RUNS: Mapping[str, str] = {  # arguments of `regard bench`
    "rerank": "rerank --threads 1 --rounds 7 --candidates 100 --candidates 1000" + of_models(FAMILY),
    "rerank-others": "rerank --threads 1 --rounds 5 --candidates 100" + of_models(OTHERS),
    "evaluate": "evaluate --threads 1 --captions 2560" + of_models(["scan-t2i-avg", "bfan-prob"]),
    "train": "train --rounds 2" + of_models(["scan-t2i-avg"]),
    "shortlist": "shortlist --width 386 --rounds 5",
    "shortlist-million": "shortlist --width 386 --rounds 3 --candidates 1000000",
    "serve": "serve --pictures 10000 --clients 8 --seconds 5 --rounds 3",
    "ingest": "ingest --pictures 300 --rounds 3",
    "ingest-beside": "ingest --pictures 24 --rounds 2 --beside 1",
    "start": "start --rounds 2",
}
DIGITS = 6  # that reports keep
PLOTTED = ("rerank", "evaluate", "serve", "ingest")
COLUMNS: Mapping[str, Mapping[str, str]] = {  # benchmark -> column of the report -> heading
    "rerank": {
        "model": "model",
        "form": "computed by",
        "candidates": "candidates",
        "us_per_pair": "us a pair",
        "first_us_per_pair": "in the first call",
        "ratio_to_floor": "times the floor",
        "ratio_to_literal": "literal form takes",
        "ratio_to_torch": "our PyTorch form takes",
        "ratio_to_maxsim": "maxsim-cpu takes",
    },
    "evaluate": {
        "model": "model",
        "form": "attention by",
        "us_per_pair": "us a pair",
        "ratio_to_floor": "times the floor",
        "ratio_to_literal": "loop, all pictures at once",
        "ratio_to_blocks": "loop, 128 at a time",
        "ratio_to_blocks_float64": "the same in float64, as published",
    },
    "train": {
        "model": "model",
        "step_ms": "ours, ms",
        "literal_step_ms": "caption loop, ms",
        "ratio_to_literal": "ratio",
        "gradient_error": "gradients differ by",
        "ours_peak_mb": "peak memory, ours, MB",
        "literal_peak_mb": "of the loop, MB",
    },
    "shortlist": {
        "rows": "pictures",
        "kind": "index",
        "used": "used",
        "recall": "recall of the best 100",
        "recall_filtered": "behind a filter",
        "bytes_per_row": "bytes a picture",
        "build_s": "built in, s",
        "ms_per_query": "ms a query",
        "exact_ms_per_query": "exact search, ms",
        "ratio_to_exact": "times as long",
    },
    "serve": {
        "form": "form",
        "clients": "clients",
        "queries_per_second": "queries a second",
        "p50_ms": "p50, ms",
        "p95_ms": "p95, ms",
        "ratio_to_in_process": "of the rate in process",
        "p95_to_one_query": "p95, in single queries",
    },
    "ingest": {
        "what": "what",
        "seconds_per_picture": "s a picture",
        "pictures_per_second": "pictures a second",
        "share": "share",
        "ratio": "ratio",
    },
    "start": {
        "what": "what",
        "listening_s": "listens after, s",
        "ready_s": "ready after, s",
        "memory_mb": "memory (PSS), MB",
        "refused_s": "refused after, s",
    },
}


def command_of(run: str) -> str:
    """The command line of a run."""
    return f"regard bench {RUNS[run]}"


def fenced(command: str) -> str:
    """A command as a code block with short lines."""
    lines = textwrap.wrap(command, 110, break_on_hyphens=False, break_long_words=False)
    return "```sh\n" + " \\\n  ".join(lines) + "\n```\n"


def benchmark_of(run: str) -> str:
    """The benchmark of a run."""
    return RUNS[run].split()[0]


def record(run: str) -> None:
    """Run a benchmark and keep its report."""
    began = time.monotonic()
    command = [sys.executable, "-m", "service.cli.main", "bench", *RUNS[run].split(), "--json"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    report = {"command": command_of(run), "month": time.strftime("%B %Y"), **json.loads(ran.stdout)}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{run}.json").write_text(as_json(rounded_to_digits(report)) + "\n", encoding="utf-8")
    print(f"{run}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def rounded_to_digits(value: Any) -> Any:
    """A report with every fraction to DIGITS significant digits."""
    if isinstance(value, dict):
        return {key: rounded_to_digits(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded_to_digits(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def recorded() -> dict[str, dict[str, Any]]:
    """The recorded reports, by run."""
    paths = {run: RESULTS / f"{run}.json" for run in RUNS}
    return {run: json.loads(path.read_text(encoding="utf-8")) for run, path in paths.items() if path.is_file()}


def block_of(run: str, report: Mapping[str, Any] | None) -> str:
    """The Markdown of a run: plot, table, command and machine; only the command if there is no report."""
    if report is None:
        return "Not recorded yet:\n\n" + fenced(command_of(run))
    benchmark = benchmark_of(run)
    columns = {
        name: heading for name, heading in COLUMNS[benchmark].items() if any(row.get(name) for row in report["rows"])
    }
    lines = ["| " + " | ".join(columns.values()) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(format_cell(row.get(name)) for name in columns) + " |" for row in report["rows"]]
    image = [f"![{chart_of(benchmark, report['rows']).title}](images/speed-{run}.webp)", ""] if run in PLOTTED else []
    machine = report["hardware"]
    conditions = f"{machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}, {report['month']}"
    flops, read = (format_cell(machine[name]) for name in ("gflop_per_second", "gb_read_per_second"))
    rates = f"{flops} GFLOP/s, {read} GB/s read"
    return "\n".join([*image, *lines, "", fenced(report["command"]), f"{conditions}; {rates}.", ""])


def page_with(text: str, reports: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with every marked block replaced. Raises KeyError for an unknown run."""

    def written(found: re.Match[str]) -> str:
        run = found.group(1)
        if run not in RUNS:
            raise KeyError(run)
        return f"<!-- speed: {run} -->\n{block_of(run, reports.get(run))}<!-- end of speed -->"

    return re.sub(r"<!-- speed: ([\w-]+) -->\n.*?<!-- end of speed -->", written, text, flags=re.DOTALL)


def write() -> None:
    """Draw the plots of what is recorded, and write the page."""
    reports = recorded()
    for run in PLOTTED:
        if run in reports:
            plot = chart_of(benchmark_of(run), reports[run]["rows"]).to_png()
            with PIL.Image.open(io.BytesIO(plot)) as chart:  # half the bytes: the checkout's size is bounded
                chart.convert("RGB").save(IMAGES / f"speed-{run}.webp", lossless=True, quality=100, method=6)
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), reports), encoding="utf-8")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["record", "write"])
    parser.add_argument("runs", nargs="*", help=f"of record: some of {', '.join(RUNS)}")
    args = parser.parse_args()
    if unknown := set(args.runs) - set(RUNS):
        parser.error(f"no run is called {', '.join(sorted(unknown))}; there are {', '.join(RUNS)}")
    if args.do == "write":
        write()
    for run in (args.runs or RUNS) if args.do == "record" else ():
        record(run)


if __name__ == "__main__":
    main()
