"""Searches over HTTP against what encoding, shortlist and scoring alone allow in one process.

Forms take turns: in process with a thread a core, one client, several clients with connections that are kept, several
with a new connection a question, then an open loop at half of the rate that was reached in process.
"""

import os
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import torch

from index.view import Snapshot, View
from models.matching.matcher import Matcher
from service.bench.http_asker import HttpAsker
from service.bench.load import Ask, LoadOutcome, closed_loop, median_ratio, open_loop
from service.bench.service_process import ServiceProcess
from service.bench.synthetic import fill_with_pictures, random_sentences
from service.model_loading import LoadedModels
from service.search.rerank import score_pictures
from service.settings import Settings
from service.storage.data_dir import DataDir

OPEN_SHARE = 0.5  # of the rate in process, offered in the open loop
ASKERS_PER_CLIENT = 8  # of the open loop: so many questions may wait at a time


def process_asker(matcher: Matcher, snapshot: Snapshot, candidates: int) -> Ask:
    """Asks without a service: the sentence encoded, the shortlist searched, its pictures scored."""

    def ask(sentence: str) -> None:
        texts, embedding = matcher.encode_sentences([sentence])
        _, rows = snapshot.images.search(embedding.float().cpu().numpy(), candidates)
        score_pictures(matcher, snapshot, rows[0][rows[0] >= 0], texts)

    return ask


@contextmanager
def one_thread_each() -> Iterator[None]:
    """One thread inside each operator, for many callers side by side."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def serve_rows(
    settings: Settings, pictures: int, clients: int, candidates: int, seconds: float, rounds: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """A row for every form; the service's log goes to `folder`."""
    loaded = LoadedModels.from_settings(settings)
    present = fill_with_pictures(settings, loaded, pictures)
    matcher = next(iter(loaded.matchers.values()))
    cores = os.cpu_count() or 1
    with ExitStack() as stack:
        view = stack.enter_context(closing(View(DataDir(settings.data_dir).view(matcher.digest))))
        service = stack.enter_context(ServiceProcess(settings, folder / "serve.log"))
        service.seconds_until("/readyz")
        stack.enter_context(one_thread_each())
        port, ask = service.settings.port, process_asker(matcher, view.snapshot(), candidates)

        def http_askers(count: int, keep: bool = True) -> list[Ask]:
            return [stack.enter_context(closing(HttpAsker(port, candidates, keep))) for _ in range(count)]

        kept = http_askers(clients)
        askers = {
            "in process": [ask] * (1 if settings.device == "cuda" else cores),
            "one client": kept[:1],
            "keep-alive": kept,
            "new connections": http_askers(clients, keep=False),
        }
        turns = take_turns(askers, seconds, rounds)
        rate = OPEN_SHARE * statistics.median(one.rate for one in turns["in process"])
        many = http_askers(ASKERS_PER_CLIENT * clients)
        turns["open loop"] = [open_loop(many, random_sentences(1000 + turn), rate, seconds) for turn in range(rounds)]
    counts = {name: len(each) for name, each in askers.items()} | {"open loop": clients}
    bare = statistics.median(one.percentile(50) for one in turns["one client"])
    for name, outcomes in turns.items():
        offered = rate if name == "open loop" else None
        yield {
            "form": name,
            "pictures": present,
            "candidates": candidates,
            "clients": counts[name],
            "offered_per_second": offered,
            **summary(outcomes),
            "ratio_to_in_process": median_ratio(outcomes, turns["in process"]),
            "p95_to_one_query": statistics.median(one.percentile(95) for one in outcomes) / bare,
        }


def take_turns(askers: dict[str, list[Ask]], seconds: float, rounds: int) -> dict[str, list[LoadOutcome]]:
    """Every form in every round, after a short one of each that does not count."""
    sentences: Callable[[int], Iterator[str]] = random_sentences
    for number, each in enumerate(askers.values()):
        closed_loop(each, sentences(number), min(1.0, seconds))
    turns: dict[str, list[LoadOutcome]] = {name: [] for name in askers}
    for turn in range(rounds):
        for number, (name, each) in enumerate(askers.items()):
            turns[name].append(closed_loop(each, sentences(10 + turn * len(askers) + number), seconds))
    return turns


def summary(outcomes: list[LoadOutcome]) -> dict[str, Any]:
    """Medians over the turns, and what failed in all of them."""
    return {
        "queries_per_second": statistics.median(one.rate for one in outcomes),
        **{f"p{p}_ms": 1e3 * statistics.median(one.percentile(p) for one in outcomes) for p in (50, 95, 99)},
        "failed": sum(one.failed for one in outcomes),
    }
