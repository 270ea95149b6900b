"""The cost of a picture and of a query on this machine: bytes of every store, milliseconds of every search step.

`python -m benchmarks.cluster_simulation measure` writes both into benchmarks/results/; the plan and the simulation
read them there. Vectors are random where the measurement does not depend on their content.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from index.views.shortlist import PROBED_LISTS, Shortlist, flat_part, inverted_part
from index.views.slab import record_dtype
from models.batches import Regions
from models.matching.encoded import stored_arrays
from models.matching.matcher import Matcher
from service.model_loading import LoadedModels
from service.search.scoring.pair_costs import SENTENCE
from service.settings import Settings
from service.storage.regions.records import RecordLayout

RESULTS = Path(__file__).parent / "results"
FIGURES = RESULTS / "cluster_figures.json"
SERVICE_TIMES = RESULTS / "service_times.json"
DEFAULT = "bfan-equal"
CANDIDATES = 100
FLAT_ROWS, INVERTED_ROWS = 20_000, 100_000
SAMPLES = 300
QUERY_VECTORS = {"sentence": 14, "picture": 36}
STORES = ("originals", "thumbnails", "stripped", "catalog.sqlite")

Figures = dict[str, Any]


def milliseconds(call: Callable[[], object], samples: int = SAMPLES) -> list[float]:
    """Milliseconds of each of many calls, after a few that are not counted."""
    times = []
    for number in range(samples + 10):
        began = time.perf_counter()
        call()
        if number >= 10:
            times.append(round(1000 * (time.perf_counter() - began), 4))
    return times


def unit_rows(count: int, dim: int, seed: int) -> np.ndarray:
    """Random directions, [count, dim]."""
    rows = np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def view_bytes(matcher: Matcher, layout: RecordLayout) -> Figures:
    """Bytes that a view stores of one picture, by the layout of its files."""
    empty = Regions(
        torch.zeros(1, layout.num_regions, layout.feature_dim), torch.ones(1, layout.num_regions, dtype=torch.bool)
    )
    images, _ = matcher.encode_regions(empty)
    fields = {
        name: (each.shape[1:], each.dtype.str) for name, each in stored_arrays(images, matcher.wide_fields).items()
    }
    return {
        "record": record_dtype(fields).itemsize,
        "embedding": record_dtype({"embedding": ((matcher.embed_dim,), "<f4")}).itemsize,
        "embed_dim": matcher.embed_dim,
    }


def reranking(matcher: Matcher, layout: RecordLayout, candidates: int) -> Callable[[], object]:
    """The reranking of one search: one sentence against stored records, by kernels where they are built."""
    shape = (candidates, layout.num_regions, layout.feature_dim)
    features = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    images, _ = matcher.encode_regions(Regions(features, torch.ones(shape[:2], dtype=torch.bool)))
    texts, _ = matcher.encode_sentences([SENTENCE])
    records, rows = stored_arrays(images, matcher.wide_fields), np.arange(candidates)

    def score() -> object:
        scores = matcher.score_stored(records, rows, texts)
        return matcher.score(images, texts) if scores is None else scores

    return score


def stored_bytes(folder: Path, pictures: int) -> dict[str, float]:
    """Bytes per picture of a data directory's other stores than regions and views."""
    sizes = dict[str, float]()
    for name in STORES:
        place = folder / name
        files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
        sizes[name] = round(sum(path.stat().st_size for path in files) / pictures)
    return sizes


def call_milliseconds(bytes_sent: int) -> list[float]:
    """Milliseconds of a call to an actor of Ray in another process of this machine, with a query's bytes."""
    import ray  # noqa: PLC0415 - an extra, which the other figures do not need

    class Echo:
        @ray.method
        def answer(self, sent: bytes) -> bytes:
            return sent[:1600]

    ray.init("local", num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False, log_to_driver=False)
    echo = ray.remote(Echo).remote()
    sent = bytes(bytes_sent)
    milliseconds(lambda: ray.get(echo.answer.remote(sent)), 5000)  # meanwhile Ray's own programs finish starting
    spent = milliseconds(lambda: ray.get(echo.answer.remote(sent)))
    ray.shutdown()
    return spent


def stage_one(matcher: Matcher) -> tuple[Figures, list[float]]:
    """Nanoseconds a row of the exact and of the approximate search, and milliseconds of the approximate one."""
    _, embedding = matcher.encode_sentences([SENTENCE])
    query = embedding.numpy()
    flat = Shortlist(matcher.embed_dim, [flat_part(unit_rows(FLAT_ROWS, matcher.embed_dim, 1))])
    exact = milliseconds(lambda: flat.search(query, CANDIDATES))
    inverted = Shortlist(matcher.embed_dim, [inverted_part(unit_rows(INVERTED_ROWS, matcher.embed_dim, 2))])
    probed = milliseconds(lambda: inverted.search(query, CANDIDATES))
    return {
        "flat_rows": FLAT_ROWS,
        "flat_ns_per_row": round(1e6 * statistics.median(exact) / FLAT_ROWS, 2),
        "inverted_rows": INVERTED_ROWS,
        "probed_lists": PROBED_LISTS,
        "inverted_ns_per_row": round(1e6 * statistics.median(probed) / INVERTED_ROWS, 2),
    }, probed


def measure(data_dir: Path | None, pictures: int, with_ray: bool) -> None:
    """Write the figures and the service times, from one thread."""
    torch.set_num_threads(1)
    loaded = LoadedModels.from_settings(Settings())
    layout, matcher = RecordLayout.of(loaded.extractor), loaded.matcher(DEFAULT)
    scan, shortlist_ms = stage_one(matcher)
    rerank_ms = milliseconds(reranking(matcher, layout, CANDIDATES))
    query_bytes = {name: 2 * vectors * matcher.word_dim for name, vectors in QUERY_VECTORS.items()}
    figures: Figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    figures |= {
        "command": "python -m benchmarks.cluster_simulation measure",
        "region_record": record_dtype(layout.fields).itemsize,
        "views": {name: view_bytes(each, layout) for name, each in loaded.matchers.items()},
        "us_per_pair": {
            name: round(10 * statistics.median(milliseconds(reranking(each, layout, CANDIDATES), 30)), 2)
            for name, each in loaded.matchers.items()
        },
        "stage_one": scan,
        "query_bytes": query_bytes,
    }
    if data_dir is not None:
        figures["stored"] = {"pictures": pictures, **stored_bytes(data_dir, pictures)}
    write(FIGURES, figures)
    times: Figures = json.loads(SERVICE_TIMES.read_text()) if SERVICE_TIMES.exists() else {}
    times |= {
        "about": f"milliseconds on one thread, {DEFAULT}, random vectors",
        "rows": INVERTED_ROWS,
        "ns_per_row": scan["inverted_ns_per_row"],
        "candidates": CANDIDATES,
        "rerank_one_ms": statistics.median(milliseconds(reranking(matcher, layout, 1))),
        "encode_ms": milliseconds(lambda: matcher.encode_sentences([SENTENCE])),
        "shortlist_ms": shortlist_ms,
        "rerank_ms": rerank_ms,
    }
    if with_ray:
        times["call_ms"] = call_milliseconds(query_bytes["sentence"])
    write(SERVICE_TIMES, times)


def write(path: Path, content: Figures) -> None:
    """Write JSON whose versions can be compared: one line a figure, samples in one line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
