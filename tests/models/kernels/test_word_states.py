"""The kernel of words' states against PyTorch: any words, any threads, any company."""

import ctypes
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from models.kernels.library import KernelLibrary
from models.kernels.transformer import KernelLayers, LayerNormWeights
from models.kernels.word_states import CEmbedding, CWordPieces, KernelWordStates, PieceEmbedding, Run, WordPieces
from models.quantised_rows import PLANES, SCALE, QuantisedEmbedding, quantise_rows
from models.text.bert_encoder import LAYER_NORM_EPSILON, BertConfig, BertEncoder, FrozenLayers
from tests.models.kernels.test_transformer import HEADS, HIDDEN, LAYERS, WIDTH, drawn_layers
from tests.support.kernels import load_kernels

PIECES, PLACES = 50, 40
CONFIG = BertConfig(
    num_pieces=PIECES, num_positions=PLACES, num_layers=LAYERS, width=WIDTH, hidden_width=HIDDEN, num_heads=HEADS
)
RUNS = st.lists(
    st.lists(st.lists(st.integers(0, PIECES - 1), min_size=1, max_size=4), min_size=1, max_size=10),
    min_size=1,
    max_size=8,
)


def frozen_encoder(seed: int = 0, bits: int = 8) -> BertEncoder:
    torch.manual_seed(seed)
    encoder = BertEncoder(CONFIG, Tokenizer(WordPiece({"[UNK]": 0}, unk_token="[UNK]")))
    for part in (encoder.positions, encoder.segments):
        torch.nn.init.normal_(part.weight)
    for parameter in encoder.norm.parameters():
        torch.nn.init.normal_(parameter)
    rows = quantise_rows(torch.randn(PIECES, WIDTH), bits)
    encoder.pieces = QuantisedEmbedding(rows[PLANES], rows[SCALE])
    encoder.layers = FrozenLayers(CONFIG, drawn_layers(seed))
    return encoder.eval().requires_grad_(False)


def states_by(encoder: BertEncoder, kernels: KernelLibrary | None, runs: Sequence[Run]) -> torch.Tensor:
    encoder.use_kernels(kernels)
    return encoder.word_states(runs)


@settings(max_examples=40)
@given(RUNS, st.integers(2, 8), st.integers(0, 2**16))
def test_the_kernel_computes_what_pytorch_does(runs: list[list[list[int]]], bits: int, seed: int) -> None:
    encoder = frozen_encoder(seed, bits)
    expected, found = (states_by(encoder, kernels, runs) for kernels in (None, load_kernels()))
    assert isinstance(encoder._words, KernelWordStates)
    assert found.shape == (sum(map(len, runs)), WIDTH)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_word_is_the_mean_of_its_pieces_in_their_places() -> None:
    encoder, run = frozen_encoder(), [[3], [7, 8, 9], [4, 4]]
    ids = torch.tensor([[piece for word in run for piece in word]])
    states = encoder(ids, torch.ones_like(ids, dtype=torch.bool))[0]
    expected = torch.stack([states[0], states[1:4].mean(0), states[4:].mean(0)])
    for kernels in (None, load_kernels()):
        torch.testing.assert_close(states_by(encoder, kernels, [run]), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [2, 5])
def test_a_word_does_not_depend_on_other_sentences(threads: int) -> None:
    encoder = frozen_encoder(2)
    drawn = torch.Generator().manual_seed(3)
    runs = [[[int(torch.randint(PIECES, (), generator=drawn))] for _ in range(n)] for n in (7, 30, 1, 12, 40, 3)]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = states_by(encoder, load_kernels(), runs)
    finally:
        torch.set_num_threads(before)
    alone = [states_by(encoder, load_kernels(), [run]) for run in runs]
    assert together.equal(torch.cat(alone))


@pytest.mark.parametrize("run", [[[PIECES]], [[-1]], [[0]] * (PLACES + 1)])
def test_pieces_and_places_that_there_are_not_are_refused(run: Run) -> None:
    with pytest.raises(IndexError, match=f"are {PIECES} pieces, places for {PLACES}"):
        states_by(frozen_encoder(), load_kernels(), [run])


@pytest.mark.parametrize("compiled", [False, True])
def test_words_of_no_piece_are_refused_and_no_run_is_no_state(compiled: bool) -> None:
    kernels = load_kernels() if compiled else None
    with pytest.raises(ValueError, match="at least one piece"):
        states_by(frozen_encoder(), kernels, [[[1], []]])
    assert states_by(frozen_encoder(), kernels, []).shape == (0, WIDTH)


def test_an_embedding_of_another_width_is_refused() -> None:
    encoder, kernels = frozen_encoder(), load_kernels()
    layers = KernelLayers(drawn_layers(0, heads=2), 2, LAYER_NORM_EPSILON, kernels)
    assert isinstance(encoder.pieces, QuantisedEmbedding)
    norm = LayerNormWeights(encoder.norm.weight, encoder.norm.bias)
    embedding = PieceEmbedding(encoder.pieces.planes, encoder.pieces.scale, encoder.positions.weight, norm)
    with pytest.raises(ValueError, match="the layers are 32 wide"):
        KernelWordStates(embedding, layers, kernels)


@given(RUNS, st.data())
def test_parts_hold_every_word_once(runs: list[list[list[int]]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(runs)))
    said = WordPieces.of(runs)
    parts = said.parts([one for one in (slice(0, cut), slice(cut, len(runs))) if one.start < one.stop])
    assert [n for own, _ in parts for n in range(own.start, own.stop)] == list(range(len(said.sizes)))
    for name in ("ids", "lengths", "sizes", "words"):
        assert [n for _, part in parts for n in getattr(part, name)] == getattr(said, name)


def test_structures_are_as_wide_as_the_sources_have_them() -> None:
    assert ctypes.sizeof(CEmbedding) == 3 * 8 + 2 * 8 + 3 * 4 + 4  # five pointers, three whole numbers, padding
    assert ctypes.sizeof(CWordPieces) == 3 * 8 + 2 * 4
