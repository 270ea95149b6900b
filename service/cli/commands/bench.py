"""How fast: `regard bench`."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from service.cli.output import AsJson, print_json, print_table, progress

app = typer.Typer()

FULL_DIGITS = 1000


class What(StrEnum):
    """What can be measured."""

    RERANK = "rerank"
    TRAIN = "train"
    EVALUATE = "evaluate"


@app.command()
def bench(
    what: Annotated[
        What,
        typer.Argument(
            help="rerank: a sentence against candidates. train: one step on hardest negatives. "
            "evaluate: all captions with all pictures."
        ),
    ],
    model: Annotated[
        list[str] | None, typer.Option(help="Name of a model, repeatable; the usual ones if none.")
    ] = None,
    candidates: Annotated[
        list[int] | None,
        typer.Option(min=2, help="Pictures that a sentence meets, repeatable: 100 and 1000, batches of 128, 1000."),
    ] = None,
    captions: Annotated[int, typer.Option(min=1, help="Of an evaluation.")] = 5000,
    regions: Annotated[int, typer.Option(min=1, help="Of every picture.")] = 36,
    words: Annotated[int, typer.Option(min=1, help="Of a sentence; captions to evaluate have 8 to 20.")] = 14,
    width: Annotated[int, typer.Option(min=2, help="Of a vector.")] = 1024,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of every form: rerank, train.")] = 5,
    threads: Annotated[int | None, typer.Option(min=1, help="Of this process; all cores if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed on random vectors. Ours, the form of the models' authors and the machine's best, in turns."""
    import torch  # noqa: PLC0415 - seconds, which `--help` should not take

    from models.bench.evaluation import EVALUATED_MODELS, evaluation_rows  # noqa: PLC0415
    from models.bench.inputs import Sizes  # noqa: PLC0415
    from models.bench.rerank import rerank_rows  # noqa: PLC0415
    from models.bench.timing import hardware, measure_rates  # noqa: PLC0415
    from models.bench.training import TRAINED_MODELS, training_rows  # noqa: PLC0415
    from models.rerankers.registry import RERANKERS  # noqa: PLC0415

    if threads is not None:
        torch.set_num_threads(threads)
    sizes, rates = Sizes(regions=regions, words=words, width=width), measure_rates()
    match what:
        case What.RERANK:
            names, counts = model or list(RERANKERS), candidates or [100, 1000]
            rows = rerank_rows(names, counts, sizes, rounds, rates)
        case What.TRAIN:
            names, counts = model or list(TRAINED_MODELS), candidates or [128]
            rows = training_rows(names, counts, sizes, rounds, rates)
        case What.EVALUATE:
            names, counts = model or list(EVALUATED_MODELS), candidates or [1000]
            rows = evaluation_rows(names, counts, captions, sizes, rates)
    report = {"hardware": hardware() | rates.as_dict(), "rows": watched(rows, len(names) * len(counts))}
    if as_json:
        print_json(report)
    else:
        print_report(report)


def watched(rows: Iterator[dict[str, Any]], total: int) -> list[dict[str, Any]]:
    """All rows, with a bar that moves as they come."""
    with progress() as bars:
        return list(bars.track(rows, total=total, description="measuring"))


def print_report(report: dict[str, Any]) -> None:
    """The machine in one line, and a table."""
    print(", ".join(f"{name} {value}" for name, value in report["hardware"].items()))
    columns = list(report["rows"][0])
    print_table(
        *(name.replace("_", " ") for name in columns), rows=[[cell(v) for v in row.values()] for row in report["rows"]]
    )


def cell(value: Any) -> str:
    """Three digits of what was measured; a dash for what could not be."""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < FULL_DIGITS else f"{value:.0f}"
    return "-" if value is None else str(value)
