"""Questions in words: their tokens, their encodings, and the verdict on whether anything matches them."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from torch import Tensor

from index.catalog.text.search import content_words
from models.matching.encoded import EncodedTexts
from models.matching.matcher import Matcher
from models.text.content_words import is_content_word
from models.text.reader import END, START
from service.errors import InvalidRequest
from service.search.candidates import Candidates
from service.search.scoring.joint_work import JointWork
from service.search.wording.languages import is_in_another_language
from service.search.wording.negations import negation_in
from service.search.wording.parsed_query import ParsedQuery
from service.search.wording.times import times_in

KEPT_BYTES = 16 * 2**20  # some hundred sentences
ENCODED_AT_ONCE = 32
# Word pieces of a question, each of which takes half a millisecond to encode. The longest English question has fewer.
MOST_PIECES = 192
LONG = 128  # letters above which a sentence is encoded with other long ones, to spare short ones the padding

Encoded: TypeAlias = tuple[EncodedTexts, Tensor]
"""One sentence that can be scored, without padding, and its [1, E] embedding."""


def words_of(matcher: Matcher, sentence: str) -> list[str]:
    """The tokens that are scored; InvalidRequest where the sentence has no word, or more than a model reads."""
    try:
        words = matcher.words(sentence)
    except ValueError as fault:
        raise InvalidRequest.field("query", str(fault)) from fault
    if (pieces := matcher.num_pieces(words)) > MOST_PIECES:
        raise InvalidRequest.field(
            "query",
            f"takes {pieces} of the {MOST_PIECES} places that a model has for words and marks, of which a rare word"
            " takes several; say what the picture shows in fewer words",
        )
    return words


def encoded_sentences(matcher: Matcher, sentences: Sequence[str]) -> list[Encoded]:
    """Every sentence by itself, encoded in one pass; InvalidRequest where one of them has no word."""
    distinct = list(dict.fromkeys(sentences))
    try:
        texts, embeddings = matcher.encode_sentences(distinct)
    except ValueError as fault:
        raise InvalidRequest.field("query", str(fault)) from fault
    if len(distinct) == 1:  # so it has no padding
        return [(texts, embeddings)] * len(sentences)
    lengths = texts.mask.sum(1).tolist()
    each = {sentence: _alone(texts, embeddings, n, lengths[n]) for n, sentence in enumerate(distinct)}
    return [each[sentence] for sentence in sentences]


def _alone(texts: EncodedTexts, embeddings: Tensor, row: int, length: int) -> Encoded:
    """One sentence of a batch without padding, copied."""
    place = slice(row, row + 1)
    alone = EncodedTexts(
        texts.vectors[place, :length].clone(),
        texts.mask[place, :length].clone(),
        texts.offset[place].clone(),
        texts.asked[place].clone(),
    )
    return alone, embeddings[place].clone()


class KeptEncodings:
    """A cache of the encodings of recent sentences, bounded in bytes. Thread-safe."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], Encoded] = OrderedDict()

    def get(self, matcher: Matcher, sentence: str) -> Encoded | None:
        """The encoded sentence, if it is cached."""
        key = matcher.digest, sentence
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, matcher: Matcher, sentence: str, encoded: Encoded) -> None:
        """Cache an encoded sentence, and evict the least recently used."""
        with self._lock:
            if (replaced := self._kept.pop((matcher.digest, sentence), None)) is not None:
                self._bytes -= _num_bytes(replaced)
            self._kept[matcher.digest, sentence] = encoded
            self._bytes += _num_bytes(encoded)
            while self._bytes > self._most_bytes:
                self._bytes -= _num_bytes(self._kept.popitem(last=False)[1])


def _num_bytes(encoded: Encoded) -> int:
    texts, embedding = encoded
    return sum(tensor.nbytes for tensor in (*texts.tensors().values(), embedding))


def encoding_of(matcher: Matcher, sentence: str) -> JointWork[str, Encoded]:
    """Work that encodes a sentence, jointly with others of the model and of similar length.

    It raises InvalidRequest for a sentence without a word."""
    return JointWork(
        group=("encode", matcher.digest, len(sentence) > LONG),
        most=ENCODED_AT_ONCE,
        item=sentence,
        together=partial(encoded_sentences, matcher),
    )


def names_common_things(matcher: Matcher, query: ParsedQuery) -> bool:
    """Whether pictures can show all that a query's words ask for: things that captions often name, and no time."""
    if times_in(query.subject):
        return False
    words = [word for word in content_words(query.subject_wanted) if is_content_word(word)]
    return bool(words) and all(map(matcher.is_common, words))


def verdict(candidates: Candidates, matcher: Matcher, query: ParsedQuery) -> bool | None:
    """Whether a picture matches a question by what it shows; None where there is no verdict.

    Keyboard noise, punctuation alone and other languages match nothing. There is no positive verdict on a question that
    rules something out, and no negative one on a few words, which score as high where what they name is absent
    (docs/calibration.md)."""
    sentence = query.wanted_or_all
    tokens = [token for token in words_of(matcher, sentence) if token not in (START, END)]
    words = [token for token in tokens if any(map(str.isalnum, token))]
    unknown, read_as = matcher.unknown_words(sentence), matcher.near_words(sentence)
    if set(words) <= set(unknown) or is_in_another_language(sentence, [*unknown, *read_as]):
        return False
    if candidates.matched:
        return None if query.excluded or negation_in(sentence) else True
    return None if len(tokens) <= matcher.short_question else candidates.matched
