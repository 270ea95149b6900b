"""Vectors of words as text: a word and its numbers a line, as GloVe has them, or word2vec after a line of counts.

A training may start its word embeddings from such a file and read words that it never saw as near ones that it did.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.batches import tiles
from models.matching.matcher import SingleMatcher

# Files go by frequency: words beyond the vocabulary and these are too rare to be worth a place in it.
FREQUENT = 20_000


@dataclass(frozen=True)
class WordVectors:
    """N words, the most frequent first, and their vectors."""

    words: Sequence[str]
    vectors: Float[Tensor, "N D"]

    def save(self, path: Path) -> None:
        """Write word2vec's text format, which every tool reads: a line of counts, then a word a line."""
        with path.open("w", encoding="utf-8") as lines:
            lines.write(f"{len(self.words)} {self.vectors.shape[1]}\n")
            for word, vector in zip(self.words, self.vectors.tolist(), strict=True):
                lines.write(f"{word} {' '.join(f'{number:.5g}' for number in vector)}\n")


def read_vectors(path: Path, dim: int, wanted: Collection[str], frequent: int = 0) -> WordVectors:
    """The wanted words of a file and its first `frequent` ones, a line at a time: the file may be larger than memory.

    ValueError where its vectors have not `dim` numbers, or a line is not a word and numbers. The first of equal
    words counts.
    """
    found: dict[str, list[float]] = {}
    for place, line in _lines(path, dim):
        word = line.partition(" ")[0]
        if word in found or (word not in wanted and place >= frequent):
            continue
        whole, *numbers = line.rsplit(" ", dim)
        if whole != word and len(numbers) == dim:
            continue  # some files hold words with spaces, which are none here
        try:
            vector = [float(number) for number in numbers]
        except ValueError:
            raise ValueError(f"{path}: {line[:40]!r} is not a word and {dim} numbers") from None
        if len(vector) != dim:
            raise ValueError(f"{path}: {line[:40]!r} has {len(vector)} numbers, not {dim}")
        found[word] = vector
    return WordVectors(tuple(found), torch.tensor(list(found.values()), dtype=torch.float32).view(-1, dim))


def start_from(matcher: SingleMatcher, path: Path, near: float | None = None) -> int:
    """Give the words that the file knows its vectors; how many of the vocabulary's these are. Others stay as they are.

    With `near`, frequent words of the file that the vocabulary lacks are read from now on as their nearest word in
    it, where the cosine of the two vectors is at least that. ValueError where the file does not fit, or knows none.
    """
    vocabulary, embed = matcher.vocabulary, matcher.reranker.get_submodule("sentence_encoder.embed")
    assert isinstance(embed, nn.Embedding)
    read = read_vectors(path, embed.embedding_dim, vocabulary.ids.keys(), 0 if near is None else FREQUENT)
    known = [place for place, word in enumerate(read.words) if word in vocabulary.ids]
    if not known:
        raise ValueError(f"{path} has none of the {len(vocabulary)} words of the captions")
    rows = torch.tensor([vocabulary.ids[read.words[place]] for place in known])
    with torch.no_grad():
        embed.weight[rows.to(embed.weight.device)] = read.vectors[known].to(embed.weight)
    if near is not None:
        matcher.vocabulary = replace(vocabulary, near=near_words(read, known, near))
    return len(known)


def near_words(read: WordVectors, known: Sequence[int], least: float) -> dict[str, str]:
    """Every word that is not among the known ones -> the nearest of these, where their cosine is at least that."""
    others = torch.tensor(sorted(set(range(len(read.words))) - set(known)), dtype=torch.int64)
    vectors = normalize(read.vectors, dim=1)
    near: dict[str, str] = {}
    for tile in tiles(len(others), 1024):
        cosines, places = (vectors[others[tile]] @ vectors[known].T).max(1)
        for other, cosine, place in zip(others[tile].tolist(), cosines.tolist(), places.tolist(), strict=True):
            if cosine >= least:
                near[read.words[other]] = read.words[known[place]]
    return near


def _lines(path: Path, dim: int) -> Iterator[tuple[int, str]]:
    """Lines with vectors and their places; ValueError where the first has another length than `dim`."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        first = next(lines, "").rstrip()
        counts = first.split(" ")
        headed = len(counts) == 2 and all(count.isdigit() for count in counts)
        length = int(counts[1]) if headed else len(counts) - 1
        if length != dim:
            raise ValueError(f"{path}: its vectors have {length} numbers, the model's words have {dim} (word_dim)")
        if not headed:
            yield 0, first
        for place, line in enumerate(lines, start=0 if headed else 1):
            if line.strip():
                yield place, line.rstrip()
