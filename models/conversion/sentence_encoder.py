"""The published sentence encoder in the form that is shipped: a few bits a weight, and a list of known words.

Word pieces take 4 bits a weight, the layers' matrices 7, all else half precision; positions beyond NUM_POSITIONS are
dropped, since captions and queries are shorter. All pieces are kept: a whole word in a few bits is more accurate than
the same word in several pieces (models/weights/sentence-encoder/card.md).
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from models.compressed_files import write_compressed
from models.quantised_rows import quantise_rows
from models.safe_load.weight_files import read_safetensors
from models.text.bert_encoder import BERT_WEIGHTS_FILE, load_bert_encoder
from models.text.lexicon import LETTERS
from models.text.pretrained_reader import (
    CONFIG_FILE,
    DIGEST_FILE,
    WORDS_FILE,
    PretrainedReader,
    digest_of_encoder,
)
from models.text.word_pieces import stored_tokenizer, write_pieces
from models.whole_files import write_tensors, write_whole

PIECE_BITS, LAYER_BITS = 4, 7
NUM_POSITIONS = 128
KNOWN_COUNT, COMMON_COUNT = 2, 5  # occurrences in captions from which a word is known, and from which it is common
PIECES, POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
LAYER_MATRIX = re.compile(r"encoder\.layer\.\d+\..*(self\.\w+|dense)\.weight")
UNUSED = ("pooler.", "embeddings.position_ids")


def convert_sentence_encoder(folder: Path, captions: Iterable[str], names: Iterable[str], out: Path) -> str:
    """Write the encoder in `folder` in the shipped form to `out`; returns its digest.

    Words of `captions` are known if they occur often enough, those of `names` always. Raises ValueError if the folder
    holds another kind of model, OSError if it lacks a file.
    """
    published = load_bert_encoder(folder)  # raises for any other kind of model
    out.mkdir(parents=True, exist_ok=True)
    weights = {
        name.removeprefix("bert."): tensor for name, tensor in read_safetensors(folder / BERT_WEIGHTS_FILE).items()
    }
    write_tensors(out / BERT_WEIGHTS_FILE, few_bits(weights))
    tokenizer = Tokenizer.from_str(stored_tokenizer(folder))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    write_pieces(out, tokenizer)
    words, num_common = known_words(PretrainedReader(published), captions, names)
    write_compressed(out / WORDS_FILE, ("\n".join(words) + "\n").encode())
    config = {"format": 1, "common_words": num_common}
    write_whole(out / CONFIG_FILE, (json.dumps(config, indent=1) + "\n").encode())
    digest = digest_of_encoder(out)
    write_whole(out / DIGEST_FILE, f"{digest}\n".encode())
    return digest


def few_bits(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Published weights in the form that `dequantise_all` reads, without those that no sentence needs."""
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if name.startswith(UNUSED):
            continue
        bits = PIECE_BITS if name == PIECES else LAYER_BITS if LAYER_MATRIX.fullmatch(name) else None
        if bits is None:
            stored[name] = (tensor[:NUM_POSITIONS] if name == POSITIONS else tensor).to(torch.float16).contiguous()
        else:
            stored |= {name + ending: part for ending, part in quantise_rows(tensor.float(), bits).items()}
    return stored


def known_words(reader: PretrainedReader, captions: Iterable[str], names: Iterable[str]) -> tuple[list[str], int]:
    """Words of the letters a to z, the most frequent first, and the number of common ones."""
    counts = Counter(word for caption in captions for word in _words(reader, caption))
    named = {word for name in names for word in _words(reader, name)}
    frequent = [word for word, count in counts.items() if count >= KNOWN_COUNT]
    words = sorted({*frequent, *named}, key=lambda word: (-counts[word], word))
    return words, sum(counts[word] >= COMMON_COUNT for word in words)


def _words(reader: PretrainedReader, text: str) -> list[str]:
    return [word for word in reader.tokens(text)[1:-1] if LETTERS.fullmatch(word)]
