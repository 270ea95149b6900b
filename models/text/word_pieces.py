"""The tokenizer of uncased BERT models (Devlin et al. 2019): lower-case words, split into pieces from the left."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from models.compressed_files import stored_text, write_compressed

PIECES_FILE, TOKENIZER_FILE = "vocab.txt", "tokenizer.json"
CLS, SEP, UNKNOWN_PIECE = "[CLS]", "[SEP]", "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN_PIECE, CLS, SEP, "[MASK]")


def tokenizer_json(pieces: Sequence[str]) -> str:
    """The tokenizer.json for these pieces, in the order of their ids, which adds the marks of a sentence's beginning
    and end. Raises ValueError if one of SPECIAL is missing."""
    ids = {piece: number for number, piece in enumerate(pieces)}
    if missing := sorted(set(SPECIAL) - ids.keys()):
        raise ValueError(f"the pieces lack {', '.join(missing)}")
    marks: dict[str, Any] = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = sorted(SPECIAL, key=ids.__getitem__)
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[name], "content": name, **marks, "special": True} for name in special],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [_special(CLS, 0), _sequence("A", 0), _special(SEP, 0)],
            "pair": [
                *(_special(CLS, 0), _sequence("A", 0), _special(SEP, 0)),
                *(_sequence("B", 1), _special(SEP, 1)),
            ],
            "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (CLS, SEP)},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": UNKNOWN_PIECE,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _special(name: str, kind: int) -> dict[str, Any]:
    return {"SpecialToken": {"id": name, "type_id": kind}}


def _sequence(name: str, kind: int) -> dict[str, Any]:
    return {"Sequence": {"id": name, "type_id": kind}}


def stored_tokenizer(folder: Path) -> str:
    """The tokenizer.json of a folder, or else one for the pieces in its vocab.txt, compressed or not. Raises ValueError
    if the compressed file is damaged, OSError if there is no file."""
    if (folder / TOKENIZER_FILE).is_file():
        return (folder / TOKENIZER_FILE).read_text("utf-8")
    return tokenizer_json(stored_text(folder / PIECES_FILE).decode("utf-8").removesuffix("\n").split("\n"))


def write_pieces(folder: Path, tokenizer: Tokenizer) -> None:
    """Write a tokenizer as vocab.txt.xz, a fifth of tokenizer.json. Raises ValueError if that would change it."""
    ids = tokenizer.get_vocab()
    pieces = sorted(ids, key=ids.__getitem__)
    if Tokenizer.from_str(tokenizer_json(pieces)).to_str() != tokenizer.to_str():
        raise ValueError("the tokenizer is none of an uncased BERT model, with its special pieces and no options")
    content = ("\n".join(pieces) + "\n").encode()
    write_compressed(folder / PIECES_FILE, content)
