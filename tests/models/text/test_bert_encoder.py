"""The sentence encoder against its formula in plain loops, on small random weights named as published ones are."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, normalizers

from models.compressed_files import compressed, stored_text
from models.text.bert_encoder import BERT_WEIGHTS_FILE, load_bert_encoder
from models.text.word_pieces import PIECES_FILE, TOKENIZER_FILE, stored_tokenizer, write_pieces
from tests.support.small_bert import HEADS, LAYERS, WIDTH, published_weights, write_published

SENTENCES = ["a dog runs", "cat", "a cat running", "", "quokka"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_published(tmp_path)


def normalised(x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    scaled = (x - x.mean()) / math.sqrt(((x - x.mean()) ** 2).mean() + 1e-12)
    found: np.ndarray = scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return found


def gelu(x: np.ndarray) -> np.ndarray:
    return np.array([0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in x])


def vector_in_loops(ids: list[int], weights: dict[str, np.ndarray]) -> np.ndarray:
    """The formula of the module's head, piece by piece and head by head."""

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        found: np.ndarray = weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]
        return found

    def embedding(kind: str, row: int) -> np.ndarray:
        found: np.ndarray = weights[f"embeddings.{kind}_embeddings.weight"][row]
        return found

    states = [
        normalised(
            embedding("word", piece) + embedding("position", place) + embedding("token_type", 0),
            weights,
            "embeddings.LayerNorm",
        )
        for place, piece in enumerate(ids)
    ]
    size = WIDTH // HEADS
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            [linear(x, f"{layer}.attention.self.{name}") for x in states] for name in ("query", "key", "value")
        )
        attended = []
        for p in range(len(states)):
            mixed = np.zeros(WIDTH)
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                logits = np.array([query[p][part] @ key[q][part] / math.sqrt(size) for q in range(len(states))])
                shares = np.exp(logits - logits.max())
                shares /= shares.sum()
                mixed[part] = sum(share * value[q][part] for q, share in enumerate(shares))
            attended.append(mixed)
        states = [
            normalised(x + linear(a, f"{layer}.attention.output.dense"), weights, f"{layer}.attention.output.LayerNorm")
            for x, a in zip(states, attended, strict=True)
        ]
        states = [
            normalised(
                x + linear(gelu(linear(x, f"{layer}.intermediate.dense")), f"{layer}.output.dense"),
                weights,
                f"{layer}.output.LayerNorm",
            )
            for x in states
        ]
    mean: np.ndarray = np.mean(states, axis=0)
    mean /= math.sqrt((mean**2).sum())
    return mean


def test_a_sentence_has_the_vector_of_the_formula(folder: Path) -> None:
    encoder = load_bert_encoder(folder)
    weights = {name: tensor.double().numpy() for name, tensor in load_file(folder / BERT_WEIGHTS_FILE).items()}
    vectors = encoder.embed(SENTENCES, batch=3)
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        ids = [id_ for id_ in encoder.tokenizer.encode(sentence).ids if id_ != 0]
        np.testing.assert_allclose(vector.numpy(), vector_in_loops(ids, weights), atol=2e-6)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_a_sentence_has_one_vector_whatever_stands_beside_it(folder: Path, batch: int) -> None:
    encoder = load_bert_encoder(folder)
    alone = torch.cat([encoder.embed([sentence]) for sentence in SENTENCES])
    torch.testing.assert_close(encoder.embed(SENTENCES, batch=batch), alone, rtol=0, atol=1e-6)
    assert encoder.embed([]).shape == (0, WIDTH)


def test_a_sentence_longer_than_the_positions_is_cut(folder: Path) -> None:
    encoder = load_bert_encoder(folder)
    vector = encoder.embed(["a dog " * 50])
    assert torch.isfinite(vector).all()
    torch.testing.assert_close(vector, encoder.embed(["a dog " * 80]))


@pytest.mark.parametrize(
    "gone", ["embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.bias", "embeddings.LayerNorm.bias"]
)
def test_other_weights_are_refused(folder: Path, gone: str) -> None:
    weights = published_weights()
    del weights[gone]
    save_file(weights, folder / BERT_WEIGHTS_FILE)
    with pytest.raises(ValueError, match=r"missing|Missing"):
        load_bert_encoder(folder)


def test_the_tokenizer_is_read_from_each_of_three_files(folder: Path) -> None:
    published = stored_tokenizer(folder)
    tokenizer = Tokenizer.from_str(published)
    assert tokenizer.to_str() == published
    assert tokenizer.encode("running").tokens == ["[CLS]", "run", "##ning", "[SEP]"]
    write_pieces(folder, tokenizer)
    (folder / TOKENIZER_FILE).unlink()
    assert stored_tokenizer(folder) == published
    assert load_bert_encoder(folder).tokenizer.encode("Running!").tokens == ["[CLS]", "run", "##ning", "[UNK]", "[SEP]"]
    (folder / PIECES_FILE).write_bytes(stored_text(folder / PIECES_FILE))
    compressed(folder / PIECES_FILE).unlink()
    assert stored_tokenizer(folder) == published
    (folder / PIECES_FILE).write_text("a\ndog\n")
    with pytest.raises(ValueError, match=r"the pieces lack \[CLS\]"):
        load_bert_encoder(folder)


def test_a_tokenizer_of_another_kind_is_not_written_as_pieces(folder: Path) -> None:
    cased = Tokenizer.from_str(stored_tokenizer(folder))
    write_pieces(folder, cased)
    cased.normalizer = normalizers.BertNormalizer(lowercase=False)
    (folder / TOKENIZER_FILE).write_text(cased.to_str())
    assert load_bert_encoder(folder).tokenizer.encode("Dog").tokens == ["[CLS]", "[UNK]", "[SEP]"]  # not by its pieces
    with pytest.raises(ValueError, match="none of an uncased BERT model"):
        write_pieces(folder, cased)
