"""The same scores as the papers' authors compute them: sentence by sentence, all pictures of a batch at once.

What `regard bench` measures against, and nothing else uses. Padding of a sentence is cut off before its turn, as in the
published code; regions are taken to be real, all of them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import Regions, Words, tiles
from models.bench.literal_attention import bfan, scan, summax
from models.bench.literal_fusion import caan, camp, camp_attention, camp_released, sman, sman_pictures
from models.rerankers.base import Reranker
from models.rerankers.bfan import Bfan
from models.rerankers.caan import Caan
from models.rerankers.camp import Camp
from models.rerankers.camp_released import CampAttention, CampReleased
from models.rerankers.scan import Scan
from models.rerankers.sman import Sman
from models.rerankers.summax import SumMax

# Model, what it needs of K pictures and the words [W D] of one sentence -> scores [K].
Form = Callable[[Any, Any, Tensor], Tensor]

FORMS: Mapping[type[Reranker[Any]], Form] = {
    Scan: scan,
    SumMax: summax,
    Bfan: bfan,
    Caan: caan,
    Camp: camp,
    CampReleased: camp_released,
    CampAttention: camp_attention,
    Sman: sman,
}


class CaptionLoop:
    """A model's scores in its authors' form, for given pictures.

    `block` pictures are scored at a time where it is given; the published evaluations of SCAN and BFAN have 128.
    """

    def __init__(self, reranker: Reranker[Any], projected: Regions, block: int | None = None) -> None:
        assert projected.mask.all(), "the authors' code knows no padded regions"
        self.reranker, self.form = reranker, FORMS[type(reranker)]
        parts = [projected.vectors[part] for part in tiles(len(projected), block or len(projected))]
        # Vectors of regions are all that a form needs of pictures, except SMAN's.
        self.pictures = [sman_pictures(reranker, part) if isinstance(reranker, Sman) else part for part in parts]

    def score(self, words: Words) -> Float[Tensor, "Q K"]:
        """Scores of all sentences, one after the other, with all pictures."""
        rows = []
        for sentence, mask in zip(words.vectors, words.mask, strict=True):
            rows.append(torch.cat([self.form(self.reranker, part, sentence[mask]) for part in self.pictures]))
        return torch.stack(rows)
