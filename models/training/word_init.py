"""The start of a matcher's word embeddings from a file of word vectors, and near words for those it has no id for."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import normalize

from models.batches import tiles
from models.matching.single_matcher import SingleMatcher
from models.text.word_vectors import WordVectors, read_word_vectors

# Files are sorted by frequency: later words, unless the vocabulary has them, are too rare to be worth a near word.
NUM_FREQUENT = 20_000
WORDS_AT_ONCE = 1024


def init_word_embeddings(matcher: SingleMatcher, path: Path, near: float | None = None) -> int:
    """Replace the embeddings of all words that a file of vectors has, and return their number.

    Words that the file lacks keep their embeddings. With `near`, frequent words of the file that the vocabulary lacks
    are read from now on as their nearest word in it, if the cosine of the two vectors is at least `near`. Raises
    ValueError if the file's vectors do not fit the matcher, or if it has none of the words.
    """
    vocabulary, embed = matcher.vocabulary, matcher.reranker.get_submodule("sentence_encoder.embed")
    assert isinstance(embed, nn.Embedding)
    file_vectors = read_word_vectors(
        path, embed.embedding_dim, vocabulary.ids.keys(), 0 if near is None else NUM_FREQUENT
    )
    known = [row for row, word in enumerate(file_vectors.words) if word in vocabulary.ids]
    if not known:
        raise ValueError(f"{path} has none of the {len(vocabulary)} words of the captions")
    ids = torch.tensor([vocabulary.ids[file_vectors.words[row]] for row in known])
    with torch.no_grad():
        embed.weight[ids.to(embed.weight.device)] = file_vectors.vectors[known].to(embed.weight)
    if near is not None:
        matcher.reader = replace(vocabulary, near_words=nearest_known_words(file_vectors, known, near))
    return len(known)


def nearest_known_words(file_vectors: WordVectors, known: Sequence[int], threshold: float) -> dict[str, str]:
    """Nearest word in the rows `known` by word, for all other words with a cosine of at least `threshold` to it."""
    others = torch.tensor(sorted(set(range(len(file_vectors.words))) - set(known)), dtype=torch.int64)
    vectors = normalize(file_vectors.vectors, dim=1)
    nearest: dict[str, str] = {}
    for tile in tiles(len(others), WORDS_AT_ONCE):
        cosines, columns = (vectors[others[tile]] @ vectors[known].T).max(1)
        for other, cosine, column in zip(others[tile].tolist(), cosines.tolist(), columns.tolist(), strict=True):
            if cosine >= threshold:
                nearest[file_vectors.words[other]] = file_vectors.words[known[column]]
    return nearest
