"""The interface of readers, which prepare the text of people for a matcher."""

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, runtime_checkable

from models.batches import Tokens, Words

START, END = "<start>", "<end>"
NO_WORDS = "an empty caption has no words to match; give at least one"
UNREADABLE = "?"  # replaces a caption without any word, since a view has a row for every caption


@runtime_checkable
class SentenceReader(Protocol):
    """A reader, which splits sentences into words and prepares them for a matcher's sentence encoder.

    `Vocabulary` returns word ids, `PretrainedReader` the states of a frozen pretrained encoder. Raises ValueError for
    sentences without a word.
    """

    @property
    def identity(self) -> Hashable:
        """A value that is equal for readers that read every sentence alike."""

    def tokens(self, sentence: str) -> list[str]:
        """<start>, the words as shown to people, and <end>: one for each row of `encode`."""

    def encode(self, sentences: Sequence[str]) -> Tokens | Words:
        """Ids or states of the tokens of each sentence, padded to the longest sentence."""

    def encode_tokens(self, rows: Sequence[Sequence[str]]) -> Tokens | Words:
        """`encode` of sentences that any reader has split into tokens, including <start> and <end>."""

    def num_pieces(self, tokens: Sequence[str]) -> int:
        """The number of pieces that `encode_tokens` reads for a row of tokens, with misspelt words as written; its work
        grows with them."""

    def unknown_words(self, sentence: str) -> list[str]:
        """Words of the sentence that the reader does not know, each once, in order."""

    def is_common(self, word: str) -> bool:
        """Whether captions use a word often."""

    def corrections(self, sentence: str) -> dict[str, str]:
        """Word of the sentence -> the different word, or mark for unknown words, that it is read as."""


def readable(split: Callable[[str], object], caption: str) -> str:
    """The caption, or UNREADABLE if `split` finds no word in it, such as in one of invisible characters."""
    try:
        split(caption)
    except ValueError:
        return UNREADABLE
    return caption
