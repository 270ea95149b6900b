"""Text files of word vectors: a word and its numbers a line, as in GloVe, or in word2vec after a line of counts."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from models.whole_files import write_whole


@dataclass(frozen=True)
class WordVectors:
    """N words and their vectors, the most frequent words first."""

    words: Sequence[str]
    vectors: Float[Tensor, "N D"]

    def save(self, path: Path) -> None:
        """Write word2vec's text format atomically, which most tools read: a line of counts, then a word a line."""
        lines = [f"{len(self.words)} {self.vectors.shape[1]}\n"]
        for word, vector in zip(self.words, self.vectors.tolist(), strict=True):
            lines.append(f"{word} {' '.join(f'{number:.5g}' for number in vector)}\n")
        write_whole(path, "".join(lines).encode())


def read_word_vectors(path: Path, dim: int, wanted: Collection[str], num_frequent: int = 0) -> WordVectors:
    """The wanted words of a file and its first `num_frequent` ones.

    The file is read line by line and may exceed memory. Of equal words, the first counts. Raises ValueError if vectors
    do not have `dim` numbers, a line is not a word and finite numbers, or lines are missing at the end.
    """
    vectors: dict[str, list[float]] = {}
    largest = torch.finfo(torch.float32).max
    for number, row, line in _vector_lines(path, dim):
        word = line.partition(" ")[0]
        if word in vectors or (word not in wanted and row >= num_frequent):
            continue
        whole, *numbers = line.rsplit(" ", dim)
        if whole != word and len(numbers) == dim:
            continue  # some files hold words with spaces, which are not words here
        try:
            vector = [float(number) for number in numbers]
        except ValueError:
            raise ValueError(f"{path}: {line[:40]!r} is not a word and {dim} numbers") from None
        if len(vector) != dim:
            raise ValueError(f"{path}: {line[:40]!r} has {len(vector)} numbers, not {dim}")
        if not all(abs(value) <= largest for value in vector):
            raise ValueError(f"{path}:{number}: the vector of {word} holds numbers that are not finite")
        vectors[word] = vector
    return WordVectors(tuple(vectors), torch.tensor(list(vectors.values()), dtype=torch.float32).view(-1, dim))


def _vector_lines(path: Path, dim: int) -> Iterator[tuple[int, int, str]]:
    """For each line of a word and its vector: its number in the file, its number among such lines from 0, and the line.

    Raises ValueError unless vectors have `dim` numbers, and for fewer lines than the line of counts says.
    """
    with path.open(encoding="utf-8", errors="replace") as lines:
        first = next(lines, "").rstrip()
        counts = first.split(" ")
        has_header = len(counts) == 2 and all(count.isdigit() for count in counts)
        length = int(counts[1]) if has_header else len(counts) - 1
        if length != dim:
            raise ValueError(f"{path}: its vectors have {length} numbers, the model's words have {dim} (word_dim)")
        if not has_header:
            yield 1, 0, first
        row = 0 if has_header else 1
        for number, line in enumerate(lines, start=2):
            if line.strip():
                yield number, row, line.rstrip()
                row += 1
    if has_header and row < int(counts[0]):
        raise ValueError(f"{path} has {row} words where its first line says {counts[0]}: it was cut short")
