"""A check that shards answer as one data directory does: the same pictures in one directory and in several shards.

python -m benchmarks.cluster_equality --features FEATURES --captions flickr8k/captions.jsonl --pictures 1000

FEATURES is the folder that `regard extract` wrote, so that no region is found twice. Shards are data directories in
this process; pictures are placed in them as in a cluster, and messages are pickled on their way. Each question is asked
without a filter and with one. Ids and their order, `matched`, `left_out` and near duplicates must be equal, scores
within 1e-6. The last line is a summary; the exit status is 1 if an answer differs. `--round-trips 1` instead compares
searches of one round trip with those of two, and prints the share of the best results that they find.
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
    """The results of comparing one number of shards."""

    shards: int
    asked: int = 0
    faults: list[str] = field(default_factory=list)
    furthest: float = 0.0
    found: int = 0
    wanted: int = 0
    same_best: int = 0

    def summary(self) -> dict[str, Any]:
        """A line of the report."""
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
    """Ids and texts of the results, in their order."""
    return [(hit.image_id, getattr(hit, "text", None)) for hit in result.results]


def numbers_of(result: Any) -> list[float]:
    """Every score, probability and contribution of an answer."""
    numbers: list[float] = []
    for hit in result.results:
        numbers += [number for number in (hit.score, hit.probability) if number is not None]
        if hit.explanation is not None:
            numbers += hit.explanation.contributions or []
    return numbers


def shape_of(result: Any) -> tuple[Any, ...]:
    """Everything else of an answer that must be equal."""
    hits = [
        (
            hit.rank,
            hit.shortlist_rank,
            getattr(hit, "found_by", None),
            [(near.image_id, near.bits) for near in getattr(hit, "near_duplicates", None) or ()],
            None if hit.explanation is None else [word.text for word in hit.explanation.words],
        )
        for hit in result.results
    ]
    return hits, getattr(result, "matched", None), result.left_out, result.origin.k


def compare(expected: Any, actual: Any, comparison: Comparison, request: SearchRequest) -> None:
    """Count a pair of answers, of one directory and of shards."""
    comparison.asked += 1
    question = request.model_dump_json(exclude_defaults=True)
    if names_of(expected) != names_of(actual):
        comparison.faults.append(f"{question}: other results or another order")
    elif shape_of(expected) != shape_of(actual):
        comparison.faults.append(f"{question}: {shape_of(expected)} became {shape_of(actual)}")
    else:
        errors = [abs(a - b) for a, b in zip(numbers_of(expected), numbers_of(actual), strict=True)]
        comparison.furthest = max([comparison.furthest, *errors])
        if max(errors, default=0.0) > TOLERANCE:
            comparison.faults.append(f"{question}: a score is {max(errors)} away")


def count_recall(two: Any, one: Any, comparison: Comparison) -> None:
    """Count how many of the best results of two round trips are found in one."""
    comparison.asked += 1
    best, found = names_of(two)[:BEST], set(names_of(one))
    comparison.wanted += len(best)
    comparison.found += sum(name in found for name in best)
    comparison.same_best += best == names_of(one)[:BEST]


@dataclass(frozen=True)
class Bench:
    """The models and pictures to compare with, and the folder for data directories."""

    loaded: LoadedModels
    sources: Sequence[Source]
    folder: Path

    def directory(self, name: str, chosen: Sequence[Source], stack: ExitStack) -> LocalDirectory:
        """A data directory with these pictures."""
        directory = stack.enter_context(LocalDirectory(self.folder / name, self.loaded))
        directory.take_in(chosen)
        return directory

    def shards(self, count: int, stack: ExitStack) -> list[LocalDirectory]:
        """Directories over which the pictures are spread as over `count` shards."""
        placed = [[each for each in self.sources if shard_of(each.image_id, count) == n] for n in range(count)]
        return [self.directory(f"{count}-{number}", sources, stack) for number, sources in enumerate(placed)]

    def against_one_machine(self, counts: Sequence[int], requests: Sequence[SearchRequest]) -> Iterator[Comparison]:
        """One comparison for each number of shards."""
        with ExitStack() as stack:
            whole = self.directory("whole", self.sources, stack)
            expected = [answer(whole.engine, request) for request in requests]
            for count in counts:
                with ExitStack() as shard_stack:
                    engine = sharded_engine(self.shards(count, shard_stack), self.loaded)
                    comparison = Comparison(count)
                    for request, single in zip(requests, expected, strict=True):
                        compare(single, answer(engine, request), comparison, request)
                    yield comparison

    def of_one_round_trip(self, counts: Sequence[int], requests: Sequence[SearchRequest]) -> Iterator[Comparison]:
        """The recall of one round trip against two."""
        for count in counts:
            with ExitStack() as shard_stack:
                shards, comparison = self.shards(count, shard_stack), Comparison(count)
                two, one = (sharded_engine(shards, self.loaded, round_trips) for round_trips in (2, 1))
                for request in requests:
                    count_recall(answer(two, request), answer(one, request), comparison)
                yield comparison


def read_sources(features: Path, captions: Path, split: str, pictures: int) -> list[Source]:
    """Pictures with regions, captions, tags and dates; tags and dates are drawn by number."""
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
    """Print a line for each number of shards, then a summary."""
    args = parser().parse_args()
    sources = read_sources(args.features, args.captions, args.split, args.pictures)
    pairs = (pairs_of_sentences if args.round_trips == 1 else pairs_of_questions)(sources, args.questions)
    requests = [request for pair in pairs for request in pair]
    with tempfile.TemporaryDirectory(prefix="regard-equality-") as folder:
        # An empty directory, so that only the detector's digest is needed.
        settings = Settings(data_dir=Path(folder) / "none", models=(args.model,), threads=args.threads)
        torch.set_grad_enabled(False)
        bench = Bench(LoadedModels.from_settings(settings), sources, Path(folder))
        compare_all = bench.of_one_round_trip if args.round_trips == 1 else bench.against_one_machine
        comparisons = []
        for comparison in compare_all(args.shards, requests):
            comparisons.append(comparison)
            for fault in comparison.faults[:5]:
                print(fault, file=sys.stderr)
            print(json.dumps(comparison.summary()), flush=True)
    differ = sum(len(each.faults) for each in comparisons)
    asked, furthest = sum(each.asked for each in comparisons), max(each.furthest for each in comparisons)
    shards = ", ".join(str(each.shards) for each in comparisons)
    line = f"{len(sources)} pictures, {args.questions} questions, shards {shards}, {args.model}: {asked} answers"
    if args.round_trips == 1:
        recall = sum(each.found for each in comparisons) / max(1, sum(each.wanted for each in comparisons))
        print(f"{line} of one round trip, {100 * recall:.2f} % of the best {BEST} of two")
    else:
        print(f"{line}, {differ} differ, scores at most {furthest:.1e} apart")
    raise SystemExit(1 if differ else 0)


if __name__ == "__main__":
    main()
