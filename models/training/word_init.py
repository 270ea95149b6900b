"""Word vectors learnt from captions alone, in seconds and without chance: what stands near what, and how it is spelt.

Neighbours: for words a and b that stand o <= 5 places apart in n captions, c_ab = sum over o of n (6 - o) / 5, and

    M_ab = max(0, log(c_ab sum_w c_w^0.75 / (c_a c_b^0.75)))        c_a = sum_b c_ab

M is factored, M ~ U S V', and d_a = U_a sqrt(S), unit length (Levy, Goldberg and Dagan, 2015). Rare words have few
neighbours, so what they lack comes from their parts (models/text/char_ngrams.py): with n occurrences of a word and
g, what its parts make of it, the vector is g + n / (n + 10) (d - g), unit length.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from models.datasets.captioned_features import read_captions
from models.text.char_ngrams import Subwords, sparse
from models.text.vocabulary import tokenize
from models.text.word_vectors import WordVectors

WINDOW = 5
SMOOTHING = 0.75
PRIOR = 10  # occurrences after which neighbours count as much as spelling


class TooFewWords(ValueError):
    """The captions have too few words to learn vectors of the dimension asked for."""


def captions_in(path: Path, split: str = "train") -> list[str]:
    """Sentences of a file: JSON lines (of a split, and lines without one), COCO's JSON, or text with one a line."""
    if path.suffix == ".jsonl":
        lines = [line for line in read_captions(path) if line.split in (None, split)]
        return [text for line in lines for text in line.captions]
    if path.suffix == ".json":
        try:
            return [annotation["caption"] for annotation in json.loads(path.read_text(encoding="utf-8"))["annotations"]]
        except (ValueError, KeyError, TypeError) as problem:
            raise ValueError(f'{path}: expected COCO\'s {{"annotations": [{{"caption": "..."}}]}}') from problem
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def learn(captions: Iterable[str], dim: int = 300, least: int = 2) -> tuple[WordVectors, Subwords]:
    """Vectors of the words that occur at least `least` times, and of parts of words for all others."""
    sentences = [tokenize(caption) for caption in captions if caption.strip()]
    counts = Counter(word for sentence in sentences for word in sentence)
    words = sorted((word for word in counts if counts[word] >= least), key=lambda word: (-counts[word], word))
    if len(words) < dim:
        raise TooFewWords(f"vectors of {dim} numbers need as many words; {len(words)} occur {least} times or more")
    seen = torch.tensor([float(counts[word]) for word in words])
    vectors = factored(associations(sentences, words), dim)
    parts = Subwords.fit(words, vectors, seen.log1p())
    guessed, trust = parts.vectors(words), (seen / (seen + PRIOR)).unsqueeze(1)
    return WordVectors(words, normalize(guessed + trust * (vectors - guessed), dim=1)), parts


def associations(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> Float[Tensor, "V V"]:
    """M of the module's head, sparse. Words that are not among `words` keep their places and count for nothing."""
    ids = {word: place for place, word in enumerate(words)}
    gap = [-1] * WINDOW  # so that no word has a neighbour in another sentence
    text = torch.tensor([place for sentence in sentences for place in (*(ids.get(w, -1) for w in sentence), *gap)])
    size = len(words)
    counted = sparse(torch.empty(2, 0, dtype=torch.int64), torch.empty(0), (size, size))
    for offset in range(1, WINDOW + 1):
        pairs = torch.stack([text[:-offset], text[offset:]])
        pairs = pairs[:, (pairs >= 0).all(0)]
        pairs = torch.cat([pairs, pairs.flip(0)], 1)
        weights = torch.full((pairs.shape[1],), (WINDOW + 1 - offset) / WINDOW)
        counted = (counted + sparse(pairs, weights, (size, size))).coalesce()
    (first, second), found = counted.indices(), counted.values()
    total = torch.zeros(size).index_add(0, first, found)
    smooth = total.pow(SMOOTHING)
    information = (found * smooth.sum() / (total[first] * smooth[second])).log().clamp_min(0)
    return sparse(counted.indices(), information, (size, size))


def factored(matrix: Float[Tensor, "V V"], dim: int) -> Float[Tensor, "V D"]:
    """U sqrt(S) of the `dim` largest singular values, unit length; words without neighbours stay zero."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # of the random start of its iteration, which ends at the same place
        left, values, _ = torch.svd_lowrank(matrix, q=min(dim + 10, matrix.shape[0]), niter=4)
    return normalize(left[:, :dim] * values[:dim].sqrt(), dim=1)


def nearest(vectors: WordVectors, parts: Subwords, word: str, num: int = 5) -> list[tuple[str, float]]:
    """The words nearest to one that need not be among them, with cosines."""
    others = [place for place, other in enumerate(vectors.words) if other != word]
    known = len(others) < len(vectors.words)
    own = vectors.vectors[vectors.words.index(word)] if known else parts.vectors([word])[0]
    cosines, places = (vectors.vectors[others] @ normalize(own, dim=0)).topk(min(num, len(others)))
    return [
        (vectors.words[others[place]], cosine) for place, cosine in zip(places.tolist(), cosines.tolist(), strict=True)
    ]
