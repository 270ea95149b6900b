"""Queries that are answered together get what each alone would have got."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from index.views.view import Snapshot, View
from index.views.view_writer import ViewWriter
from models.batches import Regions
from models.matching.matcher import Matcher
from models.single_threads import SingleThreads, single_threads
from service.api.admission.accelerator import AcceleratorQueue
from service.errors import InvalidRequest
from service.search.scoring.joint_scoring import StoredPairs, joint_scorer, scored_in_one_call, scored_side_by_side
from service.search.sentences import KeptEncodings, encoded_sentences, encoding_of
from tests.support.fakes import COLOURS, D, FakeMatcher
from tests.support.kernels import load_kernels
from tests.support.library import Library
from tests.support.small_matchers import fused_but_for_short_questions, small_matcher

PATIENCE_S = 60.0
SENTENCES = ["red", "blue and a very long yellow question", "green red", "cyan cyan magenta white black", "red", "zzz"]
MODELS = ["scan-t2i-avg", "bfan-equal", "caan", "sman"]


def stored(matcher: Matcher, folder: Path) -> Snapshot:
    """A view of 9 random pictures with 1 to 5 regions."""
    vectors = torch.randn(9, 5, D, generator=torch.Generator().manual_seed(1))
    regions = Regions(vectors, torch.arange(5) < (torch.arange(9) % 5 + 1)[:, None])
    encoded, embeddings = matcher.encode_regions(regions)
    records = {name: tensor.numpy() for name, tensor in encoded.tensors().items()}
    about: dict[str, Any] = {
        "layout": matcher.image_layout(5, D),
        "embed_dim": matcher.embed_dim,
        "word_dim": matcher.word_dim,
    }
    writer = ViewWriter(folder, **about, digest="model", extractor="detector")
    writer.add_images(0, records, embeddings.numpy())
    writer.close()
    return View(folder).snapshot()


def answer(library: Library, queue: AcceleratorQueue, query: str, **fields: Any) -> Any:
    search, request = library.search, library.request(query, **fields)
    with queue.admit(1) as admission:
        return search.text(search.begin(request), accelerate=admission.run)


class Gate:
    """Lets the first piece of work run once so many further ones wait behind it, so that these are done together."""

    def __init__(self, queue: AcceleratorQueue, waiting: int) -> None:
        self._queue, self._waiting = queue, waiting

    def __call__(self) -> None:
        ticks = threading.Event()
        for _ in range(6000):
            if self._queue.num_waiting >= self._waiting:
                return
            ticks.wait(0.01)
        raise AssertionError("the queries never came")


@pytest.mark.parametrize("fields", [{}, {"explain": True, "k": 3}, {"match": "both", "shortlist": 20}])
def test_queries_in_one_batch_are_answered_as_one_by_one(
    full: Library, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    alone = [full.text(query, **fields) for query in SENTENCES]
    full.search._encodings = KeptEncodings()
    encoded: list[int] = []
    real: Callable[..., Any] = full.matcher.encode_sentences

    def counted(many: list[str]) -> Any:
        encoded.append(len(many))
        return real(many)

    monkeypatch.setattr(full.matcher, "encode_sentences", counted)
    queue = AcceleratorQueue(max_cost=1000)
    queue.start()
    with ThreadPoolExecutor(len(SENTENCES)) as threads:
        held = queue.enqueue(0, Gate(queue, len(SENTENCES)))
        asked = [threads.submit(answer, full, queue, query, **fields) for query in SENTENCES]
        together = [one.result(PATIENCE_S) for one in asked]
        held.result(PATIENCE_S)
    queue.close()
    assert encoded == [len(set(SENTENCES))]
    for one, other in zip(alone, together, strict=True):
        assert [hit.image_id for hit in one.results] == [hit.image_id for hit in other.results]
        for mine, its in zip(one.results, other.results, strict=True):
            assert its.score == pytest.approx(mine.score, abs=1e-6)
            assert (its.explanation is None) == (mine.explanation is None)


def test_long_sentences_are_not_encoded_beside_short_ones() -> None:
    matcher = FakeMatcher()
    short, other, long = (encoding_of(matcher, sentence) for sentence in ("red", "blue " * 10, "red " * 50))
    assert short.group == other.group != long.group


@pytest.mark.parametrize("name", MODELS)
def test_sentences_encoded_in_one_pass_are_those_encoded_alone(name: str) -> None:
    matcher = small_matcher(name)
    for (texts, embedding), sentence in zip(encoded_sentences(matcher, SENTENCES), SENTENCES, strict=True):
        own, own_embedding = matcher.encode_sentences([sentence])
        assert texts.vectors.shape == own.vectors.shape  # no padding of others is left
        assert torch.equal(texts.mask, own.mask)
        for mine, its in ((texts.vectors, own.vectors), (texts.offset, own.offset), (embedding, own_embedding)):
            torch.testing.assert_close(mine, its, atol=1e-6, rtol=0)


@pytest.mark.parametrize("together", [scored_side_by_side, partial(scored_in_one_call, chunk=4)])
@pytest.mark.parametrize("name", MODELS)
def test_candidates_of_several_queries_score_as_those_of_one(
    name: str, together: Callable[[Any], list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    matcher = small_matcher(name)
    matcher.use_kernels(load_kernels())
    snapshot = stored(matcher, tmp_path)
    rows = [[0, 3, 8], [8, 7, 6, 5, 4], [2], [], [3, 0, 8], [1]]
    queries = [
        StoredPairs(matcher, snapshot, own, texts)
        for own, (texts, _) in zip(rows, encoded_sentences(matcher, SENTENCES), strict=True)
    ]
    for query, scores in zip(queries, together(queries), strict=True):
        np.testing.assert_allclose(scores, query.scores(), atol=1e-6)
    np.testing.assert_array_equal(together(queries[:1])[0], queries[0].scores())


@pytest.mark.parametrize("together", [scored_side_by_side, partial(scored_in_one_call, chunk=4)])
@pytest.mark.parametrize("name", ["scan-t2i-avg", "sman"])
def test_short_and_long_questions_keep_their_own_scores_together(
    name: str, together: Callable[[Any], list[Any]], tmp_path: Path
) -> None:
    matcher = fused_but_for_short_questions(name, 2)
    snapshot = stored(matcher, tmp_path)
    images = matcher.images_from(snapshot.read_images(np.arange(9)))
    encoded = encoded_sentences(matcher, SENTENCES)
    found = together([StoredPairs(matcher, snapshot, range(9), texts) for texts, _ in encoded])
    for scores, sentence in zip(found, SENTENCES, strict=True):
        texts, _ = matcher.encode_sentences([sentence])
        np.testing.assert_allclose(scores, matcher.score(images, texts)[0], atol=1e-5)
        answers = matcher.score(images, matcher.texts_from(texts.words, asked=False))[0]
        assert np.allclose(scores, answers, atol=1e-3) == (len(sentence.split()) > 2)


def test_what_was_asked_last_is_kept_within_its_bytes() -> None:
    matcher, other = FakeMatcher(), FakeMatcher("other", "other")
    (one,) = encoded_sentences(matcher, ["red"])
    size = sum(tensor.nbytes for tensor in one[0].tensors().values()) + one[1].nbytes
    kept = KeptEncodings(most_bytes=2 * size)
    for colour in ("red", "blue", "red"):
        kept.put(matcher, colour, one)
    assert kept.get(matcher, "blue") is one
    assert kept.get(other, "red") is None
    kept.put(matcher, "green", one)
    assert [colour for colour in COLOURS if kept.get(matcher, colour) is not None] == ["green", "blue"]
    kept.put(matcher, "all", encoded_sentences(matcher, [" ".join(COLOURS)])[0])
    assert kept.get(matcher, "all") is None


def test_a_sentence_is_encoded_once(full: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    first = full.text("white and black and white", k=5)  # which nothing else here asks
    monkeypatch.setattr(full.matcher, "encode_sentences", None)
    again = full.text("white and black and white", k=5)
    assert again.results == first.results


def test_a_sentence_without_a_word_is_refused_in_words() -> None:
    with pytest.raises(InvalidRequest, match="query"):
        encoded_sentences(FakeMatcher(), ["red", " "])


def test_candidates_are_scored_with_a_query_a_thread_whoever_asks(tmp_path: Path) -> None:
    matcher = small_matcher("scan-t2i-avg")
    ((texts, _),) = encoded_sentences(matcher, SENTENCES[:1])
    pairs, before = StoredPairs(matcher, stored(matcher, tmp_path), [0], texts), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        single = SingleThreads(2).executor
        assert single.submit(torch.get_num_threads).result(PATIENCE_S) == 1
        assert single.submit(joint_scorer, pairs).result(PATIENCE_S).most == 3
        assert joint_scorer(pairs).most == 3
    finally:
        torch.set_num_threads(before)


def test_operators_in_single_threads_use_no_other_and_nothing_else_changes() -> None:
    before = torch.get_num_threads()
    threads = SingleThreads(3)
    assert threads.map(lambda n: (n, torch.get_num_threads()), range(7)) == [(n, 1) for n in range(7)]
    assert torch.get_num_threads() == before
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result(PATIENCE_S) == before

    def fail(number: int) -> int:
        if number % 2:
            raise ValueError(f"{number}")
        return number

    with pytest.raises(ValueError, match="1"):
        threads.map(fail, range(5))
    assert threads.map(fail, [2, 4]) == [2, 4]


def test_a_child_of_a_process_has_threads_of_its_own() -> None:
    assert single_threads(2).map(str, [1, 2]) == ["1", "2"]
    child = os.fork()
    if child == 0:
        os._exit(0 if single_threads(2).map(str, [3]) == ["3"] else 1)
    assert os.waitpid(child, 0)[1] == 0
