"""Comparison of a service's answers with those of a fresh, undisturbed service that has the same pictures."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeAlias

from service.chaos.findings import Findings
from service.chaos.ledger import LedgerEntry
from service.chaos.load import batch_of
from service.chaos.looks import Look
from service.chaos.processes import Processes

Ranking: TypeAlias = list[tuple[str, float]]
"""(picture or caption, score), best first."""

NUM_QUERIES = 8
NUM_RESULTS = 10
# The detector gets pictures in other batches, in which sums are computed in another order. Features are stored with
# three digits (fp16), and a different rounding has been seen to change a score by 0.00012.
TOLERANCE = 1e-3
FILES_AT_ONCE = 25


def compare_with_fresh(
    fresh: Processes, entries: Sequence[LedgerEntry], got: Mapping[str, Ranking], seed: int, findings: Findings
) -> None:
    """Start a fresh service, let it ingest all present pictures undisturbed, and compare the answers with its own."""
    with fresh, closing(Look(fresh.url, findings)) as look:
        look.require_ready(fresh)
        _take_in(look, entries, findings)
        look.require_settled()
        compare_answers(got, answers(look, entries, seed), findings)


def answers(look: Look, entries: Sequence[LedgerEntry], seed: int) -> dict[str, Ranking]:
    """The ranking of each model for each question: some present pictures, chosen by the seed, and their sentences."""
    present = [entry for entry in entries if entry.must_be_seen]
    queries = random.Random(f"{seed} questions").sample(present, min(NUM_QUERIES, len(present)))
    rankings: dict[str, Ranking] = {}
    for model in [model["name"] for model in look.get("/models")["models"]]:
        for entry in queries:
            sentence, image_id = entry.picture.sentence, entry.picture.image_id
            body = {"query": sentence, "k": NUM_RESULTS, "model": model}
            hits = look.hits("/search/text", json=body)
            rankings[f"{model}: {sentence}"] = [(hit["image_id"], hit["score"]) for hit in hits]
            form = {"image_id": image_id, "target": "captions", "k": str(NUM_RESULTS), "model": model}
            fields = {name: (None, value) for name, value in form.items()}
            hits = look.hits("/search/image", files=fields)
            rankings[f"{model}: captions of {image_id}"] = [(hit["text"], hit["score"]) for hit in hits]
    return rankings


def _take_in(look: Look, entries: Sequence[LedgerEntry], findings: Findings) -> None:
    """Send all present pictures to a fresh service, with their current descriptions."""
    present = [entry for entry in entries if entry.must_be_seen]
    for part in _parts(present):
        manifest: dict[str, Mapping[str, Any]] = {}
        for entry in part:
            assert entry.state is not None
            edition = entry.state.edition
            captions = [] if edition is None else [entry.picture.caption(edition)]
            tags = {"batch": batch_of(entry.number)} | ({} if edition is None else {"edition": edition})
            manifest[entry.picture.name] = {"captions": captions, "tags": tags}
        files = [("images", (entry.picture.name, entry.picture.content)) for entry in part]
        answer = look.send("POST", "/ingest", files=files, data={"manifest": json.dumps(manifest)})
        if answer.status_code != 202:
            findings.add("fault", "a fresh service", f"{answer.status_code}: {answer.text[:300]}")


def _parts(entries: Sequence[LedgerEntry]) -> Iterator[Sequence[LedgerEntry]]:
    for start in range(0, len(entries), FILES_AT_ONCE):
        yield entries[start : start + FILES_AT_ONCE]


def compare_answers(got: Mapping[str, Ranking], fresh: Mapping[str, Ranking], findings: Findings) -> None:
    """Add a finding for each question that is answered differently."""
    for question, expected in fresh.items():
        if not same_ranking(got.get(question, []), expected):
            findings.add("fault", question, "answered otherwise than by a fresh service")


def same_ranking(got: Ranking, expected: Ranking) -> bool:
    """Whether the scores are equal, and belong to the same results; results of nearly equal scores may change
    places."""
    if len(got) != len(expected):
        return False
    if any(abs(left - right) > TOLERANCE for (_, left), (_, right) in zip(got, expected, strict=True)):
        return False
    last = expected[-1][1] if expected else 0.0
    return all(
        abs(score - last) <= TOLERANCE
        or name in {other for other, other_score in got if abs(other_score - score) <= 2 * TOLERANCE}
        for name, score in expected
    )
