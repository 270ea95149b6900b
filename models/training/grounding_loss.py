"""A loss that makes words attend to the regions whose concepts they name.

It turns the alignment of detector labels with words by their vectors (Wang and Specia, ICCV 2019) into a loss: for a
word whose cosine stands out for a region of its picture, the cross entropy between

    target      softmax over regions of  cosine(concepts of region i, word) / SHARPNESS
    attention   softmax over regions of  cosine(v_i, e_j) / ATTENTION

with v_i and e_j the model's vectors of region and word, on whose similarity every model's attention is based (the
temperatures are decided here). The whole picture, the first region, is not a location and is excluded.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import log_softmax, normalize, softmax

from models.batches import Regions, Words
from models.training.concept_words import STANDS_OUT, ConceptWords

SHARPNESS, ATTENTION = 0.05, 0.05


def grounding_loss(
    concept_words: ConceptWords, raw: Regions, projected: Regions, words: Words, tokens: Sequence[Sequence[str]]
) -> Float[Tensor, ""]:
    """The mean over all words of Q matching pairs that name what a region shows; 0 if there are none.

    `raw` are the extracted regions, with concept vectors at the end; `tokens` are the words of the rows of `words`.
    Regions and words must be vectors of one space, which SMAN's are not.
    """
    evidence = concept_words.standing_out(raw.vectors[:, 1:, -concept_words.concept_dim :].cpu(), tokens)
    evidence = evidence.masked_fill(~raw.mask[:, None, 1:].cpu(), -torch.inf).to(words.vectors.device)
    names = evidence.amax(2) >= STANDS_OUT
    if not names.any():
        return words.vectors.sum() * 0
    similarities = normalize(words.vectors, dim=2) @ normalize(projected.vectors[:, 1:], dim=2).transpose(1, 2)
    attention = (similarities / ATTENTION).masked_fill(~raw.mask[:, None, 1:], -torch.inf)
    target = softmax(evidence[names] / SHARPNESS, 1)
    return -(target * log_softmax(attention[names], 1)).nan_to_num(0).sum(1).mean()
