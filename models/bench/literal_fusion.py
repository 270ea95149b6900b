"""CAAN, CAMP and SMAN as their papers or published code write them: nothing is done before the pair is known.

CAMP's two released networks pad every sentence to 50 places, as published. Of SMAN's pictures v0 and v1 are given,
which need no sentence in its paper either.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, normalize, pad

from models.batches import Regions
from models.bench.literal_attention import EPSILON, l2norm, repeated
from models.rerankers.caan import Caan
from models.rerankers.camp import Camp
from models.rerankers.camp_released import CampAttention, CampReleased, Messages
from models.rerankers.sman import Sman

NUM_PLACES = 50


def caan(model: Caan, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """Equations 6 to 17, with both intra-modal affinities built."""
    words = repeated(sentence, len(vectors))
    affinity = torch.tanh(torch.bmm(vectors, model.affinity(words).mT))
    positive = leaky_relu(affinity, model.config.slope)
    to_words, to_regions = normalize(positive, dim=1, eps=EPSILON), normalize(positive, dim=2, eps=EPSILON)
    rows, columns = normalize(to_words, dim=2, eps=EPSILON), normalize(to_regions, dim=1, eps=EPSILON)
    regions_alike, words_alike = torch.bmm(rows, rows.mT), torch.bmm(columns.mT, columns)
    regions = torch.bmm(regions_alike, model.region_intra(vectors)) + torch.bmm(to_words, model.region_inter(words))
    said = torch.bmm(words_alike, model.word_intra(words)) + torch.bmm(to_regions.mT, model.word_inter(vectors))
    f: Tensor = model.region_weight(regions.tanh()).softmax(1)
    g: Tensor = model.word_weight(said.tanh()).softmax(1)
    return ((f * vectors).sum(1) * (g * words).sum(1)).sum(1)


def camp(model: Camp, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """The paper's equations 1 to 6 and its sections 3.3 and 3.4."""
    words = repeated(sentence, len(vectors))
    region_keys, word_keys = model.region_key(vectors), model.word_key(words)
    affinity = torch.bmm(region_keys, word_keys.mT) / math.sqrt(model.key_width)
    sides = []
    for side, own, messages in (
        (model.region_side, vectors, torch.bmm(affinity.softmax(2), words)),
        (model.word_side, words, torch.bmm(affinity.mT.softmax(2), vectors)),
    ):
        gate = torch.sigmoid(own * messages)
        fused = side.activation(side.fusion(gate * (own + messages))) + own
        weights = (side.pool(fused) / math.sqrt(own.shape[2])).softmax(1)
        sides.append((weights * fused).sum(1))
    scores: Tensor = torch.sigmoid(model.scorer(sides[0] + sides[1])[:, 0])
    return scores


def attend(
    query: Float[Tensor, "K N D"],
    key: Float[Tensor, "K M D"],
    value: Float[Tensor, "K M D"],
    mask: Bool[Tensor, " M"] | None = None,
) -> Float[Tensor, "K N D"]:
    """softmax(q k' / sqrt(D)) v over the real keys."""
    logits = torch.bmm(query, key.mT) / math.sqrt(query.shape[2])
    if mask is not None:
        logits = logits.masked_fill(~mask, -1e9)
    return torch.bmm(logits.softmax(2), value)


def padded(sentence: Float[Tensor, "W D"], places: int) -> tuple[Tensor, Bool[Tensor, " P"]]:
    """The words and zeros up to the number of places, and which are words."""
    longer = pad(sentence, (0, 0, 0, max(places - len(sentence), 0)))
    return longer, torch.arange(len(longer), device=sentence.device) < len(sentence)


def heard(
    m: Messages, vectors: Float[Tensor, "K R D"], words: Float[Tensor, "K P D"], mask: Bool[Tensor, " P"]
) -> tuple[Float[Tensor, "K R D"], Float[Tensor, "K P D"]]:
    """The messages of regions and of words, after both attentions."""
    to_words = attend(m.word_query(words), m.region_key(vectors), vectors)
    to_regions = attend(m.region_query(vectors), m.word_key(words), words, mask)
    return (
        attend(m.of_words_query(to_regions), m.of_words_key(to_regions), to_regions),
        attend(m.of_regions_query(to_words), m.of_regions_key(to_words), to_words, mask),
    )


def camp_attention(
    model: CampAttention, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]
) -> Float[Tensor, " K"]:
    """`cross_attention_new`: the cosine of two means over all places."""
    longer, mask = padded(sentence, model.config.num_places)
    of_regions, of_words = heard(model.messages, vectors, repeated(longer, len(vectors)), mask)
    return (l2norm(of_regions.mean(1, keepdim=True)) * l2norm(of_words.mean(1, keepdim=True))).sum((1, 2))


def camp_released(
    model: CampReleased, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]
) -> Float[Tensor, " K"]:
    """`gate_fusion_new`."""
    longer, mask = padded(sentence, NUM_PLACES)
    words = repeated(longer, len(vectors))
    of_regions, of_words = heard(model.messages, vectors, words, mask)
    picture = fused(vectors, l2norm(of_regions), None, model.region_fusion, model.region_pool)
    said = fused(words, l2norm(of_words), mask, model.word_fusion, model.word_pool)
    scores: Tensor = torch.sigmoid(model.scorer(torch.cat([picture, said], 1))[:, 0])
    return scores


def fused(
    own: Float[Tensor, "K N D"],
    messages: Float[Tensor, "K N D"],
    mask: Bool[Tensor, " N"] | None,
    fusion: nn.Module,
    logits: nn.Module,
) -> Float[Tensor, "K D"]:
    """One side with what it heard, pooled by the mean of several attentions, as unit vectors."""
    gates = (own * messages).sum(2, keepdim=True).sigmoid()
    changed = fusion(gates * torch.cat([own, messages], 2)).relu() + own
    weights = logits(changed)
    if mask is not None:
        weights = weights.masked_fill(~mask[:, None], -1e9)
    branches = torch.bmm(weights.softmax(1).mT, changed)
    return l2norm(branches.mean(1, keepdim=True))[:, 0]


class SmanPictures(NamedTuple):
    """Raw features and what the first two steps give of each picture, v0 and v1."""

    vectors: Float[Tensor, "K R F"]
    whole: Float[Tensor, "K D"]
    own: Float[Tensor, "K D"]

    def __len__(self) -> int:
        return len(self.vectors)


def sman_pictures(model: Sman, vectors: Float[Tensor, "K R F"]) -> SmanPictures:
    """The steps that need no sentence in the paper either."""
    images = model.precompute(Regions(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool)))
    return SmanPictures(vectors, images.whole, images.own)


def sman(model: Sman, pictures: SmanPictures, sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """The gates, the last step of attention and three cosines, of every pair."""
    config, vectors = model.config, pictures.vectors
    words = repeated(sentence, len(vectors))
    said_whole = words.mean(1)
    step = model.word_first
    logits = step.weight(step.keys(words).tanh() * step.query(said_whole)[:, None].tanh())
    said_own = (logits.softmax(1) * words).sum(1)
    image_gate, text_gate = model.region_gate(pictures.whole + pictures.own), model.word_gate(said_whole + said_own)
    image_query = (config.alpha * image_gate + (1 - config.alpha) * text_gate).sigmoid()
    text_query = (config.alpha * text_gate + (1 - config.alpha) * image_gate).sigmoid()
    step = model.region_second
    logits = step.weight((step.keys(vectors) * step.query(image_query)[:, None].tanh()).tanh())
    share = 1 / vectors.shape[1] if config.divide_by_regions else 1
    seen = model.region_output_second(share * (logits.softmax(1) * vectors).sum(1)).tanh()
    step = model.word_second
    keys, asked = step.keys(words), step.query(text_query)[:, None].tanh()
    hidden = (keys * asked).tanh() if config.text_product == "inside" else keys.tanh() * asked
    said = (step.weight(hidden).softmax(1) * words).sum(1)
    images, texts = (pictures.whole, pictures.own, seen), (said_whole, said_own, said)
    if config.similarity == "concatenation":
        return torch.cosine_similarity(torch.cat(images, 1), torch.cat(texts, 1))
    return torch.stack([torch.cosine_similarity(v, t) for v, t in zip(images, texts, strict=True)]).sum(0)
