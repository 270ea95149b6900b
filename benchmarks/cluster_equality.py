"""Do shards answer as one data directory does? The same pictures in one directory and spread over several shards.

python -m benchmarks.cluster_equality --features FEATURES --captions flickr8k/captions.jsonl --pictures 1000

FEATURES is what `regard extract` made of the photographs, so that no region is found twice. Shards are directories
that pictures are placed in as in a cluster, asked in this process; what travels is pickled on its way. Each question is
asked without a filter and with one. Compared are ids and their order, `matched`, `left_out` and who looks alike, and
scores within 1e-6. The last line sums up; the status is 1 where an answer differs. `--round-trips 1` compares searches
of one round trip with those of two instead, and says which share of the best results they find.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.equality_questions import dressed, pairs_of_questions, pairs_of_sentences
from benchmarks.local_shards import LocalDirectory, Source, sharded_engine
from models.datasets.captions import read_captions
from models.datasets.feature_collection import open_collection
from service.cluster.placement import shard_of
from service.model_loading import LoadedModels
from service.search.engine import SearchEngine
from service.search.requests import ImageSearchRequest, SearchRequest, TextSearchRequest
from service.settings import Settings

TOLERANCE = 1e-6
BEST = 10  # results that recall is counted in


@dataclass
class Comparison:
    """What was compared of one number of shards."""

    shards: int
    asked: int = 0
    faults: list[str] = field(default_factory=list)
    furthest: float = 0.0
    found: int = 0
    wanted: int = 0
    same_best: int = 0

    def summary(self) -> dict[str, Any]:
        """As a line of the report."""
        plain = {"shards": self.shards, "asked": self.asked, "differ": len(self.faults), "furthest": self.furthest}
        if not self.wanted:
            return plain
        return {**plain, "recall": self.found / self.wanted, "same best results": self.same_best / self.asked}


def answer(engine: SearchEngine, request: SearchRequest) -> Any:
    """The answer to a request of any kind."""
    if isinstance(request, TextSearchRequest):
        return engine.text(engine.begin(request))
    assert isinstance(request, ImageSearchRequest)
    assert request.image_id is not None
    return engine.like_stored(engine.begin(request), request.image_id)


def names_of(result: Any) -> list[tuple[str, str | None]]:
    """What was found, in its order."""
    return [(hit.image_id, getattr(hit, "text", None)) for hit in result.results]


def numbers_of(result: Any) -> list[float]:
    """Every score, probability and contribution of an answer."""
    numbers: list[float] = []
    for hit in result.results:
        numbers += [one for one in (hit.score, hit.probability) if one is not None]
        if hit.explanation is not None:
            numbers += hit.explanation.contributions or []
    return numbers


def shape_of(result: Any) -> tuple[Any, ...]:
    """What must be equal besides the order."""
    hits = [
        (
            hit.rank,
            hit.shortlist_rank,
            getattr(hit, "found_by", None),
            [(one.image_id, one.bits) for one in getattr(hit, "near_duplicates", None) or ()],
            None if hit.explanation is None else [word.text for word in hit.explanation.words],
        )
        for hit in result.results
    ]
    return hits, getattr(result, "matched", None), result.left_out, result.origin.k


def compare(one: Any, many: Any, comparison: Comparison, request: SearchRequest) -> None:
    """Count a pair of answers."""
    comparison.asked += 1
    asked = request.model_dump_json(exclude_defaults=True)
    if names_of(one) != names_of(many):
        comparison.faults.append(f"{asked}: other results or another order")
    elif shape_of(one) != shape_of(many):
        comparison.faults.append(f"{asked}: {shape_of(one)} became {shape_of(many)}")
    else:
        off = [abs(a - b) for a, b in zip(numbers_of(one), numbers_of(many), strict=True)]
        comparison.furthest = max([comparison.furthest, *off])
        if max(off, default=0.0) > TOLERANCE:
            comparison.faults.append(f"{asked}: a score is {max(off)} away")


def count_recall(two: Any, one: Any, comparison: Comparison) -> None:
    """Count how much of the best of two round trips is there in one."""
    comparison.asked += 1
    best, found = names_of(two)[:BEST], set(names_of(one))
    comparison.wanted += len(best)
    comparison.found += sum(name in found for name in best)
    comparison.same_best += best == names_of(one)[:BEST]


@dataclass(frozen=True)
class Bench:
    """What is compared: the models, the pictures, and where directories are made."""

    loaded: LoadedModels
    sources: Sequence[Source]
    folder: Path

    def directory(self, name: str, chosen: Sequence[Source], stack: ExitStack) -> LocalDirectory:
        """A data directory with these pictures."""
        directory = stack.enter_context(LocalDirectory(self.folder / name, self.loaded))
        directory.take_in(chosen)
        return directory

    def shards(self, count: int, stack: ExitStack) -> list[LocalDirectory]:
        """Directories that hold the pictures as so many shards do."""
        placed = [[one for one in self.sources if shard_of(one.image_id, count) == n] for n in range(count)]
        return [self.directory(f"{count}-{number}", own, stack) for number, own in enumerate(placed)]

    def against_one_machine(self, counts: Sequence[int], requests: Sequence[SearchRequest]) -> Iterator[Comparison]:
        """One comparison for each number of shards."""
        with ExitStack() as stack:
            whole = self.directory("whole", self.sources, stack)
            expected = [answer(whole.engine, request) for request in requests]
            for count in counts:
                with ExitStack() as own:
                    engine = sharded_engine(self.shards(count, own), self.loaded)
                    comparison = Comparison(count)
                    for request, one in zip(requests, expected, strict=True):
                        compare(one, answer(engine, request), comparison, request)
                    yield comparison

    def of_one_round_trip(self, counts: Sequence[int], requests: Sequence[SearchRequest]) -> Iterator[Comparison]:
        """The recall of one round trip against two."""
        for count in counts:
            with ExitStack() as own:
                shards, comparison = self.shards(count, own), Comparison(count)
                two, one = (sharded_engine(shards, self.loaded, round_trips) for round_trips in (2, 1))
                for request in requests:
                    count_recall(answer(two, request), answer(one, request), comparison)
                yield comparison


def read_sources(features: Path, captions: Path, split: str, pictures: int) -> list[Source]:
    """Pictures with regions, captions, tags and dates; the latter are drawn by the pictures' ids."""
    lines = read_captions(captions, split)[:pictures]
    wanted = {line.image: line.captions for line in lines}
    collection = open_collection([features], captions=wanted)
    records = [record for record in collection.pictures() if record.name in wanted]
    if len(records) < len(lines):
        raise SystemExit(f"{features} holds {len(records)} of the {len(lines)} pictures of {split}")
    return [dressed(number, record, collection) for number, record in enumerate(records)]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--features", type=Path, required=True, help="folder that `regard extract` wrote")
    arguments.add_argument("--captions", type=Path, required=True)
    arguments.add_argument("--split", default="dev")
    arguments.add_argument("--pictures", type=int, default=1000)
    arguments.add_argument("--questions", type=int, default=200)
    arguments.add_argument("--shards", type=int, nargs="+", default=[1, 2, 3, 5])
    arguments.add_argument("--model", default="bfan-equal")
    arguments.add_argument("--round-trips", type=int, choices=[1, 2], default=2)
    arguments.add_argument("--threads", type=int, default=1)
    return arguments


def main() -> None:
    """Print a line for each number of shards, and one that sums up."""
    given = parser().parse_args()
    sources = read_sources(given.features, given.captions, given.split, given.pictures)
    pairs = (pairs_of_sentences if given.round_trips == 1 else pairs_of_questions)(sources, given.questions)
    requests = [one for pair in pairs for one in pair]
    with tempfile.TemporaryDirectory(prefix="regard-equality-") as folder:
        # An empty directory, so that the detector is asked for nothing but its digest.
        settings = Settings(data_dir=Path(folder) / "none", models=(given.model,), threads=given.threads)
        torch.set_grad_enabled(False)
        bench = Bench(LoadedModels.from_settings(settings), sources, Path(folder))
        compared = bench.of_one_round_trip if given.round_trips == 1 else bench.against_one_machine
        found = []
        for comparison in compared(given.shards, requests):
            found.append(comparison)
            for fault in comparison.faults[:5]:
                print(fault, file=sys.stderr)
            print(json.dumps(comparison.summary()), flush=True)
    differ = sum(len(one.faults) for one in found)
    asked, furthest = sum(one.asked for one in found), max(one.furthest for one in found)
    shards = ", ".join(str(one.shards) for one in found)
    line = f"{len(sources)} pictures, {given.questions} questions, shards {shards}, {given.model}: {asked} answers"
    if given.round_trips == 1:
        recall = sum(one.found for one in found) / max(1, sum(one.wanted for one in found))
        print(f"{line} of one round trip, {100 * recall:.2f} % of the best {BEST} of two")
    else:
        print(f"{line}, {differ} differ, scores at most {furthest:.1e} apart")
    raise SystemExit(1 if differ else 0)


if __name__ == "__main__":
    main()
