"""A BERT encoder of a few numbers with random weights, in the published layout, and a reader of sentences by it."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from models.text.bert_encoder import BERT_WEIGHTS_FILE, BertConfig, BertEncoder, load_bert_encoder
from models.text.pretrained_reader import PretrainedReader
from models.text.word_pieces import SPECIAL, TOKENIZER_FILE, tokenizer_json

WIDTH, HIDDEN, HEADS, LAYERS, POSITIONS = 24, 40, 12, 2, 9
PIECES = (*SPECIAL, "a", "dog", "runs", "##ning", "run", "cat")


def published_weights(
    num_pieces: int = len(PIECES), num_positions: int = POSITIONS, mixing: float = 1.0
) -> dict[str, Tensor]:
    """Random weights by their published names, with a pooler that sentences do not need.

    The smaller `mixing`, the less a piece's state depends on its place and its neighbours.
    """
    torch.manual_seed(0)
    weights = {
        "embeddings.word_embeddings.weight": torch.randn(num_pieces, WIDTH),
        "embeddings.position_embeddings.weight": torch.randn(num_positions, WIDTH) * mixing,
        "embeddings.token_type_embeddings.weight": torch.randn(2, WIDTH),
        "embeddings.LayerNorm.weight": torch.rand(WIDTH) + 0.5,
        "embeddings.LayerNorm.bias": torch.randn(WIDTH) * 0.1,
        "pooler.dense.weight": torch.randn(WIDTH, WIDTH),
    }
    shapes = {
        "attention.self.query": (WIDTH, WIDTH),
        "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH),
        "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (HIDDEN, WIDTH),
        "output.dense": (WIDTH, HIDDEN),
    }
    for number in range(LAYERS):
        for name, (rows, columns) in shapes.items():
            weights[f"encoder.layer.{number}.{name}.weight"] = torch.randn(rows, columns) * mixing / math.sqrt(columns)
            weights[f"encoder.layer.{number}.{name}.bias"] = torch.randn(rows) * 0.1
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            weights[f"encoder.layer.{number}.{name}.weight"] = torch.rand(WIDTH) + 0.5
            weights[f"encoder.layer.{number}.{name}.bias"] = torch.randn(WIDTH) * 0.1
    return weights


def write_published(
    folder: Path, pieces: Sequence[str] = PIECES, num_positions: int = POSITIONS, mixing: float = 1.0
) -> Path:
    """The folder with the two published files."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(published_weights(len(pieces), num_positions, mixing), folder / BERT_WEIGHTS_FILE)
    (folder / TOKENIZER_FILE).write_text(tokenizer_json(pieces), "utf-8")
    return folder


class HashedSentences(BertEncoder):
    """An encoder without weights: every sentence has a random unit vector of its own."""

    def __init__(self, width: int = WIDTH) -> None:
        torch.nn.Module.__init__(self)
        self.config = BertConfig(num_pieces=0, num_positions=0, num_layers=0, width=width, hidden_width=0)

    def embed(self, sentences: Sequence[str], batch: int = 256) -> Tensor:
        drawn = [np.random.default_rng(list(one.encode())).normal(size=self.config.width) for one in sentences]
        return torch.nn.functional.normalize(torch.tensor(np.array(drawn), dtype=torch.float32), dim=1)


def small_reader(folder: Path, words: Sequence[str] = (), digest: str = "small") -> PretrainedReader:
    """A reader that has a piece for each of the words, besides PIECES; 24 numbers a state. As in a trained
    encoder, a word's state is mostly its own."""
    pieces = tuple(dict.fromkeys([*PIECES, *words]))
    return PretrainedReader(
        load_bert_encoder(write_published(folder, pieces, 32, mixing=0.3)), words, len(words), digest
    )
