"""`regard bench`: the speed of models (scoring, training, evaluation) and of a service (start, ingestion, searches)."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.training.recipes import RECIPES
from service.cli.options import AsJson, refuse_unread
from service.cli.terminal.output import print_json, print_table, show_progress
from service.errors import UserError

if TYPE_CHECKING:
    from models.bench.inputs import Sizes
    from models.bench.timing import MachineRates
    from models.kernels.library import KernelLibrary
    from service.settings import Settings

FULL_DIGITS = 1000  # numbers from here on are printed without decimals


class Benchmark(StrEnum):
    """The operations that can be measured."""

    RERANK = "rerank"
    TRAIN = "train"
    EVALUATE = "evaluate"
    SHORTLIST = "shortlist"
    SERVE = "serve"
    INGEST = "ingest"
    START = "start"


OF_MODELS = (Benchmark.RERANK, Benchmark.TRAIN, Benchmark.EVALUATE)
OPTIONS_OF_ALL = ("threads", "device", "beside", "plot", "as_json")
OPTIONS_OF_BENCHMARKS = {
    Benchmark.RERANK: ("model", "candidates", "regions", "words", "width", "rounds"),
    Benchmark.TRAIN: ("model", "candidates", "regions", "words", "width", "rounds"),
    Benchmark.EVALUATE: ("model", "candidates", "captions", "regions", "width"),
    Benchmark.SHORTLIST: ("candidates", "width", "rounds"),
    Benchmark.SERVE: (
        "model",
        "candidates",
        "pictures",
        "clients",
        "web_processes",
        "seconds",
        "data_dir",
        "rounds",
    ),
    Benchmark.INGEST: ("model", "pictures", "photographs", "rounds"),
    Benchmark.START: ("model", "pictures", "data_dir", "rounds"),
}
DEFAULT_PICTURES = {Benchmark.SERVE: 10_000, Benchmark.INGEST: 96, Benchmark.START: 0}


@dataclass(frozen=True, kw_only=True)
class _Given:
    """The arguments of the command line."""

    what: Benchmark
    models: list[str]
    candidates: list[int]
    captions: int
    sizes: "Sizes"
    rounds: int
    threads: int
    device: str
    pictures: int
    clients: int
    web_processes: int
    seconds: float
    photographs: Path | None
    data_dir: Path | None
    beside: int


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
    import torch  # noqa: PLC0415 - takes seconds, which a refused argument should not cost

    from models.bench.inputs import Sizes  # noqa: PLC0415

    if threads is not None:
        torch.set_num_threads(threads)
    given = _Given(
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
    report = _measure(given)
    if plot is not None:
        from service.bench.charts import chart_of  # noqa: PLC0415

        plot.write_bytes(chart_of(what, report["rows"]).to_png())
    if as_json:
        print_json(report)
    else:
        print_measurements(report)


def _measure(given: _Given) -> dict[str, Any]:
    """The report: the machine, and the rows measured on it."""
    from models.bench.busy import busy_processes  # noqa: PLC0415
    from models.bench.rerank import built_kernels  # noqa: PLC0415
    from models.bench.timing import hardware, measure_rates  # noqa: PLC0415

    kernels = built_kernels()
    with ExitStack() as stack:
        progress = stack.enter_context(show_progress())
        stack.enter_context(busy_processes(given.beside))
        with progress.activity("measuring the machine"):
            rates = measure_rates(kernels=kernels, device=given.device)
        of_models = given.what in OF_MODELS
        rows, total = _rows_of_models(given, rates, kernels) if of_models else _rows_of_service(given, rates, stack)
        task, measured = progress.add_task("measuring", total), []
        for row in rows:
            measured.append(row)
            task.advance()
        task.finish()
    beside_it = {"busy_processes": given.beside} if given.beside else {}
    return {"hardware": hardware() | beside_it | rates.as_dict(), "rows": measured}


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
    from service.model_loading import device_of  # noqa: PLC0415 - imports PyTorch

    device_of(device)


def _rows_of_models(
    given: _Given, rates: "MachineRates", kernels: "KernelLibrary | None"
) -> tuple[Iterator[dict[str, Any]], int]:
    """An iterator that measures the rows of a benchmark of models, and their number."""
    from models.bench.evaluation import EVALUATED_MODELS, evaluation_rows  # noqa: PLC0415
    from models.bench.rerank import rerank_rows  # noqa: PLC0415
    from models.bench.training import TRAINED_MODELS, training_rows  # noqa: PLC0415
    from models.rerankers.registry import RERANKERS  # noqa: PLC0415

    sizes, rounds = given.sizes, given.rounds
    match given.what:
        case Benchmark.RERANK:
            names, counts = given.models or list(RERANKERS), given.candidates or [100, 1000]
            rows = rerank_rows(names, counts, sizes, rounds, rates, kernels, given.device)
        case Benchmark.TRAIN:
            names, counts = given.models or list(TRAINED_MODELS), given.candidates or [128]
            rows = training_rows(names, counts, sizes, rounds, rates)
        case _:
            names, counts = given.models or list(EVALUATED_MODELS), given.candidates or [1000]
            rows = evaluation_rows(names, counts, given.captions, sizes, rates, kernels, given.device)
    return rows, len(names) * len(counts)


def _rows_of_service(
    given: _Given, rates: "MachineRates", stack: ExitStack
) -> tuple[Iterator[dict[str, Any]], int | None]:
    """An iterator that measures the rows of a benchmark of a service, and their number, None if unknown. The stack
    removes temporary folders."""
    from service.bench.ingestion import files_to_ingest, ingest_rows, waiting_rows  # noqa: PLC0415
    from service.bench.serving import ServeSizes, serve_rows  # noqa: PLC0415
    from service.bench.shortlist import measured_kinds, shortlist_rows  # noqa: PLC0415
    from service.bench.starting import start_rows  # noqa: PLC0415
    from service.bench.synthetic import fill_with_pictures  # noqa: PLC0415
    from service.model_loading import LoadedModels  # noqa: PLC0415

    if given.what is Benchmark.SHORTLIST:
        counts = given.candidates or [10_000, 100_000]
        rows = shortlist_rows(counts, given.sizes.width, 100, given.rounds, rates)
        return rows, sum(len(measured_kinds(count)) for count in counts)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="regard-bench-")))
    settings = _settings(given, given.data_dir or folder / "data")
    match given.what:
        case Benchmark.SERVE:
            sizes = ServeSizes(
                pictures=given.pictures,
                clients=given.clients,
                candidates=(given.candidates or [100])[0],
                seconds=given.seconds,
                rounds=given.rounds,
                web_processes=given.web_processes,
            )
            return serve_rows(settings, sizes, folder), None
        case Benchmark.START:
            if given.pictures:
                fill_with_pictures(settings, LoadedModels.from_settings(settings), given.pictures)
            return start_rows(settings, given.rounds, folder), None
        case _:
            count = settings.detect_batch + given.pictures * given.rounds
            files = files_to_ingest(given.photographs, count, folder)
            rows = ingest_rows(settings, files, given.rounds, given.threads, folder)
            further = waiting_rows(settings, given.rounds, given.threads) if given.beside else ()
            return chain(rows, further), None


def _settings(given: _Given, data_dir: Path) -> "Settings":
    """The settings of the measured service. Searches over HTTP are measured with one model, the rest with all."""
    from service.cli.settings_options import read_settings  # noqa: PLC0415

    chosen: dict[str, Any] = {"data_dir": data_dir, "device": given.device, "threads": given.threads}
    if given.models:
        chosen["models"] = tuple(given.models)
    settings = read_settings(chosen)
    if given.what is Benchmark.SERVE and not given.models:
        settings = settings.model_copy(update={"models": settings.models[:1], "views": ()})
    return settings


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
