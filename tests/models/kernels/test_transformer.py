"""The kernel of an encoder's layers against PyTorch and against plain loops: any sizes, any threads, any company."""

import ctypes
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.kernels.library import KernelLibrary
from models.kernels.transformer import (
    ByteLayer,
    ByteLinear,
    CTransformer,
    KernelLayers,
    LayerNormWeights,
    sentences_at_once,
)
from models.text.bert_encoder import LAYER_NORM_EPSILON, BertConfig, FrozenLayers, TransformerLayers
from tests.support.kernels import load_kernels

HEADS, HEAD, HIDDEN, LAYERS = 3, 16, 80, 2
WIDTH = HEADS * HEAD


def drawn_layers(
    seed: int, heads: int = HEADS, head: int = HEAD, hidden: int = HIDDEN, count: int = LAYERS
) -> list[ByteLayer]:
    generator, width = torch.Generator().manual_seed(seed), heads * head

    def linear(outputs: int, inputs: int) -> ByteLinear:
        numbers = torch.randint(-64, 64, (outputs, inputs), generator=generator).to(torch.int8)
        scale = (0.5 + torch.rand(outputs, generator=generator)) / (64 * math.sqrt(inputs))
        return ByteLinear(numbers, scale, torch.randn(outputs, generator=generator))

    def norm() -> LayerNormWeights:
        return LayerNormWeights(torch.randn(width, generator=generator), torch.randn(width, generator=generator))

    return [
        ByteLayer(
            query=linear(width, width),
            key=linear(width, width),
            value=linear(width, width),
            mix=linear(width, width),
            attention_norm=norm(),
            widen=linear(hidden, width),
            narrow=linear(width, hidden),
            output_norm=norm(),
        )
        for _ in range(count)
    ]


def frozen(layers: list[ByteLayer], heads: int = HEADS) -> FrozenLayers:
    hidden, width = layers[0].widen.numbers.shape
    config = BertConfig(
        num_pieces=1, num_positions=1, num_layers=len(layers), width=width, hidden_width=hidden, num_heads=heads
    )
    return FrozenLayers(config, layers)


def batch(lengths: list[int], width: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    states = torch.randn(len(lengths), max(lengths), width, generator=torch.Generator().manual_seed(seed))
    return states, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.sampled_from([(1, 16, 16), (2, 32, 48), (3, 16, 272)]),
    st.integers(0, 2**16),
)
def test_the_kernel_computes_what_pytorch_does(lengths: list[int], sizes: tuple[int, int, int], seed: int) -> None:
    heads, head, _ = sizes
    layers = frozen(drawn_layers(seed, *sizes), heads)
    states, mask = batch(lengths, heads * head, seed)
    expected = layers(states, mask)
    layers.use_kernels(load_kernels())
    found = layers(states, mask)
    torch.testing.assert_close(found[mask], expected[mask], rtol=1e-4, atol=1e-4)
    assert not found[~mask].any()


def in_loops(layer: ByteLayer, states: np.ndarray) -> np.ndarray:
    """One layer for the pieces of one sentence, in double precision."""

    def linear(part: ByteLinear, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = (
            part.scale.double().numpy() * (part.numbers.double().numpy() @ x) + part.bias.double().numpy()
        )
        return found

    def norm(part: LayerNormWeights, x: np.ndarray) -> np.ndarray:
        scaled = (x - x.mean()) / math.sqrt(x.var() + LAYER_NORM_EPSILON)
        found: np.ndarray = scaled * part.weight.double().numpy() + part.bias.double().numpy()
        return found

    queries, keys, values = ([linear(part, x) for x in states] for part in (layer.query, layer.key, layer.value))
    rows = []
    for p, x in enumerate(states):
        attended = np.zeros_like(x)
        for start in range(0, len(x), HEAD):
            part = slice(start, start + HEAD)
            weights = [math.exp(queries[p][part] @ key[part] / math.sqrt(HEAD)) for key in keys]
            attended[part] = sum(w * value[part] for w, value in zip(weights, values, strict=True)) / sum(weights)
        y = norm(layer.attention_norm, x + linear(layer.mix, attended))
        wide = [0.5 * one * (1 + math.erf(one / math.sqrt(2))) for one in linear(layer.widen, y)]
        rows.append(norm(layer.output_norm, y + linear(layer.narrow, np.array(wide))))
    return np.array(rows)


def test_the_kernel_computes_the_formula(kernels: KernelLibrary) -> None:
    layers = frozen(drawn_layers(3))
    layers.use_kernels(kernels)
    states, mask = batch([19], WIDTH)
    expected = states[0].double().numpy()
    for layer in drawn_layers(3):
        expected = in_loops(layer, expected)
    np.testing.assert_allclose(layers(states, mask)[0].numpy(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("threads", [2, 5])
def test_a_sentence_does_not_depend_on_its_company(kernels: KernelLibrary, threads: int) -> None:
    layers = KernelLayers(drawn_layers(4), HEADS, LAYER_NORM_EPSILON, kernels)
    lengths = [7, 30, 1, 12, 96, 130, 3]
    states, mask = batch(lengths, WIDTH)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = layers(states, mask)
    finally:
        torch.set_num_threads(before)
    for row, length in enumerate(lengths):
        alone = layers(states[row : row + 1, :length], mask[row : row + 1, :length])
        # Rows are multiplied in groups of other sizes, whose sums round alike.
        assert together[row, :length].equal(alone[0])


def test_no_sentence_is_no_work(kernels: KernelLibrary) -> None:
    layers = KernelLayers(drawn_layers(5), HEADS, LAYER_NORM_EPSILON, kernels)
    assert layers(torch.zeros(0, 4, WIDTH), torch.zeros(0, 4, dtype=torch.bool)).shape == (0, 4, WIDTH)


def test_sizes_that_the_kernel_does_not_know_are_left_to_pytorch(kernels: KernelLibrary) -> None:
    odd = drawn_layers(6, heads=2, head=24)
    with pytest.raises(ValueError, match="multiples of 16"):
        KernelLayers(odd, 2, LAYER_NORM_EPSILON, kernels)
    layers = frozen(odd, heads=2)
    states, mask = batch([5, 2], 48)
    expected = layers(states, mask)
    layers.use_kernels(kernels)
    assert layers(states, mask).equal(expected)


def test_kernels_can_be_taken_away_again(kernels: KernelLibrary) -> None:
    layers = frozen(drawn_layers(7))
    states, mask = batch([5, 9], WIDTH)
    by_torch = layers(states, mask)
    assert isinstance(layers._ready, TransformerLayers)
    layers.use_kernels(kernels)
    assert isinstance(layers(states, mask), torch.Tensor)
    assert isinstance(layers._ready, KernelLayers)
    layers.use_kernels(None)
    assert layers(states, mask).equal(by_torch)


@pytest.mark.parametrize(
    ("states", "lengths", "message"),
    [
        (torch.zeros(5, WIDTH, dtype=torch.float64), [5], "float32 in one piece"),
        (torch.zeros(WIDTH, 5).T, [5], "float32 in one piece"),
        (torch.zeros(5, WIDTH), [3, 3], r"must be \(6, 48\), not \(5, 48\)"),
    ],
)
def test_states_of_other_shapes_are_refused(
    kernels: KernelLibrary, states: torch.Tensor, lengths: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kernels.transform(CTransformer(width=WIDTH), states, lengths)


def test_structures_are_as_wide_as_the_sources_have_them() -> None:
    assert ctypes.sizeof(CTransformer) == 8 + 4 * 4 + 4 + 4  # a pointer, four whole numbers, a float, padding


@given(st.lists(st.integers(1, 200), max_size=30), st.integers(1, 8))
def test_parts_hold_every_sentence_once(lengths: list[int], threads: int) -> None:
    parts = sentences_at_once(lengths, threads)
    assert [n for part in parts for n in range(part.start, part.stop)] == list(range(len(lengths)))
    most = max(-(-sum(lengths) // threads), 1)
    assert all(part.stop - part.start == 1 or sum(lengths[part]) <= min(96, most) for part in parts)
