"""How the embeddings of a real view lie, and whether drawn ones are as hard to search approximately.

python -m benchmarks.stage_one_spectrum DATA/views/DIGEST
    prints what service/bench/drawn_embeddings.py is made of, and the recall of the best 10 and 100 that inverted lists
    give among the view's pictures for its captions, beside that among as many drawn vectors
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np

from index.views.shortlist import Floats, untyped
from index.views.view_stores import CAPTIONS, IMAGES, opened_stores
from service.bench.drawn_embeddings import (
    MEANS_COSINE,
    PICTURE_SPREAD,
    SENTENCE_SPREAD,
    drawn_pictures,
    drawn_sentences,
)
from service.bench.shortlist import recall

HUB_NUMBERS = 2  # the last of an embedding of bfan-equal, which lower hubs; no part of the unit vector
ASKED = 1000
BEST = (10, 100)
SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4)  # of the lists
FITTED = 0.85  # share of the axes, without those on which next to nothing varies


@dataclass(frozen=True)
class Fit:
    """The numbers of a `Spread`, fitted."""

    mean: float
    power: float
    decay: float


def fitted(vectors: Floats, axes: Floats) -> Fit:
    """The spread of [n, dim] vectors along the columns of `axes`: ln variance = c - power ln i - i / decay for the i-th
    of them, by least squares."""
    mean = vectors.mean(0)
    variances = ((vectors - mean) @ axes).var(0)[: max(3, math.floor(FITTED * len(mean)))]
    numbers = np.arange(1, len(variances) + 1)
    factors = np.stack([np.ones(len(numbers)), np.log(numbers), numbers], axis=1)
    _, power, decay = np.linalg.lstsq(factors, np.log(variances), rcond=None)[0]
    return Fit(float(np.linalg.norm(mean)), float(-power), float(-1 / decay))


def principal_axes(vectors: Floats) -> Floats:
    """The directions [dim, dim] as columns along which [n, dim] vectors vary, the most first."""
    _, axes = np.linalg.eigh(np.cov(vectors.T))
    return np.asarray(axes[:, ::-1], np.float32)


def recalls(pictures: Floats, sentences: Floats, best_k: int, shares: Sequence[float] = SHARES) -> list[float]:
    """The recall of the best that inverted lists of the vectors give, by the share of lists looked through."""
    k, dim = min(best_k, len(pictures)), pictures.shape[1]
    best = np.argsort(-sentences @ pictures.T, axis=1)[:, :k]
    lists = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, math.isqrt(len(pictures)), faiss.METRIC_INNER_PRODUCT)
    lists.cp.min_points_per_centroid = 1
    lists.train(pictures)
    lists.add(pictures)
    found = []
    for share in shares:
        probed = untyped.SearchParametersIVF(nprobe=math.ceil(share * lists.nlist))
        rows = untyped.IndexIVFFlat.search(lists, sentences, k, params=probed)[1]
        found.append(recall(rows, best))
    return found


def view_vectors(view: Path) -> tuple[Floats, Floats]:
    """The unit vectors of stage one of a view's pictures, and of at most 1 000 of its captions, spread over all.
    SystemExit where it lacks either."""
    with opened_stores(view, write=False) as (stores, counts):
        pictures, sentences = (
            np.ascontiguousarray(stores.embeddings(name, count)[:, :-HUB_NUMBERS])
            for name, count in ((IMAGES, counts.images), (CAPTIONS, counts.captions))
        )
    if not (len(pictures) and len(sentences)):
        raise SystemExit(f"{view} has {len(pictures)} pictures and {len(sentences)} captions: it takes both")
    return pictures, sentences[:: max(1, len(sentences) // ASKED)][:ASKED]


def described(pictures: Floats, sentences: Floats) -> str:
    """The report, as text."""
    axes, (count, dim) = principal_axes(pictures), pictures.shape
    means = pictures.mean(0), sentences.mean(0)
    cosine = float(means[0] @ means[1] / np.linalg.norm(means[0]) / np.linalg.norm(means[1]))
    lines = [f"{count} pictures, {len(sentences)} captions, {dim} numbers"]
    for name, vectors, used in (("pictures", pictures, PICTURE_SPREAD), ("sentences", sentences, SENTENCE_SPREAD)):
        fit = fitted(vectors, axes)
        lines.append(
            f"{name}: mean {fit.mean:.2f} ({used.mean}), power {fit.power:.2f} ({used.power}), "
            f"decay {fit.decay:.0f} ({used.decay})"
        )
    heads = [f"best {k}, {what}" for k in BEST for what in ("measured", "drawn")]
    lines += [f"cosine of the means: {cosine:.2f} ({MEANS_COSINE})", "", f"| lists | {' | '.join(heads)} |"]
    lines.append("|---" * (1 + len(heads)) + "|")
    kinds = (pictures, sentences), (drawn_pictures(count, dim, 1), drawn_sentences(len(sentences), dim, 2))
    columns = [recalls(*kind, k) for k in BEST for kind in kinds]
    for share, *found in zip(SHARES, *columns, strict=True):
        lines.append(f"| 1/{round(1 / share)} | {' | '.join(f'{one:.3f}' for one in found)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("view", type=Path, help="folder of a view")
    print(described(*view_vectors(parser.parse_args().view)))


if __name__ == "__main__":
    main()
