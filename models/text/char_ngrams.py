"""Character n-grams of words: vectors for unseen words, and the known word whose spelling is most similar.

The n-grams of a word are its runs of 3 to 6 letters, ends marked: "dogs" has <do dog ogs gs> <dog dogs ogs> <dogs
dogs> <dogs>. Each falls into one of B buckets by its CRC-32, and a word's vector is the sum of its buckets' vectors
over the root of their number. Bucket vectors are fitted to known words by ridge regression: with X the [V, B] matrix
of words and buckets, G = X' (X X' + diag(0.3 mean(w) / w))^-1 vectors, so that words of large weight w fit better.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import torch
from jaxtyping import Float, Int64
from safetensors.torch import load_file
from torch import Tensor

from models.whole_files import write_tensors

NUM_BUCKETS = 8192
NUM_SPELLING_BUCKETS = 32768
NGRAM_SIZES = range(3, 7)
SPELLING_NGRAM_SIZES = range(2, 4)  # a typo changes fewer of the short ones
RIDGE_PENALTY = 0.3
_SMALLEST_NORM = 1e-8


def char_ngrams(word: str, sizes: range = NGRAM_SIZES) -> list[str]:
    """All runs of `sizes` letters of the word between < and >, the short ones first."""
    marked = f"<{word}>"
    return [marked[start : start + size] for size in sizes for start in range(len(marked) - size + 1)]


@dataclass(frozen=True)
class SubwordVectors:
    """A vector for each bucket of n-grams, which give any word a vector."""

    buckets: Float[Tensor, "B D"]

    @classmethod
    def fit(
        cls,
        words: Sequence[str],
        vectors: Float[Tensor, "V D"],
        weights: Float[Tensor, " V"],
        num_buckets: int = NUM_BUCKETS,
    ) -> "SubwordVectors":
        """The ridge regression of the words' vectors on their buckets; larger weights give a closer fit."""
        present = bucket_matrix(words, num_buckets)
        gram = (present @ present.to_dense().T).contiguous()
        gram.diagonal().add_(RIDGE_PENALTY * weights.mean() / weights)
        solved = torch.cholesky_solve(vectors, torch.linalg.cholesky(gram))
        return cls(present.T @ solved)

    def vectors(self, words: Sequence[str]) -> Float[Tensor, "N D"]:
        """Vectors of any words, from their n-grams."""
        return bucket_matrix(words, len(self.buckets)) @ self.buckets

    def save(self, path: Path) -> None:
        """Write the buckets as a safetensors file of fp16."""
        write_tensors(path, {"buckets": self.buckets.half()})

    @classmethod
    def load(cls, path: Path) -> "SubwordVectors":
        """Read a file that `save` wrote."""
        return cls(load_file(path)["buckets"].float())


class SpellingIndex:
    """A search for the known word with the most similar spelling.

    Words are compared by the cosine of their n-grams of 2 and 3 letters, weighted by inverse document frequency: the
    logarithm of the number of known words over the number of those with the n-gram.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        present = bucket_matrix(words, NUM_SPELLING_BUCKETS, SPELLING_NGRAM_SIZES)
        rows, columns = present.indices()
        document_counts = torch.zeros(NUM_SPELLING_BUCKETS).index_add(0, columns, torch.ones(len(columns)))
        self.inverse_frequency = (len(words) / document_counts.clamp_min(1)).log()
        values = present.values() * self.inverse_frequency[columns]
        norms = torch.zeros(len(words)).index_add(0, rows, values.square()).sqrt()
        values = values / norms[rows].clamp_min(_SMALLEST_NORM)
        self.table = sparse_matrix(present.indices(), values, (len(words), NUM_SPELLING_BUCKETS))

    def nearest(self, word: str) -> tuple[str, float]:
        """The known word with the spelling most similar to `word`, and their similarity from 0 to 1."""
        weighted = (
            bucket_matrix([word], NUM_SPELLING_BUCKETS, SPELLING_NGRAM_SIZES).to_dense()[0] * self.inverse_frequency
        )
        similarity, row = (self.table @ weighted / weighted.norm().clamp_min(_SMALLEST_NORM)).max(0)
        return self.words[int(row)], float(similarity)


def bucket_matrix(words: Sequence[str], num_buckets: int, sizes: range = NGRAM_SIZES) -> Float[Tensor, "N B"]:
    """Sparse matrix of the buckets of each word's n-grams, with the value 1 / root of their number."""
    buckets = [sorted({crc32(ngram.encode()) % num_buckets for ngram in char_ngrams(word, sizes)}) for word in words]
    rows = torch.tensor([row for row, word_buckets in enumerate(buckets) for _ in word_buckets], dtype=torch.int64)
    columns = torch.tensor([column for word_buckets in buckets for column in word_buckets], dtype=torch.int64)
    values = torch.tensor([len(word_buckets) ** -0.5 for word_buckets in buckets for _ in word_buckets])
    return sparse_matrix(torch.stack([rows, columns]), values, (len(words), num_buckets))


def sparse_matrix(
    indices: Int64[Tensor, "2 N"], values: Float[Tensor, " N"], shape: tuple[int, int]
) -> Float[Tensor, "A B"]:
    """A coalesced sparse matrix; values at equal indices are added."""
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=True).coalesce()
