"""Explanations of pairs as plain values, with the words and boxes that they refer to."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from models.rerankers.base import Explanation
from models.text.vocabulary import SPECIALS
from service.search.results import PairExplanation, ScoredWord
from service.storage.regions.records import PictureRegions

DIGITS = 6  # of weights; contributions stay whole, since they add up to the score
SHARE_DIGITS = 10  # keeps the error of a sum over 10 000 pairs below 1e-6


def explain_pair(
    explanation: Explanation, q: int, k: int, tokens: Sequence[str], picture: PictureRegions
) -> PairExplanation:
    """The explanation of the score of sentence `q`, whose unpadded words are `tokens`, with picture `k` of a batch."""
    words, real = slice(len(tokens)), np.flatnonzero(picture.mask)
    attention = _of_pair(explanation.attention, q, k)
    contributions = _of_pair(explanation.contributions, q, k)
    shares = _of_pair(explanation.shares, q, k)
    word_weights = _of_pair(explanation.word_weights, q, k)
    region_weights = _of_pair(explanation.region_weights, q, k)
    return PairExplanation(
        kind=explanation.kind,
        words=[ScoredWord(token, token in SPECIALS) for token in tokens],
        regions=picture.regions,
        contributions=None if contributions is None else contributions[words].tolist(),
        attention=_rounded(None if attention is None else attention[words][:, real]),
        shares=_rounded(None if shares is None else shares[words][:, real], SHARE_DIGITS),
        word_weights=_rounded(None if word_weights is None else word_weights[words]),
        region_weights=_rounded(None if region_weights is None else region_weights[real]),
    )


def _of_pair(values: Tensor | None, q: int, k: int) -> npt.NDArray[np.float64] | None:
    return None if values is None else values[q, k].double().cpu().numpy()


def _rounded(values: npt.NDArray[np.float64] | None, digits: int = DIGITS) -> Any:
    return None if values is None else values.round(digits).tolist()
