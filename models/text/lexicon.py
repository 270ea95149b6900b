"""A lexicon of English: known words, corrections of misspelt ones, and detection of noise.

A word that is neither in the lexicon nor in a list of misspellings is read as the common known word of least cost, if
that cost is low enough. With d the number of letters inserted, left out, replaced or swapped with their neighbour (the
optimal string alignment distance) between two words, and d' the distance of their sounds (ph = f, y = i, one letter for
two, ...),

    cost = min(d, d') + d / 2 + (1/2 if the first letters differ)

Words made of known ones ("skateboarder", "grassy") are left alone unless the common word sounds alike, and so are
correctly spelt rare words ("scone", near "stone").

Noise is recognised by its letters: the mean log probability of each letter after the two before it, counted over the
lexicon and smoothed by that after one letter, is below a threshold. benchmarks/spelling.py measures the accuracy of
each rule. All of this is for words of the letters a to z.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

COST_LIMIT = 1.5
LONG_WORD, LONG_WORD_LIMIT = 8, 2.0
SHORTEST_CORRECTED = 4
SOUNDS_ALIKE = 1.0  # a cost up to which the common word is right even if the word is made of known ones
LEAST_LOG_PROBABILITY = -4.4
SHORTEST_JUDGED = 3  # about half of shorter ones are abbreviations

SOUNDS = tuple(
    (re.compile(letters), sound)
    for letters, sound in (
        ("ph", "f"),
        ("wh", "w"),
        ("ck", "k"),
        ("c(?=[eiy])", "s"),
        ("[cq]", "k"),
        ("z", "s"),
        ("y", "i"),
        (r"(.)\1+", r"\1"),
    )
)
SUFFIXES = ("s", "es", "d", "ed", "ing", "er", "ers", "r", "rs", "ly", "y", "like", "less", "ness", "est", "ish")
LETTERS = re.compile("[a-z]+")
DRAWL = re.compile(r"(.)\1{2,}")
SHORTEST_PART = 3  # of a compound, and of a stem before an ending
NUM_SYMBOLS = 28  # a word's beginning, a to z, its end
PRIOR_LETTERS = 2.0, 5.0  # pseudo-counts of a letter after two letters, after one


class Lexicon:
    """Known words, of which the first are common enough to be corrections."""

    def __init__(
        self,
        words: Sequence[str],
        num_common: int,
        right: Collection[str] = frozenset(),
        misspelt: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`words` consist of the letters a to z, the most frequent first.

        `right` are further words that are never corrected, and `misspelt` maps words to their corrections, even if they
        are among `words`.
        """
        self.words, self._known = words, frozenset(words)
        self._right, self._misspelt = frozenset(right), misspelt
        self.num_common = num_common
        self._common = frozenset(words[:num_common])
        self._targets = [word for word in words[:num_common] if len(word) >= SHORTEST_CORRECTED]

    def __contains__(self, word: str) -> bool:
        return word in self._known

    def correction(self, word: str) -> str | None:
        """The correction of a word of a to z; None if it is known or nothing is near."""
        if (meant := self._misspelt.get(word)) is not None:
            return meant
        if self._is_right(word):
            return None
        if (meant := self._without_drawl(word)) is not None:
            return meant
        if len(word) < SHORTEST_CORRECTED or not self._targets:
            return None
        near, cost = self._cheapest(word)
        if cost > (LONG_WORD_LIMIT if len(word) >= LONG_WORD else COST_LIMIT):
            return None
        return near if cost <= SOUNDS_ALIKE or not self._is_made_of_known(word) else None

    def is_noise(self, word: str) -> bool:
        """Whether an unknown word of a to z has a sequence of letters unlike any word."""
        if self._is_right(word) or len(word) < SHORTEST_JUDGED:
            return False
        return self.mean_log_probability(word) < LEAST_LOG_PROBABILITY

    def mean_log_probability(self, word: str) -> float:
        """Mean log probability of a word's letters and its end, each after the two before it."""
        symbols = _symbols(word)
        return float(self._log_probabilities[symbols[:-2], symbols[1:-1], symbols[2:]].mean())

    def _without_drawl(self, word: str) -> str | None:
        """The word behind one with three or more equal letters in a row (soooo, cuuute), which it has twice or once."""
        if DRAWL.search(word) is None:
            return None
        forms = [DRAWL.sub(times, word) for times in (r"\1\1", r"\1")]
        common = [form for form in forms if form in self._common and len(form) > 1]
        longer = [form for form in forms if self._is_right(form) and len(form) >= SHORTEST_PART]
        return next(iter([*common, *longer]), None)

    def _is_right(self, word: str) -> bool:
        return word in self._known or word in self._right

    def _cheapest(self, word: str) -> tuple[str, float]:
        spelt, sounding = self._spelt, self._sounding
        # Each edit changes the counts of letters by at most two, and the length by one.
        other_letters = np.abs(spelt.counts - letter_counts(letter_codes([word])[0])).sum(1)
        rows = np.flatnonzero((other_letters <= 4) & (np.abs(spelt.lengths - len(word)) <= 2))
        if not len(rows):
            return "", np.inf
        by_letters = spelt.distances(word, rows)
        by_sound = sounding.distances(sound_of(word), rows)
        other_start = spelt.codes[rows, 0] != ord(word[0])
        cost = np.minimum(by_letters, by_sound) + by_letters / 2 + other_start / 2
        best = int(cost.argmin())  # of equal ones the most frequent
        return self._targets[rows[best]], float(cost[best])

    @cached_property
    def _spelt(self) -> "LetterTable":
        return LetterTable(self._targets)

    @cached_property
    def _sounding(self) -> "LetterTable":
        return LetterTable([sound_of(word) for word in self._targets])

    @cached_property
    def _log_probabilities(self) -> npt.NDArray[np.float64]:
        counts = np.zeros((NUM_SYMBOLS,) * 3)
        for word in self.words:
            symbols = _symbols(word)
            np.add.at(counts, (symbols[:-2], symbols[1:-1], symbols[2:]), 1)
        after_two, after_one = PRIOR_LETTERS
        alone = (counts.sum((0, 1)) + 1) / (counts.sum() + NUM_SYMBOLS)
        pairs = counts.sum(0)
        pairs = (pairs + after_one * alone) / (pairs.sum(1, keepdims=True) + after_one)
        return np.asarray(np.log((counts + after_two * pairs) / (counts.sum(2, keepdims=True) + after_two)))

    def _is_made_of_known(self, word: str) -> bool:
        if self._has_known_stem(word):
            return True
        places = range(SHORTEST_PART, len(word) - SHORTEST_PART + 1)
        return any(
            word[:place] in self._common and (word[place:] in self._common or self._has_known_stem(word[place:]))
            for place in places
        )

    def _has_known_stem(self, word: str) -> bool:
        """Whether a word is a known word with an ending: dog-s, bak-ing, run-n-ing, merr-i-ly."""
        for suffix in SUFFIXES:
            stem = word.removesuffix(suffix)
            if stem == word or len(stem) < SHORTEST_PART:
                continue
            forms = {stem, stem + "e"} if suffix[0] in "eiy" else {stem}
            if stem[-1] == stem[-2]:
                forms.add(stem[:-1])
            if stem[-1] == "i":
                forms.add(stem[:-1] + "y")
            if forms & self._known:
                return True
        return False


class LetterTable:
    """Words as rows of letters, for distances of one word to many."""

    def __init__(self, words: Sequence[str]) -> None:
        self.codes, self.lengths = letter_codes(words)
        self.counts = letter_counts(self.codes)

    def distances(self, word: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """Optimal string alignment distances of the word to those of the rows."""
        codes, letters = self.codes[rows], np.frombuffer(word.encode(), np.uint8)
        length = codes.shape[1]
        before: npt.NDArray[np.int16] = np.empty(0, np.int16)
        row: npt.NDArray[np.int16] = np.tile(np.arange(length + 1, dtype=np.int16), (len(rows), 1))
        for place, letter in enumerate(letters):
            best = np.minimum(row[:, :-1] + (codes != letter), row[:, 1:] + 1)
            if place:
                swapped = (codes[:, 1:] == letters[place - 1]) & (codes[:, :-1] == letter)
                best[:, 1:] = np.where(swapped, np.minimum(best[:, 1:], before[:, :-2] + 1), best[:, 1:])
            # min over i <= j of best_i + (j - i): insertions in a row.
            steps = np.arange(length + 1, dtype=np.int16)
            first = np.full((len(rows), 1), place + 1, np.int16)
            following = np.minimum.accumulate(np.concatenate([first, best], 1) - steps, axis=1) + steps
            before, row = row, following.astype(np.int16)
        distances: npt.NDArray[np.int16] = row[np.arange(len(rows)), self.lengths[rows]]
        return distances


def sound_of(word: str) -> str:
    """The word with equal letters for equal sounds."""
    for letters, sound in SOUNDS:
        word = letters.sub(sound, word)
    return word


def letter_codes(words: Sequence[str]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The letters of words, padded with zeros, and their lengths."""
    lengths = np.array([len(word) for word in words])
    codes = np.zeros((len(words), int(lengths.max())), np.uint8)
    for row, word in enumerate(words):
        codes[row, : len(word)] = np.frombuffer(word.encode(), np.uint8)
    return codes, lengths


def letter_counts(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
    """The counts of the letters a to z in each row."""
    return np.stack([(codes == ord("a") + letter).sum(1) for letter in range(26)], 1).astype(np.int8)


def _symbols(word: str) -> npt.NDArray[np.int64]:
    """The symbols of a word: two beginnings (0), the letters from 1 on, and the end."""
    return np.array([0, 0, *(ord(letter) - ord("a") + 1 for letter in word), NUM_SYMBOLS - 1])
