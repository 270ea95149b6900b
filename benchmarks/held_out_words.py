"""How sensibly words that were never seen are read: 330 frequent words of the captions held out and read as others.

    python -m benchmarks.held_out_words flickr8k/captions.jsonl coco/captions_val2017.json

The first file's train captions make the vocabulary (4 times or more); held out are words that occur 10 times or more.
What a word is read as is judged by vectors learnt from everything: their cosine, over that of the best choice, and
whether the choice is among the 10 best. Held out of the first file alone ("elsewhere") or of all ("nowhere").
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
    """Print figures and 40 examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions", nargs="+", type=Path)
    parser.add_argument("--near", type=float, default=0.4, help="least cosine, as in recipes")
    given = parser.parse_args()
    first, *others = ([" ".join(tokenize(text)) for text in read_sentences(path)] for path in given.captions)
    other = [text for texts in others for text in texts]
    counts = Counter(word for text in first for word in text.split())
    frequent = sorted(word for word, times in counts.items() if times >= 10 and word.isalpha())
    held = random.Random(0).sample(frequent, 330)
    truth, _ = learn_word_vectors(first + other)
    place = {word: row for row, word in enumerate(truth.words)}
    known = [word for word in place if counts[word] >= 4 and word not in held]
    judge = truth.vectors[[place[word] for word in held]] @ truth.vectors[[place[word] for word in known]].T

    elsewhere, _ = learn_word_vectors(without(first, held) + other)
    seen = {word: row for row, word in enumerate(elsewhere.words)}
    rows = [row for row, word in enumerate(held) if word in seen]
    columns = [column for column, word in enumerate(known) if word in seen]
    alike = (
        elsewhere.vectors[[seen[held[row]] for row in rows]] @ elsewhere.vectors[[seen[known[c]] for c in columns]].T
    )
    shown = report("elsewhere, neighbours and parts", judge[rows][:, columns], alike, given.near)
    examples = [
        f"{held[rows[n]]} > {known[columns[choice]]} {cosine:.2f}"
        for n, (choice, cosine) in list(enumerate(shown))[:40]
    ]

    nowhere, parts = learn_word_vectors(without(first + other, held))
    row_of = {word: row for row, word in enumerate(nowhere.words)}
    columns = [column for column, word in enumerate(known) if word in row_of]
    guessed = torch.nn.functional.normalize(parts.vectors(held), dim=1)
    alike = guessed @ nowhere.vectors[[row_of[known[c]] for c in columns]].T
    report("nowhere, parts", judge[:, columns], alike, given.near)
    spelling = SpellingIndex(known)
    nearest = [spelling.nearest(word) for word in held]
    alike = torch.zeros_like(judge)
    for row, (word, likeness) in enumerate(nearest):
        alike[row, known.index(word)] = likeness
    report("nowhere, spelling", judge, alike, SPELLING_THRESHOLD)
    print("; ".join(examples))


def without(captions: Sequence[str], held: Sequence[str]) -> list[str]:
    """The captions with a word that occurs only once, and so is not learnt, wherever a held word stands."""
    dropped, once = set(held), count()
    return [" ".join(f"once{next(once)}" if word in dropped else word for word in text.split()) for text in captions]


def report(name: str, judge: Tensor, alike: Tensor, least: float) -> list[tuple[int, float]]:
    """Print how good the choices are, of all words and of those alike enough; the choices and their likeness."""
    likeness, choice = alike.max(1)
    worth = judge.gather(1, choice[:, None])[:, 0]
    share, best = worth / judge.max(1).values, (judge > worth[:, None]).sum(1) < 10
    for what, kept in (("all", torch.ones_like(best)), (f"at {least} or more", likeness >= least)):
        figures = f"{share[kept].mean():.2f} of the best cosine, {100 * best[kept].float().mean():.0f} % in its best 10"
        print(f"{name}, {what} ({int(kept.sum())} of {len(kept)} words): {figures}", flush=True)
    return list(zip(choice.tolist(), likeness.tolist(), strict=True))


if __name__ == "__main__":
    main()
