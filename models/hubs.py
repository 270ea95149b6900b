"""Hubs: pictures that score high with almost any sentence, and stand before the right ones.

A bank of training sentences tells how high a picture scores anyhow: a share of the mean of its best scores with the
bank is taken off every score of it. That is one number a picture and model, found once when the picture is encoded
and kept in its record. The order of sentences for one picture stays as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.base import Explanation, Reranker, raised, score_in_blocks
from models.rows import Regions, Rows, Tokens, Words

HUBNESS = "hubness"


@dataclass(frozen=True, kw_only=True)
class Hubs:
    """How much is taken off: `share` of the mean of the `best` highest scores with the `bank`'s sentences."""

    share: float
    best: int
    bank: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share:g}, and must be above 0 and at most 1")
        if not 1 <= self.best <= len(self.bank):
            raise ValueError(f"best is {self.best}, and must be 1 to the {len(self.bank)} sentences of the bank")


class HubCorrected(Reranker):
    """A trained reranker's score less the picture's hubness. It adds one number to each encoded picture."""

    def __init__(self, inner: Reranker, tokens: Tokens, hubs: Hubs) -> None:
        """`tokens`: the bank's sentences as the reranker's own vocabulary reads them."""
        super().__init__()
        self.config, self.block, self.projects = inner.config, inner.block, inner.projects  # type: ignore[misc]
        self.inner, self.hubs = inner, hubs
        self.region_encoder, self.sentence_encoder = inner.region_encoder, inner.sentence_encoder
        self.register_buffer("bank_ids", tokens.ids, persistent=False)
        self.register_buffer("bank_mask", tokens.mask, persistent=False)
        self._bank: Words | None = None
        named = [(field.name, Tensor) for field in fields(inner.images_type)]
        kind = make_dataclass("HubCorrectedImages", [*named, (HUBNESS, Tensor)], bases=(Rows,), frozen=True)
        self.images_type = kind  # type: ignore[misc]

    def precompute(self, projected: Regions) -> Rows:
        images = self.inner.precompute(projected)
        return self.images_type(**images.tensors(), **{HUBNESS: self.hubness(images)})

    @torch.no_grad()
    def hubness(self, images: Rows) -> Float[Tensor, " K"]:
        """What is taken off the scores of each of the inner model's encoded pictures."""
        highest = score_in_blocks(self.inner, images, self.bank()).topk(self.hubs.best, dim=0).values
        # A picture without a region may have no score: there is nothing to take off then.
        return torch.nan_to_num(self.hubs.share * highest.mean(0), nan=0.0, posinf=0.0, neginf=0.0)

    def score(self, images: Rows, words: Words) -> Float[Tensor, "Q K"]:
        inner, hubness = self._apart(images)
        return self.inner.score(inner, words) - hubness

    def explain(self, images: Rows, words: Words) -> Explanation:
        """The inner model's reasons; what is taken off is taken off all words alike."""
        inner, hubness = self._apart(images)
        return raised(self.inner.explain(inner, words), -hubness, words)

    @torch.no_grad()
    def bank(self) -> Words:
        """The bank's encoded words. Found when first needed; two threads that come first find the same."""
        bank = self._bank
        if bank is None:
            bank = self.inner.encode_texts(Tokens(self.get_buffer("bank_ids"), self.get_buffer("bank_mask")))
            self._bank = bank
        return bank

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._bank = None  # encoded where the weights were, with what they were
        return super()._apply(change, recurse)  # type: ignore[no-untyped-call]

    def _apart(self, images: Rows) -> tuple[Rows, Float[Tensor, " K"]]:
        tensors = images.tensors()
        hubness = tensors.pop(HUBNESS)
        return self.inner.images_type(**tensors), hubness
