"""The initial narrow map of words: the directions in which sentences differ most."""

from collections.abc import Sequence
from itertools import chain, islice

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.matching.single_matcher import SingleMatcher
from models.rerankers.attention import masked_mean
from models.rerankers.encoders import PretrainedSentenceEncoder, RawRegionEncoder
from models.text.pretrained_reader import PretrainedReader

_MOST_SENTENCES = 5000
_SENTENCES_AT_ONCE = 256


def start_maps(matcher: SingleMatcher, train: CaptionedFeatures, principal: bool) -> None:
    """Initialise all maps out of a pretrained text encoder's space as the map of words, if features lie in it too.

    With `principal`, the map of words starts as the principal directions of the training captions.
    """
    reranker, reader = matcher.reranker, matcher.reader
    assert isinstance(reranker.sentence_encoder, PretrainedSentenceEncoder)
    assert isinstance(reader, PretrainedReader)
    words = reranker.sentence_encoder.fc.weight.detach()
    if principal and len(words) < reader.state_dim:
        sentences = islice(chain.from_iterable(train.captions), _MOST_SENTENCES)
        words = principal_directions(mean_states(reader, list(sentences)), len(words))
    reranker.start_as(words)
    if isinstance(matcher.pooled.image, nn.Linear) and isinstance(matcher.pooled.text, nn.Identity):
        assert isinstance(reranker.region_encoder, RawRegionEncoder)
        matcher.pooled.image.load_state_dict({"weight": reranker.region_encoder.map_like(words)})


@torch.no_grad()
def mean_states(reader: PretrainedReader, sentences: Sequence[str]) -> Float[Tensor, "N S"]:
    """Each sentence's mean state."""
    batches = (reader.encode(sentences[tile]) for tile in tiles(len(sentences), _SENTENCES_AT_ONCE))
    return torch.cat([masked_mean(words.vectors, words.mask) for words in batches]).cpu()


def principal_directions(vectors: Float[Tensor, "N S"], num: int) -> Float[Tensor, "num S"]:
    """Orthonormal rows for projection with the least squared error (Pearson 1901), most important first.

    The vectors' mean is not subtracted, since it counts in a cosine too.
    """
    directions: Tensor = torch.linalg.eigh((vectors.T @ vectors).double()).eigenvectors
    return directions.flip(1)[:, :num].T.to(vectors.dtype).contiguous()
