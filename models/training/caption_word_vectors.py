"""Word vectors learnt from captions in seconds and deterministically, by neighbouring words and spelling.

Neighbours: for words a and b that are o <= 5 positions apart in n captions, c_ab = sum over o of n (6 - o) / 5, and

    M_ab = max(0, log(c_ab sum_w c_w^0.75 / (c_a c_b^0.75)))        c_a = sum_b c_ab

M is factored, M ~ U S V', and d_a = U_a sqrt(S) at unit length (Levy, Goldberg and Dagan, 2015). Rare words have few
neighbours, so their character n-grams (models/text/char_ngrams.py) contribute: with n occurrences of a word and the
vector g of its n-grams, its vector is g + n / (n + 10) (d - g) at unit length.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from models.text.char_ngrams import SubwordVectors, sparse_matrix
from models.text.vocabulary import tokenize
from models.text.word_vectors import WordVectors

WINDOW = 5
SMOOTHING = 0.75
PRIOR_COUNT = 10  # occurrences after which neighbours count as much as n-grams


class TooFewWords(ValueError):
    """The captions have too few words for vectors of the wanted dimension."""


def learn_word_vectors(
    captions: Iterable[str], dim: int = 300, min_count: int = 2
) -> tuple[WordVectors, SubwordVectors]:
    """Vectors of the words that occur at least `min_count` times, and of n-grams for all other words.

    Raises TooFewWords if fewer than `dim` words are that frequent.
    """
    sentences = [tokenize(caption) for caption in captions if caption.strip()]
    counts = Counter(word for sentence in sentences for word in sentence)
    words = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
    if len(words) < dim:
        raise TooFewWords(f"vectors of {dim} numbers need as many words; {len(words)} occur {min_count} times or more")
    occurrences = torch.tensor([float(counts[word]) for word in words])
    vectors = unit_factors(positive_pmi(sentences, words), dim)
    subwords = SubwordVectors.fit(words, vectors, occurrences.log1p())
    from_ngrams, trust = subwords.vectors(words), (occurrences / (occurrences + PRIOR_COUNT)).unsqueeze(1)
    return WordVectors(words, normalize(from_ngrams + trust * (vectors - from_ngrams), dim=1)), subwords


def positive_pmi(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> Float[Tensor, "V V"]:
    """Positive pointwise mutual information of words within WINDOW positions: the sparse matrix M of the formula above.

    Other words than `words` keep their positions in a sentence but are not counted.
    """
    ids = {word: row for row, word in enumerate(words)}
    gap = [-1] * WINDOW  # so that no word has a neighbour in another sentence
    text = torch.tensor([id_ for sentence in sentences for id_ in (*(ids.get(w, -1) for w in sentence), *gap)])
    size = len(words)
    counts = sparse_matrix(torch.empty(2, 0, dtype=torch.int64), torch.empty(0), (size, size))
    for offset in range(1, WINDOW + 1):
        pairs = torch.stack([text[:-offset], text[offset:]])
        pairs = pairs[:, (pairs >= 0).all(0)]
        pairs = torch.cat([pairs, pairs.flip(0)], 1)
        weights = torch.full((pairs.shape[1],), (WINDOW + 1 - offset) / WINDOW)
        counts = (counts + sparse_matrix(pairs, weights, (size, size))).coalesce()
    (first, second), count = counts.indices(), counts.values()
    totals = torch.zeros(size).index_add(0, first, count)
    smoothed = totals.pow(SMOOTHING)
    information = (count * smoothed.sum() / (totals[first] * smoothed[second])).log().clamp_min(0)
    return sparse_matrix(counts.indices(), information, (size, size))


def unit_factors(matrix: Float[Tensor, "V V"], dim: int) -> Float[Tensor, "V D"]:
    """U sqrt(S) of the `dim` largest singular values, each row of unit length; rows of zeros stay zero."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # for the random start of the iteration, which then has a fixed result
        left, values, _ = torch.svd_lowrank(matrix, q=min(dim + 10, matrix.shape[0]), niter=4)
    return normalize(left[:, :dim] * values[:dim].sqrt(), dim=1)


def nearest_words(vectors: WordVectors, subwords: SubwordVectors, word: str, num: int = 5) -> list[tuple[str, float]]:
    """The `num` words nearest to a word, known or not, with their cosines."""
    others = [row for row, other in enumerate(vectors.words) if other != word]
    is_known = len(others) < len(vectors.words)
    vector = vectors.vectors[vectors.words.index(word)] if is_known else subwords.vectors([word])[0]
    cosines, columns = (vectors.vectors[others] @ normalize(vector, dim=0)).topk(min(num, len(others)))
    return [
        (vectors.words[others[column]], cosine)
        for column, cosine in zip(columns.tolist(), cosines.tolist(), strict=True)
    ]
