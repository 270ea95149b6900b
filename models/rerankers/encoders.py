"""Encoders of raw region features and of sentences into the vectors that the models attend to.

A sentence is word ids for a recurrent network that is trained with the model (`text="gru"`), or word states of a frozen
pretrained encoder (`text="pretrained"`) with a trained linear map or recurrent network (`recurrent`) above them. With a
linear map, the last `concept_dim` numbers of a region's feature may be a vector in the space of those states; then a
region f, c is encoded as W f + W_c c + b, where W_c starts as a copy of the words' map and W f small. So before the
first step, regions and words are compared by the pretrained encoder's similarity.

With `aligned`, f is also a vector in that space, and the first region of a picture is the whole picture: then a region
is W f + W_0 f_0 + W_c c + b, where f_0 is the whole picture's, and all three maps start as that of words. The whole
picture's term is equal for all regions: it helps to find the picture, and leaves each region its own content. A model
whose layers read features directly reads f + f_0, c.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.batches import Regions, Tokens, Words
from models.rerankers.attention import l2_normalise
from models.rerankers.base import OMITTED_BY_DEFAULT
from models.rerankers.products import Linear

SMALL_START = 0.01  # scale of the initial map of features beside concepts, relative to the default


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes, normalisation and dropout of the two encoders; the defaults are the SCAN paper's."""

    num_words: int
    feature_dim: int = 2048
    word_dim: int = 300
    width: int = 1024
    bidirectional: bool = True
    unit_regions: bool | None = None  # None: as in the model's paper, which is True except for CAMP and SMAN
    unit_words: bool | None = None
    feature_dropout: float = 0.0
    word_dropout: float = 0.0
    region_dropout: float = 0.0  # chance that a region is left out of a training step
    # With pretrained text `num_words` and `word_dim` are not used.
    text: Literal["gru", "pretrained"] = field(default="gru", metadata=OMITTED_BY_DEFAULT)
    recurrent: bool = field(default=False, metadata=OMITTED_BY_DEFAULT)  # a GRU reads the states; else a linear map
    state_dim: int = field(default=384, metadata=OMITTED_BY_DEFAULT)  # of a pretrained encoder's states
    concept_dim: int = field(default=0, metadata=OMITTED_BY_DEFAULT)  # of the vector at the end of a region's feature
    aligned: bool = field(default=False, metadata=OMITTED_BY_DEFAULT)  # the whole feature is in the states' space
    # A factor of the words' map: the concepts' initial map.
    concept_start: float = field(default=1.0, metadata=OMITTED_BY_DEFAULT)

    def __post_init__(self) -> None:
        """Raise ValueError if concept or aligned vectors do not fit the text encoder."""
        if self.concept_dim and (self.text == "gru" or self.concept_dim != self.state_dim):
            raise ValueError(
                f"concept vectors of {self.concept_dim} numbers need pretrained text with states of as many, not"
                f" {f'{self.state_dim}' if self.text == 'pretrained' else 'a GRU'}"
            )
        if self.aligned and (self.text == "gru" or self.feature_dim - self.concept_dim != self.state_dim):
            raise ValueError(
                f"aligned vectors are in the space of pretrained text, and have {self.state_dim} numbers: these, with"
                f" {self.feature_dim - self.concept_dim}, were not made by a sentence map, or the text is a GRU's"
            )
        if self.recurrent and (self.text == "gru" or self.concept_dim or self.aligned):
            raise ValueError(
                "a GRU of states needs pretrained text, and no concepts or aligned vectors, with which it shares no map"
            )
        if self.concept_dim >= self.feature_dim:
            raise ValueError(f"a feature of {self.feature_dim} numbers cannot end in {self.concept_dim} of a concept")

    @property
    def has_unit_regions(self) -> bool:
        """Whether region vectors are normalised to unit length."""
        return self.unit_regions is not False

    @property
    def has_unit_words(self) -> bool:
        """Whether word vectors are normalised to unit length."""
        return self.unit_words is not False

    def without_default_norms(self) -> "EncoderConfig":
        """The config of a model whose paper does not normalise: `unit_*` that are None become False."""
        return replace(self, unit_regions=bool(self.unit_regions), unit_words=bool(self.unit_words))


def drop_regions(mask: Bool[Tensor, "K R"], chance: float) -> Bool[Tensor, "K R"]:
    """A mask that drops each region with that probability; a picture that would lose all keeps all."""
    if chance == 0:
        return mask
    kept = mask & (torch.rand(mask.shape, device=mask.device) >= chance)
    return torch.where(kept.any(1, keepdim=True), kept, mask)


def rnn_outputs(rnn: nn.RNNBase, vectors: Float[Tensor, "Q W D"], mask: Bool[Tensor, "Q W"]) -> Float[Tensor, "Q W H"]:
    """Outputs of a recurrent network, directions concatenated; zeros where padded."""
    # Packing keeps the backward direction from reading the padding first.
    packed = pack_padded_sequence(vectors, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    outputs, _ = pad_packed_sequence(rnn(packed)[0], batch_first=True, total_length=mask.shape[1])
    return outputs


def gru_vectors(gru: nn.GRU, vectors: Float[Tensor, "Q W D"], mask: Bool[Tensor, "Q W"]) -> Float[Tensor, "Q W H"]:
    """Outputs of a GRU; of a bidirectional one, the mean of both directions."""
    outputs = rnn_outputs(gru, vectors, mask)
    if not gru.bidirectional:
        return outputs
    forward, backward = outputs.chunk(2, dim=2)
    return (forward + backward) / 2


class RegionEncoder(nn.Module):
    """Linear projection of each region's feature, and of its concept if any, then (by default) unit length."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.concept_dim = config.concept_dim
        self.fc = Linear(config.feature_dim - config.concept_dim, config.width)
        nn.init.xavier_uniform_(self.fc.weight, gain=SMALL_START if config.concept_dim else 1)
        nn.init.zeros_(self.fc.bias)
        if config.concept_dim:
            self.concepts = Linear(config.concept_dim, config.width, bias=False)
        self.aligned, self.concept_start = config.aligned, config.concept_start
        if config.aligned:
            self.context = Linear(config.state_dim, config.width, bias=False)
        self.dropout = nn.Dropout(config.feature_dropout)
        self.region_dropout = config.region_dropout
        self.unit = config.has_unit_regions

    def forward(self, regions: Regions) -> Regions:
        features = self.dropout(regions.vectors)
        without_concepts = features[..., : features.shape[-1] - self.concept_dim]
        vectors = self.fc(without_concepts)
        if self.concept_dim:
            vectors = vectors + self.concepts(features[..., without_concepts.shape[-1] :])
        if self.aligned:
            vectors = vectors + self.context(without_concepts[:, :1])
        mask = drop_regions(regions.mask, self.region_dropout) if self.training else regions.mask
        return Regions(l2_normalise(vectors) if self.unit else vectors, mask)

    def start_as(self, words: Float[Tensor, "D S"]) -> None:
        """Initialise the maps from the space of words' states as `words`, the map of the words."""
        if self.concept_dim:
            self.concepts.load_state_dict({"weight": words * self.concept_start})
        if self.aligned:
            self.context.load_state_dict({"weight": words})
            self.fc.load_state_dict({"weight": words, "bias": torch.zeros(len(words))})


class SentenceEncoder(nn.Module):
    """Word vectors through a GRU; both directions' outputs averaged, then (by default) unit length."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.num_words, config.word_dim)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        self.rnn = nn.GRU(config.word_dim, config.width, batch_first=True, bidirectional=config.bidirectional)
        self.dropout = nn.Dropout(config.word_dropout)
        self.unit = config.has_unit_words

    def forward(self, tokens: Tokens) -> Words:
        vectors = gru_vectors(self.rnn, self.dropout(self.embed(tokens.ids)), tokens.mask)
        return Words(l2_normalise(vectors) if self.unit else vectors, tokens.mask)


class RecurrentStateEncoder(nn.Module):
    """States of words through a GRU; both directions' outputs averaged, then (by default) unit length."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.rnn = nn.GRU(config.state_dim, config.width, batch_first=True, bidirectional=config.bidirectional)
        self.dropout = nn.Dropout(config.word_dropout)
        self.unit = config.has_unit_words

    def forward(self, states: Words) -> Words:
        vectors = gru_vectors(self.rnn, self.dropout(states.vectors), states.mask)
        return Words(l2_normalise(vectors) if self.unit else vectors, states.mask)


class PretrainedSentenceEncoder(nn.Module):
    """States of words through one linear layer, then (by default) unit length.

    The layer starts as a random map that preserves lengths: of all states if it is wide enough, else on average.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.fc = nn.Linear(config.state_dim, config.width)
        nn.init.orthogonal_(self.fc.weight, gain=math.sqrt(max(1, config.state_dim / config.width)))
        nn.init.zeros_(self.fc.bias)
        self.dropout = nn.Dropout(config.word_dropout)
        self.unit = config.has_unit_words

    def forward(self, states: Words) -> Words:
        vectors = self.fc(self.dropout(states.vectors))
        return Words(l2_normalise(vectors) if self.unit else vectors, states.mask)

    def start_as(self, words: Float[Tensor, "D S"]) -> None:
        """Initialise the layer as the map `words`."""
        self.fc.load_state_dict({"weight": words, "bias": torch.zeros(len(words))})


def build_state_encoder(config: EncoderConfig) -> RecurrentStateEncoder | PretrainedSentenceEncoder:
    """A new encoder of the states of words."""
    return RecurrentStateEncoder(config) if config.recurrent else PretrainedSentenceEncoder(config)


def build_encoders(
    config: EncoderConfig,
) -> tuple[RegionEncoder, SentenceEncoder | RecurrentStateEncoder | PretrainedSentenceEncoder]:
    """New encoders of regions and of sentences; maps from the states' space start as that of words."""
    region_encoder = RegionEncoder(config)
    if config.text == "gru":
        return region_encoder, SentenceEncoder(config)
    sentence_encoder = build_state_encoder(config)
    if isinstance(sentence_encoder, PretrainedSentenceEncoder):
        region_encoder.start_as(sentence_encoder.fc.weight.detach())
    return region_encoder, sentence_encoder


class RawRegionEncoder(nn.Module):
    """Region features without a projection, for a model whose layers read them directly.

    The whole picture's feature is added to those of aligned regions.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.own_dim, self.concept_dim = config.feature_dim - config.concept_dim, config.concept_dim
        self.aligned, self.concept_start = config.aligned, config.concept_start
        self.dropout = nn.Dropout(config.feature_dropout)
        self.region_dropout = config.region_dropout
        self.unit = config.has_unit_regions

    def forward(self, regions: Regions) -> Regions:
        vectors = self.dropout(regions.vectors)
        if self.aligned:
            own, concepts = vectors.tensor_split((self.own_dim,), dim=2)
            vectors = torch.cat([own + own[:, :1], concepts], 2)
        mask = drop_regions(regions.mask, self.region_dropout) if self.training else regions.mask
        return Regions(l2_normalise(vectors) if self.unit else vectors, mask)

    def start_as(self, words: Float[Tensor, "D S"]) -> None:
        """Do nothing, since there is no map."""

    def map_like(self, words: Float[Tensor, "D S"]) -> Float[Tensor, "D F"]:
        """The map of whole features that maps aligned regions and their concepts like `words` maps words."""
        return torch.cat([words, self.concept_start * words[:, : self.concept_dim]], 1)


class LstmSentenceEncoder(nn.Module):
    """Word vectors through an LSTM; both directions' outputs added or averaged."""

    def __init__(self, config: EncoderConfig, directions: Literal["sum", "mean"]) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.num_words, config.word_dim)
        nn.init.xavier_uniform_(self.embed.weight)
        self.rnn = nn.LSTM(config.word_dim, config.width, batch_first=True, bidirectional=config.bidirectional)
        self.dropout = nn.Dropout(config.word_dropout)
        self.directions = directions
        self.unit = config.has_unit_words

    def forward(self, tokens: Tokens) -> Words:
        outputs = rnn_outputs(self.rnn, self.dropout(self.embed(tokens.ids)), tokens.mask)
        each = outputs.view(*tokens.ids.shape, -1, self.rnn.hidden_size)
        vectors = each.sum(2) if self.directions == "sum" else each.mean(2)
        return Words(l2_normalise(vectors) if self.unit else vectors, tokens.mask)
