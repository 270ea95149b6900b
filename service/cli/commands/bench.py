"""`regard bench`: how fast models score, train and evaluate."""

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.training.recipes import RECIPES
from service.cli.options import AsJson
from service.cli.output import print_json, print_table, show_progress
from service.errors import UserError

if TYPE_CHECKING:
    from models.bench.inputs import Sizes
    from models.bench.timing import MachineRates

FULL_DIGITS = 1000  # from which on a number is printed without decimals


class Benchmark(StrEnum):
    """The operations that can be measured."""

    RERANK = "rerank"
    TRAIN = "train"
    EVALUATE = "evaluate"


def bench(
    what: Annotated[
        Benchmark,
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
    _check_models(model or [])
    import torch  # noqa: PLC0415 - seconds, which a refused argument should not take

    from models.bench.inputs import Sizes  # noqa: PLC0415
    from models.bench.timing import hardware, measure_rates  # noqa: PLC0415

    if threads is not None:
        torch.set_num_threads(threads)
    sizes = Sizes(regions=regions, words=words, width=width)
    with show_progress() as progress:
        with progress.activity("measuring the machine"):
            rates = measure_rates()
        rows, total = _rows(what, model, candidates, captions, sizes, rounds, rates)
        task, measured = progress.add_task("measuring", total), []
        for row in rows:
            measured.append(row)
            task.advance()
    report = {"hardware": hardware() | rates.as_dict(), "rows": measured}
    if as_json:
        print_json(report)
    else:
        print_measurements(report)


def _check_models(names: list[str]) -> None:
    """UserError for a name that no model has. Every model has a recipe, and recipes are there without PyTorch."""
    known = list(dict.fromkeys(recipe.model for recipe in RECIPES.values()))
    if unknown := [name for name in names if name not in known]:
        raise UserError(f"no model is called {', '.join(unknown)}; there are {', '.join(known)}")


def _rows(
    what: Benchmark,
    model: list[str] | None,
    candidates: list[int] | None,
    captions: int,
    sizes: "Sizes",
    rounds: int,
    rates: "MachineRates",
) -> tuple[Iterator[dict[str, Any]], int]:
    """The rows of the report, each measured when it is asked for, and how many there will be."""
    from models.bench.evaluation import EVALUATED_MODELS, evaluation_rows  # noqa: PLC0415
    from models.bench.rerank import rerank_rows  # noqa: PLC0415
    from models.bench.training import TRAINED_MODELS, training_rows  # noqa: PLC0415
    from models.rerankers.registry import RERANKERS  # noqa: PLC0415

    match what:
        case Benchmark.RERANK:
            names, counts = model or list(RERANKERS), candidates or [100, 1000]
            rows = rerank_rows(names, counts, sizes, rounds, rates)
        case Benchmark.TRAIN:
            names, counts = model or list(TRAINED_MODELS), candidates or [128]
            rows = training_rows(names, counts, sizes, rounds, rates)
        case Benchmark.EVALUATE:
            names, counts = model or list(EVALUATED_MODELS), candidates or [1000]
            rows = evaluation_rows(names, counts, captions, sizes, rates)
    return rows, len(names) * len(counts)


def print_measurements(report: dict[str, Any]) -> None:
    """Print the machine in one line, and a table."""
    print(", ".join(f"{name} {value}" for name, value in report["hardware"].items()))
    columns = list(report["rows"][0])
    print_table(
        *(name.replace("_", " ") for name in columns),
        rows=[[format_cell(value) for value in row.values()] for row in report["rows"]],
    )


def format_cell(value: Any) -> str:
    """A number with three digits; a dash for None."""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < FULL_DIGITS else f"{value:.0f}"
    return "-" if value is None else str(value)
