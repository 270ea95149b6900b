"""Charts of the reports of `regard bench`: one for each benchmark."""

from collections.abc import Mapping, Sequence
from typing import Any

from models.bench.plots import BarChart

Row = Mapping[str, Any]

SHOWN = {  # benchmark -> title, unit, columns that name a group, column of each series
    "rerank": (
        "One sentence against its candidates",
        "microseconds a pair, less is better",
        ("model", "candidates"),
        {
            "ours": "us_per_pair",
            "literal form": "literal_us_per_pair",
            "our PyTorch form": "torch_us_per_pair",
            "floor": "floor_us_per_pair",
        },
    ),
    "evaluate": (
        "All captions with all pictures",
        "microseconds a pair, less is better",
        ("model", "candidates"),
        {
            "ours": "us_per_pair",
            "authors' loop, all pictures at once": "literal_us_per_pair",
            "authors' loop in float64": "blocks_float64_us_per_pair",
            "floor": "floor_us_per_pair",
        },
    ),
    "train": (
        "One step on hardest negatives",
        "milliseconds, less is better",
        ("model", "candidates"),
        {"ours": "step_ms", "authors' loop": "literal_step_ms", "encoders": "encoders_ms"},
    ),
    "shortlist": (
        "The shortlist of one query",
        "milliseconds, less is better",
        ("kind", "rows"),
        {"this index": "ms_per_query", "exact": "exact_ms_per_query", "floor of an exact search": "floor_of_exact_ms"},
    ),
    "serve": (
        "Searches over HTTP",
        "queries a second, more is better",
        ("form",),
        {"queries a second": "queries_per_second"},
    ),
    "ingest": (
        "Ingestion",
        "seconds a picture, less is better",
        ("what",),
        {"seconds a picture": "seconds_per_picture"},
    ),
    "start": (
        "Starting",
        "seconds, less is better",
        ("what",),
        {"listening": "listening_s", "ready": "ready_s", "refused": "refused_s"},
    ),
}


def chart_of(what: str, rows: Sequence[Row]) -> BarChart:
    """The chart of a benchmark's rows; what a row does not have is left out."""
    title, unit, names, columns = SHOWN[what]
    groups = {
        " x ".join(str(row[name]) for name in names): {
            series: float(row[column]) for series, column in columns.items() if row.get(column) is not None
        }
        for row in rows
    }
    return BarChart(title=title, unit=unit, groups=groups)
