"""The spread of a real view's embeddings, and whether random ones are as hard to search approximately.

python -m benchmarks.stage_one_spectrum DATA/views/DIGEST
    prints the constants of service/bench/drawn_embeddings.py, and the recall of the best 10 and 100 of inverted lists
    among the view's pictures for its captions, beside that among as many random vectors
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

HUB_NUMBERS = 2  # the last numbers of bfan-equal's embeddings, which lower hubs; not part of the unit vector
ASKED = 1000
BEST = (10, 100)
SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4)  # of the lists
FITTED = 0.85  # share of the axes, without those of almost no variance


@dataclass(frozen=True)
class Fit:
    """Fitted parameters of a `Spread`."""

    mean: float
    power: float
    decay: float


def fitted(vectors: Floats, axes: Floats) -> Fit:
    """The spread of [n, dim] vectors along the columns of `axes`, by least squares.

    ln variance = c - power ln i - i / decay for the i-th axis.
    """
    mean = vectors.mean(0)
    variances = ((vectors - mean) @ axes).var(0)[: max(3, math.floor(FITTED * len(mean)))]
    numbers = np.arange(1, len(variances) + 1)
    factors = np.stack([np.ones(len(numbers)), np.log(numbers), numbers], axis=1)
    _, power, decay = np.linalg.lstsq(factors, np.log(variances), rcond=None)[0]
    return Fit(float(np.linalg.norm(mean)), float(-power), float(-1 / decay))


def principal_axes(vectors: Floats) -> Floats:
    """The principal axes of [n, dim] vectors as columns [dim, dim], the largest variance first."""
    _, axes = np.linalg.eigh(np.cov(vectors.T))
    return np.asarray(axes[:, ::-1], np.float32)


def recalls(pictures: Floats, sentences: Floats, best_k: int, shares: Sequence[float] = SHARES) -> list[float]:
    """The recall of the best `best_k` by inverted lists, for each share of lists probed."""
    k, dim = min(best_k, len(pictures)), pictures.shape[1]
    best = np.argsort(-sentences @ pictures.T, axis=1)[:, :k]
    lists = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, math.isqrt(len(pictures)), faiss.METRIC_INNER_PRODUCT)
    lists.cp.min_points_per_centroid = 1
    lists.train(pictures)
    lists.add(pictures)
    values = []
    for share in shares:
        probed = untyped.SearchParametersIVF(nprobe=math.ceil(share * lists.nlist))
        rows = untyped.IndexIVFFlat.search(lists, sentences, k, params=probed)[1]
        values.append(recall(rows, best))
    return values


def view_vectors(view: Path) -> tuple[Floats, Floats]:
    """Stage one's unit vectors of a view's pictures, and of at most 1 000 evenly spaced captions of it. Raises
    SystemExit if it lacks either."""
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
    for name, vectors, current in (("pictures", pictures, PICTURE_SPREAD), ("sentences", sentences, SENTENCE_SPREAD)):
        fit = fitted(vectors, axes)
        lines.append(
            f"{name}: mean {fit.mean:.2f} ({current.mean}), power {fit.power:.2f} ({current.power}), "
            f"decay {fit.decay:.0f} ({current.decay})"
        )
    heads = [f"best {k}, {kind}" for k in BEST for kind in ("measured", "drawn")]
    lines += [f"cosine of the means: {cosine:.2f} ({MEANS_COSINE})", "", f"| lists | {' | '.join(heads)} |"]
    lines.append("|---" * (1 + len(heads)) + "|")
    kinds = (pictures, sentences), (drawn_pictures(count, dim, 1), drawn_sentences(len(sentences), dim, 2))
    columns = [recalls(*kind, k) for k in BEST for kind in kinds]
    for share, *row in zip(SHARES, *columns, strict=True):
        lines.append(f"| 1/{round(1 / share)} | {' | '.join(f'{each:.3f}' for each in row)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("view", type=Path, help="folder of a view")
    print(described(*view_vectors(parser.parse_args().view)))


if __name__ == "__main__":
    main()
