"""Vectors of words that were never seen, from the parts they share with words that were.

The parts of a word are its runs of 3 to 6 letters, ends marked: "dogs" has <do dog ogs gs> <dog dogs ogs> <dogs dogs>
<dogs>. Each falls into one of B buckets by its CRC-32, and a word's vector is the sum of its buckets' vectors over the
root of their number. Buckets are fitted to known words by ridge regression: with X the [V, B] matrix of words and
buckets, G = X' (X X' + diag(0.3 mean(w) / w))^-1 vectors, so that words of large weight w are met more exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import torch
from jaxtyping import Float, Int64
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.rerankers.attention import EPSILON

BUCKETS = 8192
SPELLING_BUCKETS = 32768
MEANING = range(3, 7)
SPELLING = range(2, 4)  # shorter runs: a slip of the pen spoils fewer of them
RIDGE = 0.3


def parts_of(word: str, sizes: range = MEANING) -> list[str]:
    """Runs of so many letters of the word with its ends marked."""
    marked = f"<{word}>"
    return [marked[start : start + size] for size in sizes for start in range(len(marked) - size + 1)]


@dataclass(frozen=True)
class Subwords:
    """One vector for each bucket of parts."""

    buckets: Float[Tensor, "B D"]

    @classmethod
    def fit(
        cls, words: Sequence[str], vectors: Float[Tensor, "V D"], weights: Float[Tensor, " V"], buckets: int = BUCKETS
    ) -> "Subwords":
        """Buckets that make of words their vectors, as nearly as the ridge lets them."""
        present = membership(words, buckets)
        alike = (present @ present.to_dense().T).contiguous()
        alike.diagonal().add_(RIDGE * weights.mean() / weights)
        solved = torch.cholesky_solve(vectors, torch.linalg.cholesky(alike))
        return cls(present.T @ solved)

    def vectors(self, words: Sequence[str]) -> Float[Tensor, "N D"]:
        """What their parts make of words, known or not."""
        return membership(words, len(self.buckets)) @ self.buckets

    def save(self, path: Path) -> None:
        """Write the buckets, as fp16."""
        save_file({"buckets": self.buckets.half().contiguous()}, path)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """What `save` wrote."""
        return cls(load_file(path)["buckets"].float())


class Spelling:
    """The word of a list that is spelt most like another: cosine of their runs of 2 and 3 letters, each of which
    weighs the logarithm of the share of words that have it, inverted."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        present = membership(words, SPELLING_BUCKETS, SPELLING)
        rows, columns = present.indices()
        shared = torch.zeros(SPELLING_BUCKETS).index_add(0, columns, torch.ones(len(columns)))
        self.rarity = (len(words) / shared.clamp_min(1)).log()
        worth = present.values() * self.rarity[columns]
        lengths = torch.zeros(len(words)).index_add(0, rows, worth.square()).sqrt()
        worth = worth / lengths[rows].clamp_min(EPSILON)
        self.table = sparse(present.indices(), worth, (len(words), SPELLING_BUCKETS))

    def nearest(self, word: str) -> tuple[str, float]:
        """The word of the list, and how alike they are from 0 to 1."""
        own = membership([word], SPELLING_BUCKETS, SPELLING).to_dense()[0] * self.rarity
        alike, place = (self.table @ own / own.norm().clamp_min(EPSILON)).max(0)
        return self.words[int(place)], float(alike)


def membership(words: Sequence[str], buckets: int, sizes: range = MEANING) -> Float[Tensor, "N B"]:
    """Sparse: which buckets a word's parts fall into, each worth 1 / root of their number."""
    chosen = [sorted({crc32(part.encode()) % buckets for part in parts_of(word, sizes)}) for word in words]
    rows = torch.tensor([row for row, own in enumerate(chosen) for _ in own], dtype=torch.int64)
    columns = torch.tensor([column for own in chosen for column in own], dtype=torch.int64)
    worth = torch.tensor([len(own) ** -0.5 for own in chosen for _ in own])
    return sparse(torch.stack([rows, columns]), worth, (len(words), buckets))


def sparse(places: Int64[Tensor, "2 N"], values: Float[Tensor, " N"], shape: tuple[int, int]) -> Float[Tensor, "A B"]:
    """A sparse matrix; what stands at equal places is added."""
    return torch.sparse_coo_tensor(places, values, shape, check_invariants=True).coalesce()
