"""The scores that the kernels can compute: one score with its options, as a value that a reranker gives."""

from dataclasses import dataclass
from typing import Literal, get_args

FormLogits = Literal["none", "softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm", "cosine"]
FormFocal = Literal["none", "equal", "prob"]
FormPooling = Literal["Mean", "Sum", "Max", "LogSumExp"]


@dataclass(frozen=True, kw_only=True)
class KernelForm:
    """A score that the kernels know: the sum over one or two directions of what pools the relevances of the attending.

    A relevance is the cosine with what is attended to; with `logits` "none" it is the largest inner product, and no
    more of what follows counts than `pooling`.
    """

    words_attend: bool = False  # words attend regions
    regions_attend: bool = False  # regions attend words
    logits: FormLogits = "none"  # how the attention's logits are made of inner products, by the names of ScanConfig
    bounded: bool = False  # exponentials of the logits stay small: the softmax needs neither maximum nor denominator
    times: float = 1.0  # the factor of the logits
    focal: FormFocal = "none"
    pooling: FormPooling = "Sum"
    sharpness: float = 1.0  # the factor inside LogSumExp

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The fields of a picture's stored record that the kernels read."""
        return ("vectors", "mask") if self.logits == "none" else ("vectors", "gram", "mask")

    def numbers(self) -> tuple[int | float, ...]:
        """The options as the fields of `form` in source/kernels.c, in their order."""
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
