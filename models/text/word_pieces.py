"""The tokenizer of uncased BERT models (Devlin et al. 2019): words in small letters, cut into pieces from the left."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

PIECES_FILE, TOKENIZER_FILE = "vocab.txt", "tokenizer.json"
BEGINNING, END = "[CLS]", "[SEP]"
SPECIAL = ("[PAD]", "[UNK]", BEGINNING, END, "[MASK]")


def bert_tokenizer(pieces: Sequence[str]) -> Tokenizer:
    """The tokenizer whose pieces have these names in the order of their ids, those of SPECIAL among them; it marks a
    sentence's beginning and end itself. ValueError where one of SPECIAL is missing."""
    if missing := sorted(set(SPECIAL) - set(pieces)):
        raise ValueError(f"the pieces lack {', '.join(missing)}")
    ids = {piece: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.add_special_tokens(list(SPECIAL))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single=f"{BEGINNING} $A {END}",
        pair=f"{BEGINNING} $A {END} $B:1 {END}:1",
        special_tokens=[(name, ids[name]) for name in (BEGINNING, END)],
    )
    made.decoder = decoders.WordPiece()
    return made


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a folder: of the pieces in its vocab.txt, a line each, or else the one in tokenizer.json.
    OSError where neither is there."""
    try:
        pieces = (folder / PIECES_FILE).read_text("utf-8")
    except FileNotFoundError:
        return Tokenizer.from_str((folder / TOKENIZER_FILE).read_text("utf-8"))
    return bert_tokenizer(pieces.removesuffix("\n").split("\n"))


def write_pieces(folder: Path, tokenizer: Tokenizer) -> None:
    """Write a tokenizer as vocab.txt, half as large as tokenizer.json. ValueError where that would be another one."""
    ids = tokenizer.get_vocab()
    pieces = sorted(ids, key=ids.__getitem__)
    if bert_tokenizer(pieces).to_str() != tokenizer.to_str():
        raise ValueError("the tokenizer is none of an uncased BERT model, with its special pieces and no options")
    (folder / PIECES_FILE).write_text("\n".join(pieces) + "\n", "utf-8")
