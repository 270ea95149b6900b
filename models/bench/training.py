"""One training step on hardest negatives, compared with the caption loop that scores every pair with gradient.

A step goes from encoded regions and words through scores and the hinge loss back to gradients of regions and words.
Encoders and optimizer are the same for both forms: they are timed separately, and a ratio includes them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.flop_counter import FlopCounterMode

from models.batches import Regions, Tokens, Words
from models.bench.inputs import Sizes, random_regions, random_reranker, random_words
from models.bench.literal import CaptionLoop
from models.bench.memory import peak_memory
from models.bench.rerank import FURTHER_PRODUCTS
from models.bench.timing import MachineRates, time_interleaved
from models.rerankers.base import Reranker
from models.rerankers.encoders import EncoderConfig, RegionEncoder, SentenceEncoder
from models.training.losses import hardest_triplets, hinge_loss

MARGIN = 0.2
# SCAN's sizes on Flickr30K: width of a region's feature, words of the vocabulary.
FEATURE_DIM, NUM_WORDS, WORD_DIM = 2048, 8481, 300
FORMS = ("ours", "literal")
TRAINED_MODELS = ("scan-t2i-avg", "scan-i2t-avg", "bfan-prob", "bfan-equal")


class EncodedBatch(NamedTuple):
    """Matching pairs, encoded: picture n belongs to sentence n."""

    regions: Regions
    words: Words


class StepResult(NamedTuple):
    """The loss of a step, and its gradients."""

    loss: float
    gradients: tuple[Tensor, Tensor]  # of regions and of words

    def error(self, other: "StepResult") -> float:
        """Largest difference of a gradient, in units of the largest gradient."""
        pairs = zip(self.gradients, other.gradients, strict=True)
        return max(float((mine - theirs).abs().max() / theirs.abs().max()) for mine, theirs in pairs)


def random_batch(sizes: Sizes) -> EncodedBatch:
    """A batch whose hardest negatives are inside the margin: all vectors lie around one direction."""
    regions = random_regions(sizes.pairs, sizes.regions, sizes.width)
    words = random_words(torch.full((sizes.pairs,), sizes.words), sizes.width)
    common = random_regions(1, 1, sizes.width).vectors
    return EncodedBatch(
        Regions(normalize(regions.vectors + common, dim=2), regions.mask),
        Words(normalize(words.vectors + common, dim=2), words.mask),
    )


def all_pairs_hinge(scores: Float[Tensor, "Q Q"]) -> Float[Tensor, ""]:
    """The authors' loss: the sum of the largest costs of each row and column of all pairs."""
    matching = scores.diagonal()
    diagonal = torch.eye(len(scores), dtype=torch.bool)
    wrong_image = (MARGIN + scores - matching[:, None]).clamp_min(0).masked_fill(diagonal, 0)
    wrong_sentence = (MARGIN + scores - matching).clamp_min(0).masked_fill(diagonal, 0)
    return wrong_image.amax(1).sum() + wrong_sentence.amax(0).sum()


def training_step(form: str, reranker: Reranker[Any], batch: EncodedBatch) -> StepResult:
    """One step of our form (`ours`) or of the authors' (`literal`)."""
    vectors = batch.regions.vectors.clone().requires_grad_()
    word_vectors = batch.words.vectors.clone().requires_grad_()
    projected, words = Regions(vectors, batch.regions.mask), Words(word_vectors, batch.words.mask)
    if form == "ours":
        same = torch.eye(len(words), dtype=torch.bool)
        loss = hinge_loss(hardest_triplets(reranker, reranker.precompute(projected), words, same), MARGIN)
    else:
        loss = all_pairs_hinge(CaptionLoop(reranker, projected).score(words))
    loss.backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    assert word_vectors.grad is not None
    return StepResult(loss.item(), (vectors.grad, word_vectors.grad))


def encoders_step(sizes: Sizes) -> Callable[[], None]:
    """One step of both encoders, from gradients of their outputs."""
    config = EncoderConfig(num_words=NUM_WORDS, feature_dim=FEATURE_DIM, word_dim=WORD_DIM, width=sizes.width)
    encoders = torch.nn.ModuleList([RegionEncoder(config), SentenceEncoder(config)])
    optimizer = torch.optim.Adam(encoders.parameters())
    features = torch.randn(sizes.pairs, sizes.regions, FEATURE_DIM)
    regions = Regions(features, torch.ones(features.shape[:2], dtype=torch.bool))
    ids = torch.randint(NUM_WORDS, (sizes.pairs, sizes.words))
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))

    def step() -> None:
        optimizer.zero_grad()
        encoded = [encoder(rows).vectors for encoder, rows in zip(encoders, (regions, tokens), strict=True)]
        torch.autograd.backward(encoded, [torch.ones_like(vectors) for vectors in encoded])
        optimizer.step()

    return step


def training_row(name: str, sizes: Sizes, rounds: int, rates: MachineRates) -> dict[str, Any]:
    """The figures of one model with one size of batch."""
    reranker, batch = random_reranker(name, sizes.width), random_batch(sizes)
    with FlopCounterMode(display=False, custom_mapping=FURTHER_PRODUCTS) as counter:
        result = training_step("ours", reranker, batch)
    expected = training_step("literal", reranker, batch)
    forms = {form: partial(training_step, form, reranker, batch) for form in FORMS}
    turns = time_interleaved({**forms, "encoders": encoders_step(sizes)}, rounds, warm=True)
    ours, literal, encoders = (turns.median(form) for form in (*FORMS, "encoders"))
    floor = rates.floor(float(counter.get_total_flops()))
    return {
        "model": name,
        "candidates": sizes.pairs,
        "us_per_pair": 1e6 * ours / sizes.pairs**2,
        "ratio_to_literal": turns.ratio("literal", "ours"),
        "ratio_to_floor": turns.fastest("ours") / floor,
        "step_ms": 1e3 * ours,
        "literal_step_ms": 1e3 * literal,
        "encoders_ms": 1e3 * encoders,
        "ratio_with_encoders": (literal + encoders) / (ours + encoders),
        "loss": result.loss,
        "gradient_error": result.error(expected),
        **{f"{form}_peak_mb": peak_memory(partial(step_on_random_batch, form, name), sizes) for form in FORMS},
    }


def step_on_random_batch(form: str, name: str, sizes: Sizes) -> Callable[[], object]:
    """A step whose inputs are already made."""
    return partial(training_step, form, random_reranker(name, sizes.width), random_batch(sizes))


def training_rows(
    models: Sequence[str], batches: Sequence[int], sizes: Sizes, rounds: int, rates: MachineRates
) -> Iterator[dict[str, Any]]:
    """A row for every model and size of batch."""
    for pairs in batches:
        for name in models:
            yield training_row(name, replace(sizes, pairs=pairs), rounds, rates)
