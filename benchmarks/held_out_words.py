"""The choice of near words, judged on 330 frequent words of the captions that are held out and read as near words.

    python -m benchmarks.held_out_words flickr8k/captions.jsonl coco/captions_val2017.json

The vocabulary is the words that the first file's train captions hold 4 times or more; held out are words of 10 or more.
Vectors learnt from all captions judge a choice: its cosine with the word, over that of the best choice, and
whether it is among the 10 best. Words are held out of the first file alone ("elsewhere") or of all ("nowhere").
"""

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import torch
from torch import Tensor

from models.datasets.captions import read_sentences
from models.text.char_ngrams import SpellingIndex
from models.text.vocabulary import SPELLING_THRESHOLD, tokenize
from models.training.caption_word_vectors import learn_word_vectors


def main() -> None:
    """Print the figures and 40 examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions", nargs="+", type=Path)
    parser.add_argument("--near", type=float, default=0.4, help="least cosine, as in recipes")
    args = parser.parse_args()
    first, *others = ([" ".join(tokenize(text)) for text in read_sentences(path)] for path in args.captions)
    other = [text for texts in others for text in texts]
    counts = Counter(word for text in first for word in text.split())
    frequent = sorted(word for word, times in counts.items() if times >= 10 and word.isalpha())
    held = random.Random(0).sample(frequent, 330)
    truth, _ = learn_word_vectors(first + other)
    row_in_truth = {word: row for row, word in enumerate(truth.words)}
    known = [word for word in row_in_truth if counts[word] >= 4 and word not in held]
    judge = (
        truth.vectors[[row_in_truth[word] for word in held]] @ truth.vectors[[row_in_truth[word] for word in known]].T
    )

    elsewhere, _ = learn_word_vectors(without_words(first, held) + other)
    row_of = {word: row for row, word in enumerate(elsewhere.words)}
    rows = [row for row, word in enumerate(held) if word in row_of]
    columns = [column for column, word in enumerate(known) if word in row_of]
    similarity = (
        elsewhere.vectors[[row_of[held[row]] for row in rows]]
        @ elsewhere.vectors[[row_of[known[c]] for c in columns]].T
    )
    choices = report("elsewhere, neighbours and parts", judge[rows][:, columns], similarity, args.near)
    examples = [
        f"{held[rows[n]]} > {known[columns[choice]]} {cosine:.2f}"
        for n, (choice, cosine) in list(enumerate(choices))[:40]
    ]

    nowhere, subwords = learn_word_vectors(without_words(first + other, held))
    row_of = {word: row for row, word in enumerate(nowhere.words)}
    columns = [column for column, word in enumerate(known) if word in row_of]
    from_ngrams = torch.nn.functional.normalize(subwords.vectors(held), dim=1)
    similarity = from_ngrams @ nowhere.vectors[[row_of[known[c]] for c in columns]].T
    report("nowhere, parts", judge[:, columns], similarity, args.near)
    spelling = SpellingIndex(known)
    nearest = [spelling.nearest(word) for word in held]
    similarity = torch.zeros_like(judge)
    for row, (word, value) in enumerate(nearest):
        similarity[row, known.index(word)] = value
    report("nowhere, spelling", judge, similarity, SPELLING_THRESHOLD)
    print("; ".join(examples))


def without_words(captions: Sequence[str], held: Sequence[str]) -> list[str]:
    """The captions with every held word replaced by one that occurs only once, and so is not learnt."""
    dropped, numbers = set(held), count()
    return [" ".join(f"once{next(numbers)}" if word in dropped else word for word in text.split()) for text in captions]


def report(name: str, judge: Tensor, similarity: Tensor, threshold: float) -> list[tuple[int, float]]:
    """Print the quality of the most similar choices, of all words and of those above a threshold.

    `judge` and `similarity` are [held, known]. Returns the choice for each word and its similarity.
    """
    highest, choice = similarity.max(1)
    worth = judge.gather(1, choice[:, None])[:, 0]
    share, best = worth / judge.max(1).values, (judge > worth[:, None]).sum(1) < 10
    for selection, kept in (("all", torch.ones_like(best)), (f"at {threshold} or more", highest >= threshold)):
        figures = f"{share[kept].mean():.2f} of the best cosine, {100 * best[kept].float().mean():.0f} % in its best 10"
        print(f"{name}, {selection} ({int(kept.sum())} of {len(kept)} words): {figures}", flush=True)
    return list(zip(choice.tolist(), highest.tolist(), strict=True))


if __name__ == "__main__":
    main()
