"""Every registered model over states of a pretrained encoder, and over regions whose features end in a concept."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import cosine_similarity, normalize, pad

from models.batches import Regions, Words
from models.rerankers.base import Reranker
from models.rerankers.encoders import (
    EncoderConfig,
    PretrainedSentenceEncoder,
    RecurrentStateEncoder,
    RegionEncoder,
    build_encoders,
)
from models.rerankers.registry import RERANKERS, build
from tests.support.encoded_images import encode_images

D, F = 10, 22
PRETRAINED = EncoderConfig(num_words=0, feature_dim=F, width=24, text="pretrained", state_dim=D)
CONCEPTS = replace(PRETRAINED, concept_dim=D)
RECURRENT = replace(PRETRAINED, recurrent=True)
ALIGNED = replace(CONCEPTS, feature_dim=2 * D, aligned=True)

each_model = pytest.mark.parametrize("name", sorted(RERANKERS))
each_config = pytest.mark.parametrize(
    "encoders", [PRETRAINED, RECURRENT, CONCEPTS, ALIGNED], ids=["states", "recurrent", "concepts", "aligned"]
)


def model(name: str, encoders: EncoderConfig) -> Reranker[Any]:
    torch.manual_seed(1)
    return build(name, encoders).double().eval()


def pictures(encoders: EncoderConfig) -> Regions:
    vectors = torch.randn(5, 6, encoders.feature_dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return Regions(0.5 * vectors.abs(), torch.ones(5, 6, dtype=torch.bool))


def states() -> Words:
    mask = torch.arange(7) < torch.tensor([3, 7, 5])[:, None]
    vectors = 0.2 * torch.randn(3, 7, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Words(vectors.masked_fill(~mask[:, :, None], 0), mask)


@each_model
@each_config
@torch.no_grad()
def test_padding_changes_no_score(name: str, encoders: EncoderConfig) -> None:
    reranker = model(name, encoders)
    scores = reranker.score(encode_images(reranker, pictures(encoders)), reranker.encode_texts(states()))
    assert scores.flatten().unique().numel() == 15  # type: ignore[no-untyped-call]
    longer = Words(pad(states().vectors, (0, 0, 0, 2), value=1e3), pad(states().mask, (0, 2)))
    again = reranker.score(encode_images(reranker, pictures(encoders)), reranker.encode_texts(longer))
    torch.testing.assert_close(again, scores)


@each_model
@each_config
def test_gradients_reach_every_weight(name: str, encoders: EncoderConfig) -> None:
    reranker = model(name, encoders).train()
    scores = reranker.score(encode_images(reranker, pictures(encoders)), reranker.encode_texts(states()))
    (scores * torch.randn_like(scores)).sum().backward()  # type: ignore[no-untyped-call]
    for weight, parameter in reranker.named_parameters():
        assert parameter.grad is not None, weight
        assert parameter.grad.isfinite().all(), weight


@torch.no_grad()
def test_a_gru_reads_states_from_both_ends_of_each_sentence() -> None:
    torch.manual_seed(1)
    encoder = RecurrentStateEncoder(RECURRENT).double().eval()
    found = encoder(states())
    for row, (vectors, mask) in enumerate(zip(states().vectors, states().mask, strict=True)):
        forward = backward = torch.zeros(1, RECURRENT.width, dtype=torch.float64)
        cells = [cell_of(encoder.rnn, ending) for ending in ("", "_reverse")]
        ahead = [forward := cells[0](state[None], forward) for state in vectors[mask]]
        behind = [backward := cells[1](state[None], backward) for state in vectors[mask].flip(0)]
        expected = normalize(torch.cat(ahead) + torch.cat(behind[::-1]), dim=1)
        torch.testing.assert_close(found.vectors[row, mask], expected)


def cell_of(gru: torch.nn.GRU, ending: str) -> torch.nn.GRUCell:
    """One step of one direction of the network."""
    cell = torch.nn.GRUCell(gru.input_size, gru.hidden_size).double()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell.load_state_dict({name: getattr(gru, f"{name}_l0{ending}") for name in names})
    return cell


@pytest.mark.parametrize("changes", [{"text": "gru"}, {"concept_dim": D}, {"concept_dim": D, "aligned": True}])
def test_a_gru_of_states_shares_no_map(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="pretrained text"):
        replace(RECURRENT, feature_dim=2 * D, **changes)


@pytest.mark.parametrize("width", [10, 24])
def test_the_words_map_starts_by_keeping_lengths_and_angles(width: int) -> None:
    encoder = PretrainedSentenceEncoder(replace(PRETRAINED, width=width))
    vectors = encoder(Words(states().vectors.float(), states().mask)).vectors
    expected = normalize(states().vectors.float(), dim=2)
    torch.testing.assert_close(vectors @ vectors.mT, expected @ expected.mT, atol=1e-5, rtol=0)
    plain = PretrainedSentenceEncoder(replace(PRETRAINED, width=width, unit_words=False)).fc.weight
    torch.testing.assert_close(plain.T @ plain, torch.eye(D), atol=1e-5, rtol=0)


def test_a_narrow_map_keeps_lengths_on_average() -> None:
    weight = PretrainedSentenceEncoder(replace(PRETRAINED, width=4, unit_words=False)).fc.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(4) * D / 4, atol=1e-5, rtol=0)


@torch.no_grad()
def test_regions_are_compared_with_words_by_their_concepts_before_the_first_step() -> None:
    torch.manual_seed(0)
    regions, words = build_encoders(CONCEPTS)
    assert isinstance(words, PretrainedSentenceEncoder)
    assert torch.equal(regions.concepts.weight, words.fc.weight)
    assert regions.concepts.weight is not words.fc.weight
    concepts = torch.randn(1, 6, D)
    features = torch.cat([torch.randn(1, 6, F - D), concepts], 2)
    encoded = regions(Regions(features, torch.ones(1, 6, dtype=torch.bool))).vectors[0]
    read = words(Words(concepts, torch.ones(1, 6, dtype=torch.bool))).vectors[0]
    assert (cosine_similarity(encoded, read) > 0.99).all()


def test_a_feature_without_a_concept_is_encoded_as_before() -> None:
    torch.manual_seed(0)
    before = torch.nn.Linear(F, 24)
    torch.nn.init.xavier_uniform_(before.weight)
    torch.manual_seed(0)
    assert torch.equal(RegionEncoder(PRETRAINED).fc.weight, before.weight)
    assert set(RegionEncoder(PRETRAINED).state_dict()) == {"fc.weight", "fc.bias"}


@pytest.mark.parametrize("wrong", [{"text": "gru"}, {"concept_dim": 9}, {"feature_dim": D}])
def test_concepts_that_are_no_vectors_of_the_encoder_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="concept"):
        replace(CONCEPTS, **wrong)  # type: ignore[arg-type]


@torch.no_grad()
def test_aligned_regions_are_their_formula_in_loops() -> None:
    torch.manual_seed(0)
    regions, _ = build_encoders(replace(ALIGNED, unit_regions=False))
    for layer in (regions.fc, regions.context, regions.concepts):
        layer.weight.add_(0.1 * torch.randn_like(layer.weight))
    features = torch.randn(2, 5, 2 * D)
    encoded = regions(Regions(features, torch.ones(2, 5, dtype=torch.bool))).vectors
    for picture in range(2):
        for region in range(5):
            own, concept = features[picture, region, :D], features[picture, region, D:]
            expected = regions.fc.weight @ own + regions.context.weight @ features[picture, 0, :D]
            expected = expected + regions.concepts.weight @ concept + regions.fc.bias
            torch.testing.assert_close(encoded[picture, region], expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_aligned_vectors_are_compared_with_words_before_the_first_step() -> None:
    torch.manual_seed(0)
    regions, words = build_encoders(ALIGNED)
    state = torch.randn(1, 1, D)
    whole = torch.cat([state, torch.zeros(1, 1, D)], 2)
    encoded = regions(Regions(torch.cat([whole, torch.zeros(1, 1, 2 * D)], 1), torch.ones(1, 2, dtype=torch.bool)))
    read = words(Words(state, torch.ones(1, 1, dtype=torch.bool))).vectors[0, 0]
    # The region that says nothing of its own has the whole picture's direction.
    torch.testing.assert_close(encoded.vectors[0], read.expand(2, -1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("wrong", [{"text": "gru", "concept_dim": 0}, {"feature_dim": 2 * D + 1}])
def test_aligned_vectors_of_another_space_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="aligned"):
        replace(ALIGNED, **wrong)  # type: ignore[arg-type]
