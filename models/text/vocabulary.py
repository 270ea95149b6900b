"""Words of sentences and their ids; vocabularies in the JSON layout of the SCAN authors: word2idx, idx2word, idx."""

import json
import string
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from models.batches import Tokens
from models.compressed_files import stored_text
from models.text.char_ngrams import SpellingIndex
from models.text.reader import END, NO_WORDS, START
from models.whole_files import write_whole

PAD, UNKNOWN_WORD = "<pad>", "<unk>"
SPECIALS = (PAD, START, END, UNKNOWN_WORD)

# The authors lower-case the byte string, so only A to Z change.
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@cache
def _tokenizer() -> Any:
    """Made when a vocabulary first splits a sentence: most shipped models do without nltk, a third of a second."""
    from models.text.lean_nltk import NLTKWordTokenizer  # noqa: PLC0415

    return NLTKWordTokenizer()


SPELLING_THRESHOLD = 0.7  # similarity from which two spellings are taken for one word: docs/words.md


def tokenize(sentence: str) -> list[str]:
    """The lower-cased words of a sentence, split as for the published models; ValueError where there is none."""
    words = _split(sentence)
    if not words:
        raise ValueError(NO_WORDS)
    return list(words)


@lru_cache(1 << 10)  # a question's words are asked for several times, a small training's in every epoch
def _split(sentence: str) -> tuple[str, ...]:
    return tuple(_tokenizer().tokenize(sentence.translate(_LOWER)))


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their ids; the first four are <pad> <start> <end> <unk>.

    `near_words` maps words without an id to the word that each is read as. Where there are any, a word in neither
    list is read as the one that is spelt most like it, if their similarity is at least SPELLING_THRESHOLD. All other
    words are <unk>; where `near_words` is empty every word without an id is, as in the published models.
    """

    words: tuple[str, ...]
    near_words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.words[:4] != SPECIALS:
            raise ValueError(f"a vocabulary starts with {' '.join(SPECIALS)}, this one with {self.words[:4]}")
        if without_id := sorted(set(self.near_words.values()) - set(self.words)):
            raise ValueError(f"words are read as others that have no id: {', '.join(without_id[:5])}")

    @cached_property
    def ids(self) -> dict[str, int]:
        """Word -> id."""
        return {word: index for index, word in enumerate(self.words)}

    @cached_property
    def _nearest_spelling(self) -> Callable[[str], tuple[str, float]]:
        # A training meets the same rare words again and again, at milliseconds each.
        return lru_cache(1 << 14)(SpellingIndex((*self.words[len(SPECIALS) :], *self.near_words)).nearest)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def identity(self) -> Hashable:
        """The words in the order of their ids."""
        return self.words

    @classmethod
    def from_captions(cls, captions: Iterable[str], min_count: int = 4) -> "Vocabulary":
        """The words that occur at least `min_count` times, the most frequent first."""
        counts = Counter(word for caption in captions for word in tokenize(caption))
        frequent = sorted((word for word in counts if counts[word] >= min_count), key=lambda w: (-counts[w], w))
        return cls((*SPECIALS, *(word for word in frequent if word not in SPECIALS)))

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read the SCAN authors' JSON layout; ValueError where it is none, or its ids are not 0, 1, 2, ..."""
        try:
            stored = json.loads(stored_text(path))
        except ValueError as fault:
            raise ValueError(f"{path} is no JSON: not a vocabulary in SCAN's layout") from fault
        ids = stored.get("word2idx") if isinstance(stored, dict) else None
        if not ids or not isinstance(ids, dict):
            raise ValueError(f"{path} holds no word2idx: not a vocabulary in SCAN's layout")
        near = stored.get("near", {})
        if not isinstance(near, dict) or not all(isinstance(word, str) for word in near.values()):
            raise ValueError(f"{path}: near maps no words to words")
        return replace(cls.from_ids(ids, str(path)), near_words=near)

    @classmethod
    def from_ids(cls, ids: Mapping[str, int], source: str) -> "Vocabulary":
        """The vocabulary of a mapping word -> id; ValueError names `source` where the ids are not 0, 1, 2, ..."""
        numbers = ids.values()
        if not all(isinstance(index, int) for index in numbers) or sorted(numbers) != list(range(len(ids))):
            raise ValueError(f"{source}: the ids of a vocabulary must be 0, 1, 2, ... without a gap")
        return cls(tuple(sorted(ids, key=ids.__getitem__)))

    def save(self, path: Path) -> None:
        """Write the SCAN authors' JSON layout, with `near_words` under "near" where there are any."""
        stored = {"word2idx": self.ids, "idx2word": dict(enumerate(self.words)), "idx": len(self)}
        if self.near_words:
            stored["near"] = dict(self.near_words)
        write_whole(path, json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode())

    def tokens(self, sentence: str) -> list[str]:
        """The words of a sentence between <start> and <end>, as they are encoded."""
        return [START, *tokenize(sentence), END]

    def num_pieces(self, tokens: Sequence[str]) -> int:
        """One of each token."""
        return len(tokens)

    def unknown_words(self, sentence: str) -> list[str]:
        """Words of the sentence that have no id, each once, in order."""
        return list(dict.fromkeys(word for word in tokenize(sentence) if word not in self.ids))

    def is_common(self, word: str) -> bool:
        """Whether a word has an id, as those have that its captions use several times."""
        return word in self.ids

    def corrections(self, sentence: str) -> dict[str, str]:
        """Word of the sentence that has no id -> the near word that it is read as, or <unk>."""
        return {word: self.read_as(word) for word in self.unknown_words(sentence)}

    def read_as(self, word: str) -> str:
        """The word whose id stands for this one: the word itself, a near word, or <unk>."""
        if word in self.ids:
            return word
        if not self.near_words:
            return UNKNOWN_WORD
        if word not in self.near_words:
            word, similarity = self._nearest_spelling(word)
            if similarity < SPELLING_THRESHOLD:
                return UNKNOWN_WORD
        return self.near_words.get(word, word)

    def encode(self, sentences: Sequence[str]) -> Tokens:
        """Ids of <start>, the words and <end>, padded to the longest sentence; ValueError on one without words."""
        return self.encode_tokens([self.tokens(sentence) for sentence in sentences])

    def encode_tokens(self, rows: Sequence[Sequence[str]]) -> Tokens:
        """Ids of the tokens of each row, padded to the longest."""
        lengths = torch.tensor([len(row) for row in rows])
        width = int(lengths.max()) if rows else 0
        read = [[self.ids[self.read_as(token)] for token in row] + [0] * (width - len(row)) for row in rows]
        ids = torch.tensor(read, dtype=torch.int64).reshape(len(rows), width)
        return Tokens(ids, torch.arange(width) < lengths[:, None])
