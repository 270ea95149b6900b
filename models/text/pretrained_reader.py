"""A reader of sentences that knows English: states of a frozen pretrained encoder, averaged to words.

Words are what the encoder's own tokenizer splits a sentence into before it takes words apart: lower case, accents
removed, each punctuation mark a word. A word's state is the mean of the last layer's states of its pieces; <start> has
the state of [CLS], <end> that of [SEP]. A sentence of more pieces than the encoder has positions is read in several
parts, so that no word is lost.

A folder of such an encoder holds model.safetensors and vocab.txt.xz (bert_encoder.py), words.txt.xz with known words
besides the tokenizer's, the most frequent first, config.json with the number of those that are common, and digest.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, islice
from pathlib import Path
from threading import Lock

import torch
from tokenizers import Tokenizer
from torch.nn.utils.rnn import pad_sequence

from models.batches import Words, tiles
from models.compressed_files import stored_text
from models.digests import digest_of_contents
from models.kernels.transformer import TransformerKernels
from models.text.bert_encoder import BERT_WEIGHTS_FILE, BertEncoder, load_bert_encoder
from models.text.lexicon import LETTERS, Lexicon
from models.text.reader import END, NO_WORDS, START
from models.text.spellings import misspelt_words, right_words
from models.text.word_pieces import CLS, SEP, UNKNOWN_PIECE, stored_tokenizer

SENTENCE_ENCODER = Path(__file__).parent.parent / "weights" / "sentence-encoder"
CONFIG_FILE, WORDS_FILE, DIGEST_FILE = "config.json", "words.txt", "digest"
MOST_USED = 1500  # words of captions, each of which 30 000 captions use some fifteen times
REMEMBERED_WORDS = 1 << 16
REMEMBERED_SENTENCES = 1 << 8  # a question's words are asked for several times

SENTENCES_AT_ONCE = 256

Pieces = tuple[int, ...]
_LOADING = Lock()  # threads that load models at once share one encoder


class RememberedStates:
    """States of the tokens of many sentences, one after the other, in half precision."""

    def __init__(self, reader: "PretrainedReader", sentences: Iterable[str]) -> None:
        lengths = {sentence: len(reader.tokens(sentence)) for sentence in sentences}
        order = sorted(lengths, key=lengths.__getitem__)  # little padding
        ends = list(accumulate((lengths[sentence] for sentence in order), initial=0))
        self._places = {sentence: slice(*ends[row : row + 2]) for row, sentence in enumerate(order)}
        self._states = torch.empty(ends[-1], reader.state_dim, dtype=torch.float16)
        for tile in tiles(len(order), SENTENCES_AT_ONCE):
            words = reader.encode(order[tile])
            self._states[ends[tile.start] : ends[tile.stop]] = words.vectors[words.mask].cpu().half()

    def __contains__(self, sentence: str) -> bool:
        return sentence in self._places

    def words(self, sentences: Sequence[str]) -> Words:
        """The words' states in float32, padded with zeros."""
        own = [self._states[self._places[sentence]].float() for sentence in sentences]
        lengths = torch.tensor([len(states) for states in own], dtype=torch.int64)
        vectors = pad_sequence(own, batch_first=True)
        return Words(vectors, torch.arange(vectors.shape[1]) < lengths[:, None])


class PretrainedReader:
    """Reads sentences with a frozen encoder, which any number of matchers share.

    A misspelt word is read as the common word it is near to; `unknown_words` are letters that are no word at all.
    """

    def __init__(self, encoder: BertEncoder, words: Sequence[str] = (), num_common: int = 0, digest: str = "") -> None:
        """`words` are known besides the tokenizer's, `num_common` of them common; `digest` names all of it."""
        self.encoder = encoder.requires_grad_(False).eval()
        self.digest = digest
        self._words, self._num_common = words, num_common
        self._remembered: RememberedStates | None = None
        tokenizer = encoder.tokenizer
        self._cls, self._sep = (_piece(tokenizer, end) for end in (CLS, SEP))
        (self._unknown_piece,) = _piece(tokenizer, UNKNOWN_PIECE)
        self._most_used = frozenset(words[:MOST_USED])
        # Captions have the same words again and again.
        self._pieces = lru_cache(REMEMBERED_WORDS)(self._split_word)
        self._read_as = lru_cache(REMEMBERED_WORDS)(self._corrected)
        self._split = lru_cache(REMEMBERED_SENTENCES)(self._split_sentence)

    def __deepcopy__(self, memo: object) -> "PretrainedReader":
        """The reader itself: copies of a matcher share it as matchers do."""
        return self

    @property
    def identity(self) -> str:
        """The digest of weights and word lists."""
        return self.digest

    @property
    def state_dim(self) -> int:
        """Width D of the states."""
        return self.encoder.config.width

    def use_kernels(self, kernels: object) -> None:
        """Compute the encoder's layers by these kernels from now on, as far as they can; by PyTorch for None."""
        self.encoder.use_kernels(kernels if isinstance(kernels, TransformerKernels) else None)

    def remembering(self, sentences: Iterable[str]) -> "PretrainedReader":
        """A reader by the same encoder that has the states of these sentences at hand, for a training."""
        reader = PretrainedReader(self.encoder, self._words, self._num_common, self.digest)
        reader._remembered = RememberedStates(self, sentences)
        return reader

    @cached_property
    def lexicon(self) -> Lexicon:
        """The given words and the tokenizer's whole ones, which it has in the order of their frequency, with the
        spellings that rules alone judge wrongly."""
        vocabulary = self.encoder.tokenizer.get_vocab()
        whole = sorted((piece for piece in vocabulary if LETTERS.fullmatch(piece)), key=vocabulary.__getitem__)
        words = list(dict.fromkeys([*self._words, *whole]))
        return Lexicon(words, self._num_common, right_words(), misspelt_words())

    def tokens(self, sentence: str) -> list[str]:
        """<start>, the words as they are written but for case and accents, and <end>."""
        return [START, *self._split(sentence), END]

    def num_pieces(self, tokens: Sequence[str]) -> int:
        """The pieces of the words as they are written, <start> and <end>."""
        words = chain.from_iterable(self._parts(token) for token in tokens[1:-1])
        return 2 + sum(len(self._pieces(word)) for word in words)

    def unknown_words(self, sentence: str) -> list[str]:
        """Words that are neither English nor near to it, each once, in order."""
        return [word for word in dict.fromkeys(self._split(sentence)) if self._is_unknown(word)]

    def is_common(self, word: str) -> bool:
        """Whether a word is one of the MOST_USED of captions."""
        return word in self._most_used

    def corrections(self, sentence: str) -> dict[str, str]:
        """Misspelt word of the sentence -> the common word that it is read as."""
        return {word: read for word in self._split(sentence) if (read := self._read_as(word)) != word}

    @torch.no_grad()
    def encode(self, sentences: Sequence[str]) -> Words:
        """States of the tokens, [Q W D], on the encoder's device (remembered ones on the CPU); zeros where padded."""
        if self._remembered is not None and sentences and all(one in self._remembered for one in sentences):
            return self._remembered.words(sentences)
        return self._states([[self._pieces(self._read_as(word)) for word in self._split(one)] for one in sentences])

    @torch.no_grad()
    def encode_tokens(self, rows: Sequence[Sequence[str]]) -> Words:
        """States of the tokens of each row, whoever split it; one that this reader would split again is a word all the
        same, with the mean of the states of its parts."""
        return self._states([[self._pieces_of_token(token) for token in row[1:-1]] for row in rows])

    def _pieces_of_token(self, token: str) -> Pieces:
        parts = self._parts(token)
        return tuple(chain.from_iterable(self._pieces(self._read_as(part)) for part in parts)) or (self._unknown_piece,)

    def _states(self, sentences: Sequence[Sequence[Pieces]]) -> Words:
        """States of sentences that are words of pieces, [Q W D]; zeros where padded."""
        each = [self._runs(words) for words in sentences]
        runs = [run for own in each for run in own]
        if not runs:
            empty = torch.zeros(0, 0, self.state_dim, device=self.encoder.device)
            return Words(empty, empty.new_zeros(0, 0, dtype=torch.bool))
        states = self.encoder.word_states(runs)
        if len(runs) == 1:  # the states of one run, as they are
            return Words(states[None], states.new_ones(1, len(states), dtype=torch.bool))
        places = iter([range(end - len(run), end) for run, end in zip(runs, accumulate(map(len, runs)), strict=True)])
        rows = [_rows_of(list(islice(places, len(own)))) for own in each]
        lengths = [len(row) for row in rows]
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        mask = mask.to(states.device)
        vectors = states.new_zeros(*mask.shape, self.state_dim)
        vectors[mask] = states[torch.tensor([row for own in rows for row in own], device=states.device)]
        return Words(vectors, mask)

    def _split_sentence(self, sentence: str) -> tuple[str, ...]:
        words = self._parts(sentence)
        if not words:
            raise ValueError(NO_WORDS)
        return words

    def _parts(self, text: str) -> tuple[str, ...]:
        """The words of any text, of which there may be none."""
        tokenizer = self.encoder.tokenizer
        normal = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        return tuple(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))

    def _split_word(self, word: str) -> Pieces:
        return tuple(piece.id for piece in self.encoder.tokenizer.model.tokenize(word))

    def _corrected(self, word: str) -> str:
        return (self.lexicon.correction(word) if LETTERS.fullmatch(word) else None) or word

    def _is_unknown(self, word: str) -> bool:
        if self._read_as(word) != word:
            return False
        if not LETTERS.fullmatch(word):
            foreign = any(letter.isalpha() and not letter.isascii() for letter in word)
            return foreign or self._unknown_piece in self._pieces(word)
        return self.lexicon.is_noise(word)

    def _runs(self, words: Sequence[Pieces]) -> list[list[Pieces]]:
        """The words in as few runs as have room, between [CLS] and [SEP]; of a longer word its first pieces."""
        room = self.encoder.config.num_positions - 2
        runs: list[list[Pieces]] = [[self._cls]]
        left = room
        for word in words:
            pieces = word[:room]
            if len(pieces) > left:
                runs.append([self._cls])
                left = room
            runs[-1].append(pieces)
            left -= len(pieces)
        return [[*run, self._sep] for run in runs]


def _piece(tokenizer: Tokenizer, name: str) -> Pieces:
    """A piece that the tokenizer has, by its name; ValueError where it has none of it."""
    if (number := tokenizer.token_to_id(name)) is None:
        raise ValueError(f"the tokenizer has no {name}")
    return (number,)


def _rows_of(runs: Sequence[range]) -> list[int]:
    """The rows of a sentence's states among those of its runs: of each the words, of the first its beginning, and of
    the last its end."""
    return [runs[0][0], *(row for run in runs for row in run[1:-1]), runs[-1][-1]]


def digest_of_encoder(folder: Path) -> str:
    """The digest of a folder's configuration, weights, tokenizer and words; it is the same whichever file has the
    tokenizer."""
    config, weights = ((folder / name).read_bytes() for name in (CONFIG_FILE, BERT_WEIGHTS_FILE))
    return digest_of_contents([config, weights, stored_tokenizer(folder).encode(), stored_text(folder / WORDS_FILE)])


def load_pretrained_reader(folder: Path, device: torch.device | str = "cpu") -> PretrainedReader:
    """The reader of a folder's encoder; ValueError where its files are damaged, OSError where one is missing."""
    digest, stated = digest_of_encoder(folder), (folder / DIGEST_FILE).read_text().strip()
    if digest != stated:
        raise ValueError(f"{folder}: files give digest {digest}, not {stated}; the copy is damaged or edited")
    config = json.loads((folder / CONFIG_FILE).read_text("utf-8"))
    words = stored_text(folder / WORDS_FILE).decode("utf-8").split()
    encoder = load_bert_encoder(folder, keep_quantised=torch.device(device).type == "cpu").to(device)
    return PretrainedReader(encoder, words, config["common_words"], digest)


def shipped_reader(device: torch.device | str = "cpu") -> PretrainedReader:
    """The reader of the shipped encoder, loaded once for each device of a process."""
    with _LOADING:
        return _shipped_reader(str(device))


def shipped_identity() -> str:
    """The `identity` of the shipped encoder's reader, without loading it."""
    return (SENTENCE_ENCODER / DIGEST_FILE).read_text().strip()


@lru_cache
def _shipped_reader(device: str) -> PretrainedReader:
    return load_pretrained_reader(SENTENCE_ENCODER, device)
