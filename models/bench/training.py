"""One training step on hardest negatives, beside the caption loop that scores every pair with gradient.

A step goes from encoded regions and words through scores and the hinge loss back to gradients of regions and words.
Encoders and optimizer are the same for both forms: they are timed apart, and a ratio with them is given too.
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

from models.batches import Regions, Words
from models.bench import data
from models.bench.encoding import Sizes, encoders_step
from models.bench.literal import CaptionLoop
from models.bench.memory import peak_of
from models.bench.timing import Best, in_turns
from models.rerankers.base import Reranker
from models.training.losses import hardest_pairs, hinge

MARGIN = 0.2
FORMS = ("ours", "literal")
MODELS = ("scan-t2i-avg", "scan-i2t-avg", "bfan-prob", "bfan-equal")


class Batch(NamedTuple):
    """Matching pairs, encoded: picture n belongs to sentence n."""

    regions: Regions
    words: Words


class Step(NamedTuple):
    """What a step gives."""

    loss: float
    gradients: tuple[Tensor, Tensor]  # of regions and of words

    def error(self, other: "Step") -> float:
        """Largest difference of a gradient, where 1 is the largest gradient there is."""
        pairs = zip(self.gradients, other.gradients, strict=True)
        return max(float((one - two).abs().max() / two.abs().max()) for one, two in pairs)


def random_batch(sizes: Sizes) -> Batch:
    """A batch whose hardest negatives are inside the margin: all vectors lie around one direction."""
    regions = data.regions(sizes.pairs, sizes.regions, sizes.width)
    words = data.words(torch.full((sizes.pairs,), sizes.words), sizes.width)
    common = data.regions(1, 1, sizes.width).vectors
    return Batch(
        Regions(normalize(regions.vectors + common, dim=2), regions.mask),
        Words(normalize(words.vectors + common, dim=2), words.mask),
    )


def all_pairs_hinge(scores: Float[Tensor, "Q Q"]) -> Float[Tensor, ""]:
    """The authors' loss: the costs of all pairs, of which the largest of each row and column count."""
    own = scores.diagonal()
    itself = torch.eye(len(scores), dtype=torch.bool)
    wrong_image = (MARGIN + scores - own[:, None]).clamp_min(0).masked_fill(itself, 0)
    wrong_sentence = (MARGIN + scores - own).clamp_min(0).masked_fill(itself, 0)
    return wrong_image.amax(1).sum() + wrong_sentence.amax(0).sum()


def step(form: str, reranker: Reranker[Any], batch: Batch) -> Step:
    """`ours`, or the `literal` one."""
    vectors = batch.regions.vectors.clone().requires_grad_()
    said = batch.words.vectors.clone().requires_grad_()
    projected, words = Regions(vectors, batch.regions.mask), Words(said, batch.words.mask)
    if form == "ours":
        same = torch.eye(len(words), dtype=torch.bool)
        loss = hinge(hardest_pairs(reranker, reranker.precompute(projected), words, same), MARGIN)
    else:
        loss = all_pairs_hinge(CaptionLoop(reranker, projected).score(words))
    loss.backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    assert said.grad is not None
    return Step(loss.item(), (vectors.grad, said.grad))


def training_row(name: str, sizes: Sizes, rounds: int, best: Best) -> dict[str, Any]:
    """One model and size of batch."""
    reranker, batch = data.model(name, sizes.width), random_batch(sizes)
    with FlopCounterMode(display=False) as counter:
        found = step("ours", reranker, batch)
    expected = step("literal", reranker, batch)
    forms = {form: partial(step, form, reranker, batch) for form in FORMS}
    turns = in_turns({**forms, "encoders": encoders_step(sizes)}, rounds, warm=True)
    ours, literal, encoders = (turns.usual(form) for form in (*FORMS, "encoders"))
    floor = best.floor(float(counter.get_total_flops()))
    return {
        "model": name,
        "candidates": sizes.pairs,
        "us_per_pair": 1e6 * ours / sizes.pairs**2,
        "ratio_to_literal": turns.ratio("literal", "ours"),
        "ratio_to_floor": turns.best("ours") / floor,
        "step_ms": 1e3 * ours,
        "literal_step_ms": 1e3 * literal,
        "encoders_ms": 1e3 * encoders,
        "ratio_with_encoders": (literal + encoders) / (ours + encoders),
        "loss": found.loss,
        "gradient_error": found.error(expected),
        **{f"{form}_peak_mb": peak_of(partial(prepared, form, name), sizes) for form in FORMS},
    }


def prepared(form: str, name: str, sizes: Sizes) -> Callable[[], object]:
    """A step whose inputs are already there."""
    return partial(step, form, data.model(name, sizes.width), random_batch(sizes))


def training(
    models: Sequence[str], batches: Sequence[int], sizes: Sizes, rounds: int, best: Best
) -> Iterator[dict[str, Any]]:
    """A row for every model and size of batch."""
    for pairs in batches:
        for name in models:
            yield training_row(name, replace(sizes, pairs=pairs), rounds, best)
