"""Searches over HTTP, compared with encoding, shortlist and scoring alone in one process.

Forms take turns: in process with one thread per core, one client, several clients with persistent connections, several
with a new connection per search, then an open loop at half of the rate in process. Forms with several clients are
repeated with a service of several web processes.
"""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
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


@dataclass
class Form:
    """A way to search that is measured, its outcome in each round so far, and the rate of searches in an open loop."""

    name: str
    askers: list[Ask]
    rate: float | None = None
    outcomes: list[LoadOutcome] = field(default_factory=list)

    def median(self, figure: Callable[[LoadOutcome], float]) -> float:
        """The median of a figure over the rounds."""
        return statistics.median(map(figure, self.outcomes))

    def percentile(self, percent: int) -> float:
        """The median over the rounds of a percentile of latencies, in seconds."""
        return self.median(lambda outcome: outcome.percentile(percent))


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

        def http_forms(name: str, count: int, keep: bool = True, rate: float | None = None) -> Iterator[Form]:
            for how, port in ports.items():
                askers = [stack.enter_context(closing(HttpAsker(port, sizes.candidates, keep))) for _ in range(count)]
                yield Form(name + how, [*askers], rate)

        in_process = Form("in process", [process_asker(matcher, view.snapshot(), sizes.candidates)] * callers)
        kept, *others = http_forms("keep-alive", sizes.clients)
        one_client = Form("one client", kept.askers[:1])
        forms = [in_process, one_client, kept, *others, *http_forms("new connections", sizes.clients, keep=False)]
        run_closed_loops(forms, sizes)
        rate = OPEN_SHARE * in_process.median(lambda outcome: outcome.rate)
        open_forms = [*http_forms("open loop", ASKERS_PER_CLIENT * sizes.clients, rate=rate)]
        for turn in range(sizes.rounds):
            for form in open_forms:
                form.outcomes.append(open_loop(form.askers, random_sentences(1000 + turn), rate, sizes.seconds))
    for form in [*forms, *open_forms]:
        yield {
            "form": form.name,
            "pictures": present,
            "candidates": sizes.candidates,
            "clients": len(form.askers) if form.rate is None else sizes.clients,
            "offered_per_second": form.rate,
            "queries_per_second": form.median(lambda outcome: outcome.rate),
            **{f"p{percent}_ms": 1e3 * form.percentile(percent) for percent in (50, 95, 99)},
            "failed": sum(outcome.failed for outcome in form.outcomes),
            "ratio_to_in_process": median_ratio(form.outcomes, in_process.outcomes),
            "p95_to_one_query": form.percentile(95) / one_client.percentile(50),
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


def run_closed_loops(forms: Sequence[Form], sizes: ServeSizes) -> None:
    """Run the forms in turns, in all rounds, after a short run of each for warming up."""
    for number, form in enumerate(forms):
        closed_loop(form.askers, random_sentences(number), min(1.0, sizes.seconds))
    for turn in range(sizes.rounds):
        for number, form in enumerate(forms):
            sentences = random_sentences(10 + turn * len(forms) + number)
            form.outcomes.append(closed_loop(form.askers, sentences, sizes.seconds))
