"""SMAN against the paper's formulas in plain loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from models.batches import Regions, Tokens, Words
from models.matching.checkpoint import new_matcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.attention import AdditiveAttention
from models.rerankers.base import score_pairs
from models.rerankers.encoders import EncoderConfig, LstmSentenceEncoder
from models.rerankers.registry import build
from models.rerankers.sman import Sman, intra_pair_loss
from models.text.vocabulary import SPECIALS, Vocabulary
from tests.support.encoded_images import encode_images

F, D = 5, 4
ENCODERS = EncoderConfig(num_words=9, feature_dim=F, word_dim=3, width=D)


def model(seed: int = 0, **options: object) -> Sman:
    torch.manual_seed(seed)
    sman = build("sman", ENCODERS, options).double().eval()
    assert isinstance(sman, Sman)
    return sman


def softmax(logits: list[float]) -> list[float]:
    exps = [math.exp(logit - max(logits)) for logit in logits]
    return [value / sum(exps) for value in exps]


def cos(a: Tensor, b: Tensor) -> float:
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def mean(vectors: list[Tensor]) -> Tensor:
    return sum(vectors[1:], vectors[0]) / len(vectors)


def gru(cell: nn.GRU, inputs: list[Tensor]) -> list[Tensor]:
    """States of a GRU by its equations."""
    weights = dict(cell.named_parameters())
    state, states = torch.zeros(D, dtype=torch.float64), []
    for x in inputs:
        from_input = (weights["weight_ih_l0"] @ x + weights["bias_ih_l0"]).chunk(3)
        from_state = (weights["weight_hh_l0"] @ state + weights["bias_hh_l0"]).chunk(3)
        reset, update = (sigmoid(from_input[gate] + from_state[gate]) for gate in (0, 1))
        new = torch.tanh(from_input[2] + reset * from_state[2])
        state = (1 - update) * new + update * state
        states.append(state)
    return states


def attend(step: AdditiveAttention, vectors: list[Tensor], query: Tensor, product: str) -> tuple[Tensor, list[float]]:
    """Weighted sum of the vectors and the weights."""
    q = torch.tanh(step.query(query))
    logits = []
    for vector in vectors:
        key = step.keys(vector)
        hidden = torch.tanh(key * q) if product == "inside" else torch.tanh(key) * q
        logits.append(float(step.weight.weight[0] @ hidden))
    weights = softmax(logits)
    parts = [weight * vector for weight, vector in zip(weights, vectors, strict=True)]
    return sum(parts[1:], parts[0]), weights


def score_by_the_paper(sman: Sman, regions: Tensor, words: Tensor) -> tuple[float, list[float], list[float]]:
    """Score and the second step's weights of regions [M F] and words [L D]."""
    config, image, text = sman.config, list(regions), list(words)
    share = 1 / len(image) if config.divide_by_regions else 1
    v0 = torch.tanh(sman.summary(mean(image))) + mean(gru(sman.reader, image))
    t0 = mean(text)
    v1 = torch.tanh(sman.region_output_first(share * attend(sman.region_first, image, v0, "inside")[0]))
    t1, _ = attend(sman.word_first, text, t0, "outside")
    v, t = sman.region_gate(v0 + v1), sman.word_gate(t0 + t1)
    ov = sigmoid(config.alpha * v + (1 - config.alpha) * t)
    ot = sigmoid(config.alpha * t + (1 - config.alpha) * v)
    attended_image, region_weights = attend(sman.region_second, image, ov, "inside")
    v2 = torch.tanh(sman.region_output_second(share * attended_image))
    t2, word_weights = attend(sman.word_second, text, ot, config.text_product)
    if config.similarity == "concatenation":
        return cos(torch.cat([v0, v1, v2]), torch.cat([t0, t1, t2])), word_weights, region_weights
    return cos(v0, t0) + cos(v1, t1) + cos(v2, t2), word_weights, region_weights


@settings(max_examples=25, deadline=None)
@given(
    regions=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    words=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    alpha=st.sampled_from([0.9, 0.5]),
    divide=st.booleans(),
    product=st.sampled_from(["inside", "outside"]),
    similarity=st.sampled_from(["sum", "concatenation"]),
    seed=st.integers(0, 2**16),
)
@torch.no_grad()
def test_scores_and_weights_equal_the_papers_formulas(
    regions: list[int], words: list[int], alpha: float, divide: bool, product: str, similarity: str, seed: int
) -> None:
    sman = model(seed, alpha=alpha, divide_by_regions=divide, text_product=product, similarity=similarity)
    features = torch.randn(len(regions), max(regions), F, dtype=torch.float64)
    vectors = torch.randn(len(words), max(words), D, dtype=torch.float64)
    images = encode_images(sman, Regions(features, torch.arange(max(regions)) < torch.tensor(regions)[:, None]))
    encoded = Words(vectors, torch.arange(max(words)) < torch.tensor(words)[:, None])
    scores, explanation = sman.score(images, encoded), sman.explain(images, encoded)
    assert explanation.word_weights is not None
    assert explanation.region_weights is not None
    for q, length in enumerate(words):
        for k, count in enumerate(regions):
            score, word_weights, region_weights = score_by_the_paper(sman, features[k, :count], vectors[q, :length])
            assert float(scores[q, k]) == pytest.approx(score, abs=1e-10)
            assert explanation.word_weights[q, k, :length].tolist() == pytest.approx(word_weights, abs=1e-10)
            assert explanation.region_weights[q, k, :count].tolist() == pytest.approx(region_weights, abs=1e-10)


@pytest.mark.parametrize("directions", ["sum", "mean"])
@torch.no_grad()
def test_encoded_words_are_both_directions_of_the_lstm_combined(directions: str) -> None:
    encoder = model(directions=directions).sentence_encoder
    assert isinstance(encoder, LstmSentenceEncoder)
    ids, lengths = torch.tensor([[1, 5, 2, 0], [1, 4, 7, 2]]), (3, 4)
    words = encoder(Tokens(ids, ids != 0)).vectors
    for row, length, found in zip(ids, lengths, words, strict=True):
        outputs, _ = encoder.rnn(encoder.embed(row[:length])[None])
        both = outputs[0, :, :D] + outputs[0, :, D:]
        torch.testing.assert_close(found[:length], both if directions == "sum" else both / 2)
        assert not found[length:].any()


@torch.no_grad()
def test_the_order_of_regions_matters_and_padding_between_them_does_not() -> None:
    sman = model()
    features = torch.randn(1, 6, F, dtype=torch.float64)
    words = Words(torch.randn(2, 3, D, dtype=torch.float64), torch.ones(2, 3, dtype=torch.bool))

    def scores(vectors: Tensor, mask: list[bool]) -> Tensor:
        return sman.score(encode_images(sman, Regions(vectors, torch.tensor([mask]))), words)

    some = scores(features, [True, False, True, True, False, True])
    torch.testing.assert_close(some, scores(features[:, [0, 2, 3, 5]], [True] * 4))
    assert not torch.allclose(some, scores(features[:, [5, 3, 2, 0]], [True] * 4))


@torch.no_grad()
def test_many_pictures_score_as_each_alone() -> None:
    torch.manual_seed(2)
    encoders = EncoderConfig(num_words=9, feature_dim=F, word_dim=3, width=128)
    sman = build("sman", encoders).eval()
    images = encode_images(sman, Regions(torch.randn(200, 49, F), torch.ones(200, 49, dtype=torch.bool)))
    words = Words(torch.randn(1, 3, 128), torch.ones(1, 3, dtype=torch.bool))
    alone = torch.cat([sman.score(images[k : k + 1], words) for k in range(200)], 1)
    torch.testing.assert_close(sman.score(images, words), alone)  # 200 x 49 x 128 numbers: more than one block


def test_both_passes_of_training_have_the_gradients_of_the_whole_matrix() -> None:
    sman = model(3)
    regions = Regions(torch.randn(3, 4, F, dtype=torch.float64), torch.ones(3, 4, dtype=torch.bool))
    tokens = Tokens(torch.tensor([[1, 5, 2], [1, 4, 2], [1, 7, 8]]), torch.ones(3, 3, dtype=torch.bool))
    gradients = []
    for pairwise in (True, False):
        sman.zero_grad()
        images, words = encode_images(sman, regions), sman.encode_texts(tokens)
        scores = score_pairs(sman, images, words) if pairwise else sman.score(images, words).diagonal()
        scores.sum().backward()  # type: ignore[no-untyped-call]
        gradients.append([weight.grad for weight in sman.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_intra_pair_loss_is_zero_for_matching_pairs_within_the_margin() -> None:
    # Means of the cosines 1, 0.8, 0.5 and -1 against a margin of 0.25.
    scores = torch.tensor([3.0, 2.4, 1.5, -3.0], requires_grad=True)
    loss = intra_pair_loss(scores, margin=0.25)
    assert float(loss.detach()) == pytest.approx(0 + 0 + 0.25 + 1.75)
    loss.backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert scores.grad.tolist() == pytest.approx([0, 0, -1 / 3, -1 / 3])


def test_stage_one_reads_the_raw_features() -> None:
    vocabulary = Vocabulary((*SPECIALS, *"abcde"))
    matcher = new_matcher("sman", ENCODERS, StageOneConfig(width=D, embed_dim=2), vocabulary, "digest")
    assert matcher.pooled.image.in_features == F
    assert matcher.pooled.text.in_features == D
