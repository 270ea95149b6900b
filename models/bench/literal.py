"""The models' scores in their literal form: as their authors compute them, sentence by sentence with all pictures.

Only `regard bench` uses it, to compare with. The padding of each sentence is cut off first, as in the published code;
all regions are assumed to be real.

SCAN and BFAN follow the published code's order of operations: every attended vector is built. CAAN, CAMP and SMAN
follow their papers or published code: nothing is computed before the pair is known, except SMAN's v0 and v1 of each
picture, which need no sentence in its paper either. Sum-Max has no published code; it is the paper's equations 9 and
10 in the same manner. CAMP's two released networks pad every sentence to 50 places, as published.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, normalize, pad

from models.batches import Regions, Words, tiles
from models.rerankers.attention import EPSILON
from models.rerankers.base import Reranker
from models.rerankers.bfan import Bfan
from models.rerankers.caan import Caan
from models.rerankers.camp import Camp
from models.rerankers.camp_released import CampAttention, CampReleased, Messages
from models.rerankers.products import published_products
from models.rerankers.scan import Scan
from models.rerankers.sman import Sman
from models.rerankers.summax import SumMax

NUM_PLACES = 50  # that CAMP's authors pad a sentence to


def repeat_words(sentence: Float[Tensor, "W D"], times: int) -> Float[Tensor, "K W D"]:
    """A copy of the words for every picture."""
    return sentence.unsqueeze(0).repeat(times, 1, 1)


def l2norm(x: Float[Tensor, "K M N"]) -> Float[Tensor, "K M N"]:
    """x / (|x| + 1e-8) along the last axis."""
    return x / (x.pow(2).sum(2, keepdim=True).sqrt() + EPSILON)


def row_cosines(a: Float[Tensor, "K N D"], b: Float[Tensor, "K N D"]) -> Float[Tensor, "K N"]:
    """a . b / (|a| |b|) of the rows along the last axis."""
    lengths: Tensor = a.norm(dim=2) * b.norm(dim=2)
    return (a * b).sum(2) / lengths.clamp_min(EPSILON)


def attended_sum(context: Float[Tensor, "K M D"], weights: Float[Tensor, "K N M"]) -> Float[Tensor, "K N D"]:
    """The weighted sum of the context for every query; inputs and result are transposed, as in the published code."""
    return torch.bmm(context.mT, weights.mT.contiguous()).mT


def normalise_similarities(raw: Float[Tensor, "K M N"], how: str) -> Float[Tensor, "K M N"]:
    """SCAN's first normalisation, over the queries."""
    if how == "softmax":
        return raw.softmax(2)
    clipped = leaky_relu(raw, 0.1) if how.startswith("clipped") else raw
    return l2norm(clipped) if how.endswith("l2norm") else clipped


def scan(model: Scan, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """SCAN, in either direction."""
    config, words = model.config, repeat_words(sentence, len(vectors))
    query, context = (words, vectors) if config.direction == "t2i" else (vectors, words)
    raw = normalise_similarities(torch.bmm(context, query.mT), config.normalisation)
    weights = (config.lambda_softmax * raw.mT.contiguous()).softmax(2)
    relevance = row_cosines(query, attended_sum(context, weights))
    if config.pooling == "LogSumExp":
        exponentials = (config.lambda_lse * relevance).exp()
        scores: Tensor = exponentials.sum(1).log() / config.lambda_lse
        return scores
    pools: dict[str, Callable[[Tensor, int], Tensor]] = {"Max": torch.amax, "Sum": torch.sum, "Mean": torch.mean}
    return pools[config.pooling](relevance, 1)


def summax(model: SumMax, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """Every query's best partner, summed."""
    similarity = torch.bmm(vectors, repeat_words(sentence, len(vectors)).mT)
    over_partners, over_queries = (1, 1) if model.config.direction == "t2i" else (2, 1)
    return similarity.amax(over_partners).sum(over_queries)


def focal_relevance(
    model: Bfan, query: Float[Tensor, "K N D"], context: Float[Tensor, "K M D"]
) -> Float[Tensor, "K N"]:
    """Relevance of every query in one of BFAN's directions; every pair of fragments is compared."""
    raw = torch.bmm(context, query.mT)
    if model.config.similarity == "cosine":
        raw = raw / (context.norm(dim=2)[:, :, None] * query.norm(dim=2)[:, None]).clamp_min(EPSILON)
    else:
        raw = l2norm(leaky_relu(raw, 0.1))
    weights = (model.config.lambda_softmax * raw.mT.contiguous()).softmax(2)
    if model.config.focal == "prob":
        each, other = weights.unsqueeze(3), weights.unsqueeze(2)
        gains = ((each - other) * other.sqrt()).sum(3)
    else:
        gains = weights.shape[2] * weights - weights.sum(2, keepdim=True)
    kept = torch.where(gains > 0, weights, 0)
    return row_cosines(query, attended_sum(context, kept / kept.sum(2, keepdim=True)))


def bfan(model: Bfan, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """BFAN's two directions added."""
    words = repeat_words(sentence, len(vectors))
    return focal_relevance(model, words, vectors).mean(1) + focal_relevance(model, vectors, words).mean(1)


def caan(model: Caan, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """Equations 6 to 17, with both intra-modal affinities built."""
    words = repeat_words(sentence, len(vectors))
    affinity = torch.tanh(torch.bmm(vectors, model.affinity(words).mT))
    positive = leaky_relu(affinity, model.config.slope)
    to_words, to_regions = normalize(positive, dim=1, eps=EPSILON), normalize(positive, dim=2, eps=EPSILON)
    if model.config.intra_modal == "FA":
        regions_alike = torch.bmm(vectors, model.region_alike(vectors).mT)
        words_alike = torch.bmm(words, model.word_alike(words).mT)
    else:
        rows, columns = normalize(to_words, dim=2, eps=EPSILON), normalize(to_regions, dim=1, eps=EPSILON)
        regions_alike, words_alike = torch.bmm(rows, rows.mT), torch.bmm(columns.mT, columns)
    regions = torch.bmm(regions_alike, model.region_intra(vectors)) + torch.bmm(to_words, model.region_inter(words))
    texts = torch.bmm(words_alike, model.word_intra(words)) + torch.bmm(to_regions.mT, model.word_inter(vectors))
    f: Tensor = model.region_weight(regions.tanh()).softmax(1)
    g: Tensor = model.word_weight(texts.tanh()).softmax(1)
    return ((f * vectors).sum(1) * (g * words).sum(1)).sum(1)


def camp(model: Camp, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """The paper's equations 1 to 6 and its sections 3.3 and 3.4."""
    words = repeat_words(sentence, len(vectors))
    region_keys, word_keys = model.region_key(vectors), model.word_key(words)
    affinity = torch.bmm(region_keys, word_keys.mT) / math.sqrt(model.key_width)
    activation = torch.relu if model.config.activation == "relu" else torch.tanh
    sides = []
    for side, own, messages in (
        (model.region_side, vectors, torch.bmm(affinity.softmax(2), words)),
        (model.word_side, words, torch.bmm(affinity.mT.softmax(2), vectors)),
    ):
        gate = torch.sigmoid(own * messages)
        fused = activation(side.fusion(gate * (own + messages))) + own
        weights = (side.pool(fused) / math.sqrt(own.shape[2])).softmax(1)
        sides.append((weights * fused).sum(1))
    scores: Tensor = torch.sigmoid(model.scorer(sides[0] + sides[1])[:, 0])
    return scores


def scaled_attention(
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


def pad_places(sentence: Float[Tensor, "W D"], places: int) -> tuple[Tensor, Bool[Tensor, " P"]]:
    """The words and zeros up to the number of places, and which are words."""
    longer = pad(sentence, (0, 0, 0, max(places - len(sentence), 0)))
    return longer, torch.arange(len(longer), device=sentence.device) < len(sentence)


def messages_of(
    m: Messages, vectors: Float[Tensor, "K R D"], words: Float[Tensor, "K P D"], mask: Bool[Tensor, " P"]
) -> tuple[Float[Tensor, "K R D"], Float[Tensor, "K P D"]]:
    """The messages of regions and of words, after both attentions."""
    to_words = scaled_attention(m.word_query(words), m.region_key(vectors), vectors)
    to_regions = scaled_attention(m.region_query(vectors), m.word_key(words), words, mask)
    return (
        scaled_attention(m.of_words_query(to_regions), m.of_words_key(to_regions), to_regions),
        scaled_attention(m.of_regions_query(to_words), m.of_regions_key(to_words), to_words, mask),
    )


def camp_attention(
    model: CampAttention, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]
) -> Float[Tensor, " K"]:
    """`cross_attention_new`: the cosine of two means over all places."""
    longer, mask = pad_places(sentence, model.config.num_places)
    of_regions, of_words = messages_of(model.messages, vectors, repeat_words(longer, len(vectors)), mask)
    return (l2norm(of_regions.mean(1, keepdim=True)) * l2norm(of_words.mean(1, keepdim=True))).sum((1, 2))


def camp_released(
    model: CampReleased, vectors: Float[Tensor, "K R D"], sentence: Float[Tensor, "W D"]
) -> Float[Tensor, " K"]:
    """`gate_fusion_new`."""
    longer, mask = pad_places(sentence, NUM_PLACES)
    words = repeat_words(longer, len(vectors))
    of_regions, of_words = messages_of(model.messages, vectors, words, mask)
    picture = fuse_side(vectors, l2norm(of_regions), None, model.region_fusion, model.region_pool)
    text = fuse_side(words, l2norm(of_words), mask, model.word_fusion, model.word_pool)
    scores: Tensor = torch.sigmoid(model.scorer(torch.cat([picture, text], 1))[:, 0])
    return scores


def fuse_side(
    own: Float[Tensor, "K N D"],
    messages: Float[Tensor, "K N D"],
    mask: Bool[Tensor, " N"] | None,
    fusion: nn.Module,
    logits: nn.Module,
) -> Float[Tensor, "K D"]:
    """One side fused with its messages and pooled by the mean of several attentions, as unit vectors."""
    gates = (own * messages).sum(2, keepdim=True).sigmoid()
    changed = fusion(gates * torch.cat([own, messages], 2)).relu() + own
    weights = logits(changed)
    if mask is not None:
        weights = weights.masked_fill(~mask[:, None], -1e9)
    branches = torch.bmm(weights.softmax(1).mT, changed)
    return l2norm(branches.mean(1, keepdim=True))[:, 0]


class SmanFirstSteps(NamedTuple):
    """Raw features, and each picture's v0 and v1 from the first two steps."""

    vectors: Float[Tensor, "K R F"]
    whole: Float[Tensor, "K D"]
    own: Float[Tensor, "K D"]

    def __len__(self) -> int:
        return len(self.vectors)


def sman_first_steps(model: Sman, vectors: Float[Tensor, "K R F"]) -> SmanFirstSteps:
    """The two steps that need no sentence in the paper either."""
    mask = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
    images = model.precompute(Regions(vectors, mask))
    return SmanFirstSteps(vectors, images.whole, images.own)


def sman(model: Sman, pictures: SmanFirstSteps, sentence: Float[Tensor, "W D"]) -> Float[Tensor, " K"]:
    """The gates, the last step of attention and the three cosines of every pair."""
    config, vectors = model.config, pictures.vectors
    words = repeat_words(sentence, len(vectors))
    text_whole = words.mean(1)
    step = model.word_first
    logits = step.weight(step.keys(words).tanh() * step.query(text_whole)[:, None].tanh())
    text_own = (logits.softmax(1) * words).sum(1)
    image_gate, text_gate = model.region_gate(pictures.whole + pictures.own), model.word_gate(text_whole + text_own)
    image_query = (config.alpha * image_gate + (1 - config.alpha) * text_gate).sigmoid()
    text_query = (config.alpha * text_gate + (1 - config.alpha) * image_gate).sigmoid()
    step = model.region_second
    logits = step.weight((step.keys(vectors) * step.query(image_query)[:, None].tanh()).tanh())
    share = 1 / vectors.shape[1] if config.divide_by_regions else 1
    image_second = model.region_output_second(share * (logits.softmax(1) * vectors).sum(1)).tanh()
    step = model.word_second
    keys, query = step.keys(words), step.query(text_query)[:, None].tanh()
    hidden = (keys * query).tanh() if config.text_product == "inside" else keys.tanh() * query
    text_second = (step.weight(hidden).softmax(1) * words).sum(1)
    images, texts = (pictures.whole, pictures.own, image_second), (text_whole, text_own, text_second)
    if config.similarity == "concatenation":
        return torch.cosine_similarity(torch.cat(images, 1), torch.cat(texts, 1))
    return torch.stack([torch.cosine_similarity(v, t) for v, t in zip(images, texts, strict=True)]).sum(0)


# Model, its data of K pictures, and the words [W D] of one sentence -> scores [K].
Form = Callable[[Any, Any, Tensor], Tensor]

LITERAL_FORMS: Mapping[type[Reranker[Any]], Form] = {
    Scan: scan,
    SumMax: summax,
    Bfan: bfan,
    Caan: caan,
    Camp: camp,
    CampReleased: camp_released,
    CampAttention: camp_attention,
    Sman: sman,
}


class NoLiteralForm(ValueError):
    """A model without a literal form; the message says where to add one."""


class CaptionLoop:
    """A model's literal form on given pictures, one caption after the other.

    If `block` is set, that many pictures are scored at a time; the published evaluations of SCAN and BFAN use 128.
    """

    def __init__(self, reranker: Reranker[Any], projected: Regions, block: int | None = None) -> None:
        assert projected.mask.all(), "the authors' code knows no padded regions"
        if type(reranker) not in LITERAL_FORMS:
            raise NoLiteralForm(
                f"{type(reranker).__name__} has no form to be compared with: write one in models/bench/literal.py"
                " (docs/adding-a-model.md, step 7)"
            )
        self.reranker, self.form = reranker, LITERAL_FORMS[type(reranker)]
        parts = [projected.vectors[part] for part in tiles(len(projected), block or len(projected))]
        # All forms but SMAN's need only the region vectors of pictures.
        self.pictures = [sman_first_steps(reranker, part) if isinstance(reranker, Sman) else part for part in parts]

    def score(self, words: Words) -> Float[Tensor, "Q K"]:
        """Scores of all sentences, one after the other, with all pictures."""
        rows = []
        with published_products():
            for sentence, mask in zip(words.vectors, words.mask, strict=True):
                rows.append(torch.cat([self.form(self.reranker, part, sentence[mask]) for part in self.pictures]))
        return torch.stack(rows)
