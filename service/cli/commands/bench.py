"""`regard bench`: the speed of models (scoring, training, evaluation) and of a service (start, ingestion, searches)."""

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from models.training.recipes import RECIPES
from service.cli.benchmarks import Benchmark, BenchOptions, measure
from service.cli.options import AsJson, refuse_unread
from service.cli.terminal.output import print_json, print_table
from service.errors import UserError

OPTIONS_OF_ALL = ("threads", "device", "beside", "plot", "as_json")
OPTIONS_OF_SERVICE = ("model", "pictures", "rounds")
OPTIONS_OF_BENCHMARKS = {
    Benchmark.RERANK: ("model", "candidates", "regions", "words", "width", "rounds"),
    Benchmark.TRAIN: ("model", "candidates", "regions", "words", "width", "rounds"),
    Benchmark.EVALUATE: ("model", "candidates", "captions", "regions", "width"),
    Benchmark.SHORTLIST: ("candidates", "width", "rounds"),
    Benchmark.SERVE: (*OPTIONS_OF_SERVICE, "candidates", "clients", "web_processes", "seconds", "data_dir"),
    Benchmark.INGEST: (*OPTIONS_OF_SERVICE, "photographs"),
    Benchmark.START: (*OPTIONS_OF_SERVICE, "data_dir"),
}
DEFAULT_PICTURES = {Benchmark.SERVE: 10_000, Benchmark.INGEST: 96, Benchmark.START: 0}
FULL_DIGITS = 1000  # numbers from here on are printed without decimals


def bench(
    context: typer.Context,
    what: Annotated[
        Benchmark,
        typer.Argument(
            help="rerank: a sentence against candidates. train: one step on hardest negatives. "
            "evaluate: all captions with all pictures. shortlist: stage one by kinds of index and exactly. "
            "serve: searches over HTTP against the same in one process. ingest: each stage, and the service against "
            "the bare extractor. start: the time until it listens and until it is ready, and its memory."
        ),
    ],
    model: Annotated[
        list[str] | None, typer.Option(help="Name of a model, repeatable; the usual ones if not given.")
    ] = None,
    candidates: Annotated[
        list[int] | None,
        typer.Option(
            min=2,
            help="Pictures per sentence, repeatable. Default: rerank 100 and 1000, train 128, evaluate 1000, shortlist"
            " (its rows) 10000 and 100000, serve (its shortlist) 100.",
        ),
    ] = None,
    captions: Annotated[int, typer.Option(min=1, help="Captions to evaluate.")] = 5000,
    regions: Annotated[int, typer.Option(min=1, help="Regions of a picture.")] = 36,
    words: Annotated[int, typer.Option(min=1, help="Words of a sentence; captions to evaluate have 8 to 20.")] = 14,
    width: Annotated[int, typer.Option(min=2, help="Numbers in a vector; for shortlist 386 is usual.")] = 1024,
    pictures: Annotated[
        int | None,
        typer.Option(min=0, help="Pictures to store for serve (10000) or start (0), or ingest a round (96)."),
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Concurrent clients of serve.")] = 8,
    web_processes: Annotated[
        int, typer.Option(min=1, max=64, help="Web processes of a second service for serve; 1 for no second one.")
    ] = 2,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds for each form in a round of serve.")] = 10.0,
    photographs: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Pictures to ingest; drawn ones if not given.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Data directory for synthetic pictures of serve and start; temporary if not given."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in which the forms take turns.")] = 5,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of this process; all cores if not given.")] = None,
    device: Annotated[str, typer.Option(help="cpu, or cuda for all but train and shortlist.")] = "cpu",
    beside: Annotated[int, typer.Option(min=0, help="Busy processes to run at the same time.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write a chart to this PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed, compared with the published code.

    Regard, the code of the models' authors and the machine's limits are measured in turns.
    """
    refuse_unread(context, what, OPTIONS_OF_ALL + OPTIONS_OF_BENCHMARKS[what])
    if what is Benchmark.SERVE and len(candidates or []) > 1:
        raise typer.BadParameter("serve measures one shortlist at a time: give --candidates once")
    _check_models(model or [])
    _check_device(what, device)
    if plot is not None and not plot.parent.is_dir():
        raise UserError(f"there is no folder {plot.parent} to write {plot.name} to")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends started processes, as Ctrl-C does
    import torch

    from models.bench.inputs import Sizes

    if threads is not None:
        torch.set_num_threads(threads)
    options = BenchOptions(
        what=what,
        models=model or [],
        candidates=candidates or [],
        captions=captions,
        sizes=Sizes(regions=regions, words=words, width=width),
        rounds=rounds,
        threads=torch.get_num_threads(),
        device=device,
        pictures=DEFAULT_PICTURES.get(what, 0) if pictures is None else pictures,
        clients=clients,
        web_processes=web_processes,
        seconds=seconds,
        photographs=photographs,
        data_dir=data_dir,
        beside=beside,
    )
    report = measure(options)
    if plot is not None:
        from service.bench.charts import chart_of

        plot.write_bytes(chart_of(what, report["rows"]).to_png())
    if as_json:
        print_json(report)
    else:
        print_measurements(report)


def _check_models(names: list[str]) -> None:
    """UserError for an unknown model. Names come from recipes, which every model has, to avoid importing PyTorch."""
    known = list(dict.fromkeys(recipe.model for recipe in RECIPES.values()))
    if unknown := [name for name in names if name not in known]:
        raise UserError(f"no model is called {', '.join(unknown)}; there are {', '.join(known)}")


def _check_device(what: Benchmark, device: str) -> None:
    """UserError for a device that is missing, or that the benchmark does not use."""
    if device == "cpu":
        return
    if what in (Benchmark.TRAIN, Benchmark.SHORTLIST):
        raise UserError(f"{what} is measured on the processor: leave --device out")
    from service.model_loading import device_of

    device_of(device)


def print_measurements(report: dict[str, Any]) -> None:
    """Print the machine in one line, and a table."""
    print(", ".join(f"{name} {format_cell(value)}" for name, value in report["hardware"].items()))
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
