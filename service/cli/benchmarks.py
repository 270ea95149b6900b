"""Benchmarks of models and of a service, and their report."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.cli.settings_options import read_settings
from service.cli.terminal.output import show_progress

if TYPE_CHECKING:
    from models.bench.inputs import Sizes
    from models.bench.timing import MachineRates
    from models.kernels.library import KernelLibrary
    from service.settings import Settings


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


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """The options of a benchmark. Without models or candidates, its usual ones are measured."""

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


def measure(options: BenchOptions) -> dict[str, Any]:
    """The report: the machine, and the rows measured on it."""
    from models.bench.busy import busy_processes
    from models.bench.rerank import built_kernels
    from models.bench.timing import hardware, measure_rates

    kernels = built_kernels()
    with ExitStack() as stack:
        progress = stack.enter_context(show_progress())
        stack.enter_context(busy_processes(options.beside))
        with progress.activity("measuring the machine"):
            rates = measure_rates(kernels=kernels, device=options.device)
        of_models = options.what in OF_MODELS
        rows, total = _rows_of_models(options, rates, kernels) if of_models else _rows_of_service(options, rates, stack)
        task, measured = progress.add_task("measuring", total), []
        for row in rows:
            measured.append(row)
            task.advance()
        task.finish()
    beside_it = {"busy_processes": options.beside} if options.beside else {}
    return {"hardware": hardware() | beside_it | rates.as_dict(), "rows": measured}


def _rows_of_models(
    options: BenchOptions, rates: "MachineRates", kernels: "KernelLibrary | None"
) -> tuple[Iterator[dict[str, Any]], int]:
    """An iterator that measures the rows of a benchmark of models, and their number."""
    from models.bench.evaluation import EVALUATED_MODELS, evaluation_rows
    from models.bench.rerank import rerank_rows
    from models.bench.training import TRAINED_MODELS, training_rows
    from models.rerankers.registry import RERANKERS

    sizes, rounds = options.sizes, options.rounds
    match options.what:
        case Benchmark.RERANK:
            names, counts = options.models or list(RERANKERS), options.candidates or [100, 1000]
            rows = rerank_rows(names, counts, sizes, rounds, rates, kernels, options.device)
        case Benchmark.TRAIN:
            names, counts = options.models or list(TRAINED_MODELS), options.candidates or [128]
            rows = training_rows(names, counts, sizes, rounds, rates)
        case _:
            names, counts = options.models or list(EVALUATED_MODELS), options.candidates or [1000]
            rows = evaluation_rows(names, counts, options.captions, sizes, rates, kernels, options.device)
    return rows, len(names) * len(counts)


def _rows_of_service(
    options: BenchOptions, rates: "MachineRates", stack: ExitStack
) -> tuple[Iterator[dict[str, Any]], int | None]:
    """An iterator that measures the rows of a benchmark of a service, and their number, None if unknown. The stack
    removes temporary folders."""
    from service.bench.ingestion import files_to_ingest, ingest_rows, waiting_rows
    from service.bench.serving import ServeSizes, serve_rows
    from service.bench.shortlist import measured_kinds, shortlist_rows
    from service.bench.starting import start_rows
    from service.bench.synthetic import fill_with_pictures
    from service.model_loading import LoadedModels

    if options.what is Benchmark.SHORTLIST:
        counts = options.candidates or [10_000, 100_000]
        rows = shortlist_rows(counts, options.sizes.width, 100, options.rounds, rates)
        return rows, sum(len(measured_kinds(count)) for count in counts)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="regard-bench-")))
    settings = _settings(options, options.data_dir or folder / "data")
    match options.what:
        case Benchmark.SERVE:
            sizes = ServeSizes(
                pictures=options.pictures,
                clients=options.clients,
                candidates=(options.candidates or [100])[0],
                seconds=options.seconds,
                rounds=options.rounds,
                web_processes=options.web_processes,
            )
            return serve_rows(settings, sizes, folder), None
        case Benchmark.START:
            if options.pictures:
                fill_with_pictures(settings, LoadedModels.from_settings(settings), options.pictures)
            return start_rows(settings, options.rounds, folder), None
        case _:
            count = settings.detect_batch + options.pictures * options.rounds
            files = files_to_ingest(options.photographs, count, folder)
            rows = ingest_rows(settings, files, options.rounds, options.threads, folder)
            further = waiting_rows(settings, options.rounds, options.threads) if options.beside else ()
            return chain(rows, further), None


def _settings(options: BenchOptions, data_dir: Path) -> "Settings":
    """The settings of the measured service. Searches over HTTP are measured with one model, the rest with all."""
    chosen: dict[str, Any] = {"data_dir": data_dir, "device": options.device, "threads": options.threads}
    if options.models:
        chosen["models"] = tuple(options.models)
    settings = read_settings(chosen)
    if options.what is Benchmark.SERVE and not options.models:
        settings = settings.model_copy(update={"models": settings.models[:1], "views": ()})
    return settings
