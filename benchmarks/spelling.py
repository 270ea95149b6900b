"""How often misspelt words are corrected, other words are left alone, and keyboard noise is recognised.

    python -m benchmarks.spelling flickr8k/captions.jsonl coco/captions_val2017.json

The threshold of noise is judged on words of the last file that neither the tokenizer nor the other files have, by a
lexicon that is made without that file: one half chooses it (a hundredth of them below), the other is reported.
"""

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from models.conversion.sentence_encoder import known_words
from models.datasets.captions import read_sentences
from models.text.lexicon import LEAST_LOG_PROBABILITY, LETTERS, SHORTEST_JUDGED, Lexicon
from models.text.pretrained_reader import SENTENCE_ENCODER, PretrainedReader, load_pretrained_reader

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
LENGTHS = (4, 6, 8, 10)
NUM_TYPOS = NUM_NOISE = 2000


def misspelt(word: str, draw: random.Random) -> str:
    """The word with a letter other than the first left out, inserted, replaced or swapped with the next."""
    place, letter = draw.randrange(1, len(word) - 1), draw.choice(ALPHABET)
    head, here, following, tail = word[:place], word[place], word[place + 1], word[place + 2 :]
    forms = (following + tail, letter + here + following + tail, letter + following + tail, following + here + tail)
    return head + draw.choice(forms)


def any_letters(length: int, draw: random.Random) -> str:
    """Letters drawn evenly."""
    return "".join(draw.choice(ALPHABET) for _ in range(length))


def one_row(length: int, draw: random.Random) -> str:
    """Keys of one row of a keyboard, drawn evenly."""
    row = draw.choice(KEYS)
    return "".join(draw.choice(row) for _ in range(length))


def sweep(length: int, draw: random.Random) -> str:
    """Neighbouring keys of one row in their order, either way."""
    row = draw.choice(KEYS)
    start, step = draw.randrange(len(row)), draw.choice((1, -1))
    return "".join(row[(start + step * place) % len(row)] for place in range(length))


def lexicon_of(reader: PretrainedReader, captions: Sequence[str]) -> Lexicon:
    """The lexicon made of these captions alone."""
    words, num_common = known_words(reader, captions, ())
    return PretrainedReader(reader.encoder, words, num_common).lexicon


def report_spelling(lexicon: Lexicon, counts: Counter[str]) -> None:
    """Print how misspelt common words are read, and the share of rare words that would be read as others if they were
    unknown."""
    draw = random.Random(0)
    common = [word for word in lexicon.words if counts[word] >= 5 and len(word) >= 5]
    drawn = draw.choices(common, [counts[word] ** 0.5 for word in common], k=NUM_TYPOS)
    typos = [(typo, word) for word in drawn if (typo := misspelt(word, draw)) not in lexicon]
    read = [(lexicon.correction(typo), word) for typo, word in typos]
    right, changed = sum(near == word for near, word in read), sum(near is not None for near, _ in read)
    print(
        f"{len(typos)} misspelt words: {right / len(read):.1%} read rightly, {1 - changed / len(read):.1%} left alone"
    )
    rare = [word for word in counts if word not in lexicon and len(word) >= 4]
    other = [word for word in rare if lexicon.correction(word) is not None]
    print(f"{len(rare)} words that occur once in the captions: {len(other) / len(rare):.1%} read as others, such as")
    print(", ".join(f"{word} > {lexicon.correction(word)}" for word in draw.sample(other, min(40, len(other)))))


def report_noise(lexicon: Lexicon, words: Sequence[str]) -> None:
    """Print the threshold that one half of the words gives, and how it treats the other half and noise."""
    draw = random.Random(1)
    unseen = sorted(word for word in words if word not in lexicon and len(word) >= SHORTEST_JUDGED)
    draw.shuffle(unseen)
    half = sorted(lexicon.mean_log_probability(word) for word in unseen[::2])
    threshold = half[len(half) // 100]
    print(f"threshold {threshold:.2f} by {len(half)} words; in use {LEAST_LOG_PROBABILITY}")
    noise = {kind.__name__: kind for kind in (any_letters, one_row, sweep)}
    for limit in (threshold, LEAST_LOG_PROBABILITY):
        mistaken = [word for word in unseen[1::2] if lexicon.mean_log_probability(word) < limit]
        shares = [f"{len(mistaken) / len(unseen[1::2]):.1%} of the other half taken for noise ({' '.join(mistaken)})"]
        for name, kind in noise.items():
            rates = []
            for length in LENGTHS:
                strings = [kind(length, draw) for _ in range(NUM_NOISE)]
                hits = sum(s not in lexicon and lexicon.mean_log_probability(s) < limit for s in strings)
                rates.append(f"{length}: {hits / NUM_NOISE:.0%}")
            shares.append(f"{name} by length {', '.join(rates)}")
        print(f"below {limit:.2f}: " + "; ".join(shares))


def main() -> None:
    """Print both reports."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("captions", type=Path, nargs="+")
    *others, last = arguments.parse_args().captions
    reader = load_pretrained_reader(SENTENCE_ENCODER)
    first, second = [text for path in others for text in read_sentences(path)], read_sentences(last)
    counts = Counter(word for text in [*first, *second] for word in reader.tokens(text) if LETTERS.fullmatch(word))
    report_spelling(reader.lexicon, counts)
    report_noise(
        lexicon_of(reader, first),
        list({word for text in second for word in reader.tokens(text)[1:-1] if LETTERS.fullmatch(word)}),
    )


if __name__ == "__main__":
    main()
