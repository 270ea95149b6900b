"""Searches over HTTP, compared with encoding, shortlist and scoring alone in one process.

Forms take turns: in process with one thread per core, one client, several clients with persistent connections, several
with a new connection per search, then an open loop at half of the rate in process. Forms with several clients are
repeated with a service of several web processes.
"""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from index.views.view import Snapshot, View
from models.matching.matcher import Matcher
from service.bench.http_asker import HttpAsker
from service.bench.load import Ask, LoadOutcome, closed_loop, median_ratio, open_loop
from service.bench.synthetic import fill_with_pictures, random_sentences
from service.model_loading import LoadedModels
from service.processes.service_process import ServiceProcess
from service.search.scoring.rerank import score_pictures
from service.settings import Settings
from service.storage.data_dir import DataDir

OPEN_SHARE = 0.5  # offered rate of the open loop, as a share of the rate in process
ASKERS_PER_CLIENT = 8  # in the open loop, for searches that wait at the same time


def process_asker(matcher: Matcher, snapshot: Snapshot, candidates: int) -> Ask:
    """A function that searches without a service: it encodes a sentence, takes the shortlist and scores it."""

    def ask(sentence: str) -> None:
        texts, embedding = matcher.encode_sentences([sentence])
        _, rows = snapshot.images.search(embedding.float().cpu().numpy(), candidates)
        score_pictures(matcher, snapshot, rows[0][rows[0] >= 0], texts)

    return ask


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Use one thread inside each operator while the block runs, for many concurrent callers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True, kw_only=True)
class ServeSizes:
    """Sizes of a measurement of searches over HTTP."""

    pictures: int
    clients: int
    candidates: int
    seconds: float
    """Duration of each form in a round."""
    rounds: int
    web_processes: int
    """Web processes of a second service on the same pictures; 1 for no second service. The first one has one."""


def serve_rows(settings: Settings, sizes: ServeSizes, folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each form; logs of the services go to `folder`."""
    loaded = LoadedModels.from_settings(settings)
    present = fill_with_pictures(settings, loaded, sizes.pictures)
    matcher = loaded.matcher(loaded.default)
    callers = 1 if settings.device == "cuda" else os.cpu_count() or 1
    with ExitStack() as stack:
        view = stack.enter_context(closing(View(DataDir(settings.data_dir).view(matcher.digest))))
        ports = {how: stack.enter_context(one) for how, one in started_services(settings, sizes, folder).items()}
        stack.enter_context(one_thread_each())

        def http_askers(port: int, count: int, keep: bool = True) -> list[Ask]:
            return [stack.enter_context(closing(HttpAsker(port, sizes.candidates, keep))) for _ in range(count)]

        kept = {how: http_askers(port, sizes.clients) for how, port in ports.items()}
        askers = {
            "in process": [process_asker(matcher, view.snapshot(), sizes.candidates)] * callers,
            "one client": kept[""][:1],
            **{f"keep-alive{how}": each for how, each in kept.items()},
            **{f"new connections{how}": http_askers(port, sizes.clients, keep=False) for how, port in ports.items()},
        }
        turns = take_turns(askers, sizes.seconds, sizes.rounds)
        rate = OPEN_SHARE * statistics.median(one.rate for one in turns["in process"])
        many = {how: http_askers(port, ASKERS_PER_CLIENT * sizes.clients) for how, port in ports.items()}
        for turn in range(sizes.rounds):
            for how, each in many.items():
                outcome = open_loop(each, random_sentences(1000 + turn), rate, sizes.seconds)
                turns.setdefault(f"open loop{how}", []).append(outcome)
    bare = statistics.median(one.percentile(50) for one in turns["one client"])
    for name, outcomes in turns.items():
        yield {
            "form": name,
            "pictures": present,
            "candidates": sizes.candidates,
            "clients": len(askers[name]) if name in askers else sizes.clients,
            "offered_per_second": None if name in askers else rate,
            **summary(outcomes),
            "ratio_to_in_process": median_ratio(outcomes, turns["in process"]),
            "p95_to_one_query": statistics.median(one.percentile(95) for one in outcomes) / bare,
        }


def started_services(settings: Settings, sizes: ServeSizes, folder: Path) -> dict[str, AbstractContextManager[int]]:
    """Suffix for the names of forms -> context manager that runs a service and yields its port once it is ready."""

    @contextmanager
    def port_of(name: str, update: Mapping[str, Any]) -> Iterator[int]:
        with ServiceProcess(settings.model_copy(update=update), folder / f"{name}.log") as service:
            service.seconds_until("/readyz")
            service.wait_for_web_processes()
            yield service.settings.port

    services: dict[str, AbstractContextManager[int]] = {"": port_of("serve", {"web_processes": 1})}
    if (number := sizes.web_processes) > 1:
        several = {"web_processes": number, "role": "api"}  # the first service has the worker
        services[f", {number} web processes"] = port_of("serve-several", several)
    return services


def take_turns(askers: dict[str, list[Ask]], seconds: float, rounds: int) -> dict[str, list[LoadOutcome]]:
    """The outcomes of each form in all rounds, after a short run of each for warming up."""
    sentences: Callable[[int], Iterator[str]] = random_sentences
    for number, each in enumerate(askers.values()):
        closed_loop(each, sentences(number), min(1.0, seconds))
    turns: dict[str, list[LoadOutcome]] = {name: [] for name in askers}
    for turn in range(rounds):
        for number, (name, each) in enumerate(askers.items()):
            turns[name].append(closed_loop(each, sentences(10 + turn * len(askers) + number), seconds))
    return turns


def summary(outcomes: list[LoadOutcome]) -> dict[str, Any]:
    """Medians over the turns, and the number of all failures."""
    return {
        "queries_per_second": statistics.median(one.rate for one in outcomes),
        **{f"p{p}_ms": 1e3 * statistics.median(one.percentile(p) for one in outcomes) for p in (50, 95, 99)},
        "failed": sum(one.failed for one in outcomes),
    }
