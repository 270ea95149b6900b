"""The overhead of shards on Ray on one machine: one process and shards hold the same pictures and take turns.

python -m benchmarks.cluster_overhead --photographs flickr8k/images --captions flickr8k/captions.jsonl --write

starts three nodes of Ray and `regard serve` beside them on this machine, gives both the same pictures, and asks both
the same sentences over HTTP: one client that keeps its connection, then four. It prints medians and the paired
differences with 95 % intervals (bootstrap); the exit status is 1 if shards are more than 15 ms slower at the median.
Nothing is cached on either side. Between the questions of the single client, this process makes the same searches as
a router would, which times each step on the shards, and the calls. `--write` writes the file that
`python -m benchmarks.cluster_simulation validate --measured` reads into benchmarks/results/.
"""

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from benchmarks.cluster_figures import RESULTS, SERVICE_TIMES, Figures, write
from benchmarks.ingested import ingest
from benchmarks.shard_probe import ShardProbe
from models.datasets.captions import read_captions
from regard_client import Client, Picture
from service.chaos.processes import Processes
from service.cluster.demo.local_nodes import running_ray_cluster
from service.cluster.on_ray.bring_up import bring_up, take_down
from service.cluster.on_ray.director import running_cluster
from service.cluster.on_ray.overview import cluster_overview
from service.settings import ClusterSettings, Settings
from service.this_machine import held_port

MEASURED = RESULTS / "cluster_latency.json"
BAR_MS = 15.0
READY_S = 900.0
RESAMPLES = 5000
WARM_UP = 10  # questions that do not count
FORMATS = (".jpg", ".jpeg", ".png")
BLOCK = 20  # questions that several clients ask one side before it is the other's turn


@dataclass
class Latencies:
    """Milliseconds that the same questions take in one process and in shards."""

    clients: int
    alone_ms: list[float] = field(default_factory=list)
    shards_ms: list[float] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Medians and 95th percentiles, and the paired differences with intervals."""
        differences = np.subtract(self.shards_ms, self.alone_ms)
        low, high = bootstrap_interval(differences)
        return {
            "clients": self.clients,
            "questions": len(differences),
            "alone": {"p50": percentile(self.alone_ms, 50), "p95": percentile(self.alone_ms, 95)},
            "shards": {"p50": percentile(self.shards_ms, 50), "p95": percentile(self.shards_ms, 95)},
            "slower at the median": round(percentile(self.shards_ms, 50) - percentile(self.alone_ms, 50), 2),
            "paired difference": {"median": percentile(differences, 50), "interval": [low, high]},
        }


def percentile(values: Sequence[float] | np.ndarray, which: float) -> float:
    """A percentile, rounded."""
    return round(float(np.percentile(values, which)), 2)


def bootstrap_interval(values: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of the median."""
    draws = np.random.default_rng(seed).choice(values, (RESAMPLES, len(values)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return round(float(low), 2), round(float(high), 2)


class Asker:
    """A client that asks one side over one connection."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60.0)

    def ask(self, question: str) -> tuple[float, dict[str, Any]]:
        """Milliseconds until the whole answer arrived, and the answer, which must not be partial."""
        began = time.perf_counter()
        response = self._client.post("/search/text", json={"query": question})
        elapsed_ms = 1000 * (time.perf_counter() - began)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        shards = answer.get("shards")
        assert shards is None or shards["asked"] == shards["answered"], answer
        return elapsed_ms, answer


def in_turns(
    alone: Asker, shards: Asker, questions: Sequence[str], between: Callable[[str, Any, float], None]
) -> Latencies:
    """One client asks both sides each question, in changing order; `between` is called with the shards' answers."""
    latencies = Latencies(clients=1)
    for number, question in enumerate(questions):
        sides = [alone, shards] if number % 2 else [shards, alone]
        answers = {side: side.ask(question) for side in sides}
        latencies.alone_ms.append(answers[alone][0])
        latencies.shards_ms.append(answers[shards][0])
        assert_same(answers[alone][1], answers[shards][1])
        between(question, answers[shards][1], answers[shards][0])
    return latencies


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Fail unless both answers hold the same pictures in the same order."""
    ids = [[hit["image_id"] for hit in side["results"]] for side in (one, other)]
    assert ids[0] == ids[1], f"{one['query']!r} is answered differently"


def by_several(urls: tuple[str, str], questions: Sequence[str], clients: int) -> Latencies:
    """Several clients at a time ask one side a block of questions, then the other side the same."""
    latencies = Latencies(clients)
    sides = [[Asker(url) for _ in range(clients)] for url in urls]
    with ThreadPoolExecutor(clients) as pool:
        for number, start in enumerate(range(0, len(questions), BLOCK)):
            block = questions[start : start + BLOCK]
            spent: dict[int, list[float]] = {}
            for side in ((0, 1), (1, 0))[number % 2]:
                parts = [block[n::clients] for n in range(clients)]
                asked = pool.map(lambda asker, part: [asker.ask(question)[0] for question in part], sides[side], parts)
                spent[side] = list(itertools.chain(*asked))
            latencies.alone_ms += spent[0]
            latencies.shards_ms += spent[1]
    return latencies


def wait_for(condition: Callable[[], bool], failure: str) -> None:
    """Return once the condition holds. Raises TimeoutError with `failure` after a quarter of an hour."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise TimeoutError(f"{failure} within {READY_S:.0f} s")


def is_ready(url: str) -> bool:
    """Whether a side searches and ingests."""
    return httpx.get(f"{url}/readyz", timeout=30.0).status_code == 200


@contextmanager
def both_sides(args: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str, ClusterSettings, Settings]]:
    """The address of the one process, that of the cluster, and the settings of the cluster."""
    common: dict[str, Any] = {"models": (args.model,), "threads": args.threads, "cache_entries": 0}
    # The long deadline waits for late shards, so that no answer is partial.
    chosen = ClusterSettings(
        shards=args.shards, replicas=args.replicas, search_round_trips=args.round_trips, search_deadline_s=30.0
    )
    with ExitStack() as stack:
        nodes = stack.enter_context(running_ray_cluster())
        chosen = chosen.model_copy(update={"ray_address": nodes.address})
        settings = Settings(data_dir=folder / "cluster", port=stack.enter_context(held_port()), **common)
        bring_up(settings, chosen)
        stack.callback(take_down, chosen)
        alone = stack.enter_context(
            Processes(Settings(data_dir=folder / "alone", **common), folder / "processes", False, 86_400.0)
        )
        url = f"http://127.0.0.1:{settings.port}"
        wait_for(lambda: is_ready(alone.url), "the one process was not ready")
        wait_for(lambda: is_ready(url), "the cluster was not ready")
        running = running_cluster(chosen)
        wait_for(lambda: all(row.state == "answers" for row in cluster_overview(running).replicas), "a replica is away")
        yield alone.url, url, chosen, settings


def photographs(folder: Path, count: int) -> list[Path]:
    """The first `count` pictures of a folder, by name."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in FORMATS)[:count]
    if len(paths) < count:
        raise SystemExit(f"{folder} holds {len(paths)} pictures, not {count}: name fewer with --pictures")
    return paths


def sentences(captions: Path, paths: Sequence[Path], count: int) -> list[str]:
    """`count` different captions after the warm-up, those of the pictures first."""
    lines = read_captions(captions, "train") + read_captions(captions, "dev")
    names = {path.name for path in paths}
    lines.sort(key=lambda line: Path(line.image).name not in names)
    return list(dict.fromkeys(text for line in lines for text in line.captions))[: count + WARM_UP]


def measured_file(probe: ShardProbe, latencies: Latencies, args: argparse.Namespace) -> Figures:
    """The file that the simulation reads."""
    return {
        "about": f"{args.pictures} pictures, {args.shards} shards, {args.model}; milliseconds, searches over HTTP",
        "command": "python -m benchmarks.cluster_overhead --write",
        "shards": args.shards,
        "round_trips": args.round_trips,
        "hedge": args.replicas > 1,
        "rows": args.pictures // args.shards,
        "ns_per_row": json.loads(SERVICE_TIMES.read_text(encoding="utf-8"))["ns_per_row"],
        **probe.service_times(),
        "end_to_end_ms": [round(each, 4) for each in latencies.shards_ms],
        "alone_ms": [round(each, 4) for each in latencies.alone_ms],
    }


def run(args: argparse.Namespace) -> bool:
    """Measure and print; whether the shards are fast enough."""
    torch.set_num_threads(args.threads)  # for the searches in this process
    paths = photographs(args.photographs, args.pictures)
    questions = sentences(args.captions, paths, 2 * args.questions)
    first, second = questions[WARM_UP : WARM_UP + args.questions], questions[WARM_UP + args.questions :]
    with (
        tempfile.TemporaryDirectory(prefix="regard-overhead-") as folder,
        both_sides(args, Path(folder)) as (alone, url, chosen, settings),
    ):
        for side in (alone, url):
            with Client(side) as client:
                ingest(client, [Picture(path) for path in paths])
        probe = ShardProbe(chosen, settings)
        askers = Asker(alone), Asker(url)
        in_turns(*askers, questions[:WARM_UP], probe.note)
        probe.forget()
        single = in_turns(*askers, first, probe.note)
        several = by_several((alone, url), second, args.clients)
    for latencies in (single, several):
        print(json.dumps(latencies.report()))
    if args.write is not None:
        write(args.write, measured_file(probe, single, args))
    return bool(single.report()["slower at the median"] <= BAR_MS)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--photographs", type=Path, required=True)
    arguments.add_argument("--captions", type=Path, required=True, help="JSON lines; what is asked")
    arguments.add_argument("--pictures", type=int, default=200)
    arguments.add_argument("--questions", type=int, default=200)
    arguments.add_argument("--clients", type=int, default=4)
    arguments.add_argument("--shards", type=int, default=3)
    arguments.add_argument("--replicas", type=int, default=1)
    arguments.add_argument("--round-trips", type=int, choices=[1, 2], default=2)
    arguments.add_argument("--model", default="bfan-equal")
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--write", type=Path, nargs="?", const=MEASURED, help="file for the simulation")
    return arguments


if __name__ == "__main__":
    raise SystemExit(0 if run(parser().parse_args()) else 1)
