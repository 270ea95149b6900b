"""The interface of a reader of sentences: what stands between a matcher and the text that people write."""

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, runtime_checkable

from models.batches import Tokens, Words

START, END = "<start>", "<end>"
NO_WORDS = "an empty caption has no words to match; give at least one"
UNREADABLE = "?"  # stands for a caption in which a reader finds no word: a view has a row for every caption


@runtime_checkable
class SentenceReader(Protocol):
    """Splits sentences into words and gives what a matcher's own encoder of sentences reads.

    `Vocabulary` gives word ids, `PretrainedReader` the states of a frozen pretrained encoder. Sentences without a word
    are refused with ValueError.
    """

    @property
    def identity(self) -> Hashable:
        """Equal for readers that read every sentence alike."""

    def tokens(self, sentence: str) -> list[str]:
        """<start>, the words as they are shown to people, and <end>: one for each row that `encode` gives."""

    def encode(self, sentences: Sequence[str]) -> Tokens | Words:
        """Ids or states of the tokens of each sentence, padded to the longest sentence."""

    def encode_tokens(self, rows: Sequence[Sequence[str]]) -> Tokens | Words:
        """`encode` of sentences that any reader split into the tokens of each row, <start> and <end> among them."""

    def num_pieces(self, tokens: Sequence[str]) -> int:
        """The number of pieces that `encode_tokens` reads of a row of tokens, by which its work grows; misspelt words
        count as they are written."""

    def unknown_words(self, sentence: str) -> list[str]:
        """Words of the sentence that mean nothing to the reader, each once, in order."""

    def is_common(self, word: str) -> bool:
        """Whether captions use a word often."""

    def corrections(self, sentence: str) -> dict[str, str]:
        """Word of the sentence -> the other word, or mark for unknown words, that it is read as."""


def readable(split: Callable[[str], object], caption: str) -> str:
    """The caption, or UNREADABLE where `split` finds no word in it, as in one of invisible characters."""
    try:
        split(caption)
    except ValueError:
        return UNREADABLE
    return caption
