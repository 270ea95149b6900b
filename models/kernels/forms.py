"""The scores that the kernels can compute, each with the options that a reranker sets, and the sentence data that they
read."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from jaxtyping import Bool, Float
from torch import Tensor

from models.batches import Words

BLOCK = 16
"""Columns that kernels compute together, as in source/lanes.h. CAAN, SMAN and the sentence encoder need widths that are
multiples of it, as all published ones are."""
FormLogits = Literal["none", "softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm", "cosine"]
FormFocal = Literal["none", "equal", "prob"]
FormPooling = Literal["Mean", "Sum", "Max", "LogSumExp"]


@dataclass(frozen=True, kw_only=True)
class KernelForm:
    """A score by attention: the sum over one or two directions of the pooled relevances of the attending fragments.

    A relevance is the cosine with the attended vector. With `logits` "none" it is the largest inner product, and of the
    further options only `pooling` is used.
    """

    words_attend: bool = False  # words attend regions
    regions_attend: bool = False  # regions attend words
    logits: FormLogits = "none"  # from inner products to logits, by ScanConfig's names
    bounded: bool = False  # logits are small, so the softmax needs neither maximum nor denominator
    times: float = 1.0  # the factor of the logits
    focal: FormFocal = "none"
    pooling: FormPooling = "Sum"
    sharpness: float = 1.0  # the factor inside LogSumExp

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The fields of a stored record that the kernels read."""
        return ("vectors", "mask") if self.logits == "none" else ("vectors", "gram", "mask")

    def numbers(self) -> tuple[int | float, ...]:
        """The options as the fields of `form` in source/directions.h, in their order."""
        return (
            int(self.words_attend),
            int(self.regions_attend),
            get_args(FormLogits).index(self.logits),
            int(self.bounded),
            get_args(FormFocal).index(self.focal),
            get_args(FormPooling).index(self.pooling),
            self.times,
            self.sharpness,
        )


@dataclass(frozen=True, kw_only=True)
class CaanForm:
    """CAAN's score."""

    slope: float  # of affinities below zero
    intra_modal: bool  # FA instead of SA: intra-modal attention is already in the record and the question
    record_fields: ClassVar[tuple[str, ...]] = ("vectors", "intra", "inter", "mask")


@dataclass(frozen=True)
class CaanQuestion:
    """The words' side of CAAN's pairs, named as in models/rerankers/caan.py, and the weights of its attention."""

    vectors: Float[Tensor, "Q W D"]
    keys: Float[Tensor, "Q W D"]
    intra: Float[Tensor, "Q W Z"]
    inter: Float[Tensor, "Q W Z"]
    mask: Bool[Tensor, "Q W"]
    region_weight: Float[Tensor, " Z"]
    word_weight: Float[Tensor, " Z"]

    def __len__(self) -> int:
        return len(self.mask)


@dataclass(frozen=True, kw_only=True)
class SmanForm:
    """SMAN's score."""

    outside: bool  # the words' product of the second step is outside the tanh
    concatenation: bool  # one cosine of concatenated vectors instead of the sum of three
    record_fields: ClassVar[tuple[str, ...]] = ("keys", "values", "whole", "own", "mask")


@dataclass(frozen=True)
class SmanQuestion:
    """The words' side of SMAN's pairs, named as in models/rerankers/sman.py, and the second step's queries for each
    sentence and scored picture."""

    keys: Float[Tensor, "Q W D"]  # their tanh, if the product is outside it
    values: Float[Tensor, "Q W D"]
    whole: Float[Tensor, "Q D"]
    own: Float[Tensor, "Q D"]
    mask: Bool[Tensor, "Q W"]
    region_queries: Float[Tensor, "Q K D"]  # doubled
    word_queries: Float[Tensor, "Q K D"]  # doubled; times the weights if the product is outside the tanh
    region_weight: Float[Tensor, " D"]
    word_weight: Float[Tensor, " D"]

    def __len__(self) -> int:
        return len(self.mask)


AnyForm = KernelForm | CaanForm | SmanForm
Question = Words | CaanQuestion | SmanQuestion
