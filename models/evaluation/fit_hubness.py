"""Fitting of a matcher's hubness correction: the banks that reveal hubs, and the strength that ranks best.

Pairs are scored once. The nearness of every picture and sentence to the banks is also measured once, as the offsets of
a correction with weights of 1; everything else is arithmetic with these numbers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.metrics import Recalls, image_to_text_ranks, text_to_image_ranks
from models.evaluation.score_matrix import ENCODING_BATCH, encode_in_batches
from models.evaluation.scored_pairs import ScoredPairs
from models.matching.calibration import Calibration
from models.matching.hubness import HubnessConfig, Similarity
from models.matching.hubness_banks import HubnessBanks, VectorBank, spherical_k_means, typical_parts
from models.matching.log_odds import LogOddsModel, Uncalibratable
from models.matching.single_matcher import SingleMatcher
from models.rerankers.attention import l2_normalise, masked_mean

UNFITTED = LogOddsModel(1.0, 0.0)  # for calibrations of which only the hubness correction is used
MOST_TYPICAL = 20_000  # sentences or pictures whose vectors are in memory: 1.1 GB of regions of width 384
SHARES_TRIED = tuple(n / 20 for n in range(21))  # of a full correction, of which the best is taken


class SideWeights(NamedTuple):
    """The weights of a picture's and of a sentence's nearness to the banks."""

    pictures: float
    sentences: float

    def times(self, shares: "SideWeights") -> "SideWeights":
        """These weights, each times its share."""
        return SideWeights(self.pictures * shares.pictures, self.sentences * shares.sentences)


WHOLE = SideWeights(1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class HubnessPlan:
    """Choices of a hubness correction.

    `share` is the strength of the reranker's correction; 0 corrects nothing. With `fit_share` each side instead has the
    share that ranks best; with `stage_one` stage one is corrected too, also by the best shares. `bank_size` is the
    number of typical sentences, and of typical pictures if there are any, each of `parts` vectors.
    """

    share: float = 0.4
    fit_share: bool = False
    similarity: Similarity = "embeddings"
    neighbours: int = 2
    bank_size: int = 160
    parts: int = 1
    stage_one: bool = False

    @property
    def corrects_scores(self) -> bool:
        """Whether the reranker's scores are corrected."""
        return self.share > 0 or self.fit_share

    @property
    def needs_bank(self) -> bool:
        """Whether anything is corrected."""
        return self.corrects_scores or self.stage_one

    @property
    def unit_config(self) -> HubnessConfig:
        """The correction with a weight of 1 for everything that is corrected."""
        weight = float(self.corrects_scores)
        return HubnessConfig(
            image_weight=weight,
            text_weight=weight,
            neighbours=self.neighbours,
            similarity=self.similarity,
            stage_one_weight=1.0,
            stage_one_text_weight=1.0,
        )

    def full_weights(self, scores: Float[Tensor, "Q K"], stage_one: Float[Tensor, "Q K"]) -> SideWeights:
        """The weights of the reranker's correction at a share of 1, from scores of pairs by it and by stage one.

        For cosines of embeddings, the weight gives them the spread of the scores. For scores the weights are 1, but 0.5
        for sentences if typical pictures have one region, since scores with those differ more than with whole pictures.
        """
        if self.similarity == "scores":
            return WHOLE if self.parts > 1 else SideWeights(1.0, 0.5)
        ratio = ratio_of_spreads(scores, stage_one)
        return SideWeights(ratio, ratio)


class Nearness(NamedTuple):
    """The nearness of each picture and each sentence to the banks."""

    pictures: Float[Tensor, " K"]
    sentences: Float[Tensor, " Q"]

    def corrected(self, pairs: ScoredPairs, weights: SideWeights) -> ScoredPairs:
        """The pairs with their scores corrected."""
        offsets = weights.pictures * self.pictures + weights.sentences * self.sentences[:, None]
        return ScoredPairs(pairs.scores - offsets, pairs.image_of)

    def best_shares(self, pairs: ScoredPairs, full: SideWeights, fitted: Int64[Tensor, " F"]) -> SideWeights:
        """The shares of the full weights with the highest rsum on the pictures `fitted`; the smallest of equal ones.

        A picture's offset changes its rank among pictures but not the order of sentences for it, and vice versa, so
        each side's share is found in one direction of search alone.
        """
        chosen = pairs.among(fitted)
        pictures = self.pictures[fitted]
        sentences = self.sentences[(pairs.image_of[:, None] == fitted).any(1), None]

        def recalls_of_pictures(share: float) -> float:
            corrected = chosen.scores - share * full.pictures * pictures
            return summed_recalls(Recalls.of(text_to_image_ranks(corrected, chosen.image_of)))

        def recalls_of_sentences(share: float) -> float:
            corrected = chosen.scores - share * full.sentences * sentences
            return summed_recalls(Recalls.of(image_to_text_ranks(corrected, chosen.image_of)))

        return SideWeights(max(SHARES_TRIED, key=recalls_of_pictures), max(SHARES_TRIED, key=recalls_of_sentences))


def ratio_of_spreads(scores: Float[Tensor, "Q K"], others: Float[Tensor, "Q K"]) -> float:
    """The standard deviation of the scores over all pairs, divided by that of the others.

    Raises Uncalibratable if either is 0 or undefined.
    """
    spreads = [float(values[values.isfinite()].std()) for values in (scores, others)]
    if not min(spreads) > 0:
        raise Uncalibratable("all pictures score alike with all sentences, or stage one finds them alike")
    return spreads[0] / spreads[1]


def summed_recalls(recalls: Recalls) -> float:
    """One direction's part of rsum."""
    return recalls.r1 + recalls.r5 + recalls.r10


@torch.no_grad()
def typical_sentences(matcher: SingleMatcher, sentences: Sequence[str], plan: HubnessPlan, seed: int) -> VectorBank:
    """The bank of typical sentences. Raises ValueError for too few sentences."""
    drawn = sampled_places(len(sentences), plan, seed).tolist()
    batches = encode_in_batches(matcher, [sentences[place] for place in drawn], ENCODING_BATCH)
    return bank_of_groups(((texts.vectors, texts.mask) for _, texts, _ in batches), plan, seed)


@torch.no_grad()
def typical_pictures(matcher: SingleMatcher, data: CaptionedFeatures, plan: HubnessPlan, seed: int) -> VectorBank:
    """The bank of typical pictures, made of their projected regions. Raises ValueError for too few pictures with
    regions."""
    drawn = sampled_places(len(data), plan, seed)
    batches = (data.regions(drawn[rows]).to(matcher.device) for rows in tiles(len(drawn), ENCODING_BATCH))
    projected = (matcher.reranker.project(regions) for regions in batches)
    return bank_of_groups(((regions.vectors, regions.mask) for regions in projected), plan, seed)


def sampled_places(num: int, plan: HubnessPlan, seed: int) -> npt.NDArray[np.int64]:
    """Sorted indices below `num` of the samples for a bank: all, or, if each entry has several vectors, a random choice
    that fits in memory."""
    most = num if plan.parts == 1 else max(MOST_TYPICAL, plan.bank_size)
    return np.sort(np.random.default_rng(seed).permutation(num)[:most])


def bank_of_groups(
    batches: Iterable[tuple[Float[Tensor, "B W D"], Bool[Tensor, "B W"]]], plan: HubnessPlan, seed: int
) -> VectorBank:
    """The bank of groups of similar mean vectors, from batches of padded vectors; empty entries are skipped."""
    means, parts, part_of, count = [], [], [], 0
    for vectors, mask in batches:
        some = mask.any(1)
        means.append(masked_mean(vectors, mask)[some])
        if plan.parts > 1:
            parts.append(vectors[mask].half())
            part_of.append((some.cumsum(0) - 1 + count).repeat_interleave(mask.sum(1)))
        count += int(some.sum())
    centroids = spherical_k_means(torch.cat(means), plan.bank_size, seed)
    if plan.parts == 1:
        return VectorBank.quantise(centroids[:, None])
    group_of = (l2_normalise(torch.cat(means)) @ l2_normalise(centroids).T).argmax(1)
    filled = group_of.bincount(minlength=len(centroids)) > 0  # empty groups are rare
    group_of = (filled.cumsum(0) - 1)[group_of]
    vectors, group_of_vector = torch.cat(parts), group_of[torch.cat(part_of)]
    return VectorBank.quantise(typical_parts(vectors, group_of_vector, int(filled.sum()), plan.parts, seed))


def with_hubness(matcher: SingleMatcher, hubness: HubnessConfig, banks: HubnessBanks) -> SingleMatcher:
    """The matcher with a hubness correction and no fitted probabilities yet."""
    return matcher.with_calibration(Calibration(text=UNFITTED, image=UNFITTED, hubness=hubness), banks)


@torch.no_grad()
def nearness_to_banks(
    matcher: SingleMatcher, data: CaptionedFeatures, plan: HubnessPlan, banks: HubnessBanks
) -> tuple[Nearness, Nearness]:
    """Nearness of all pictures and captions for the reranker and for stage one; both are encoded again."""
    unit = with_hubness(matcher, plan.unit_config, banks)
    width = matcher.embed_dim  # followed by a picture's and a sentence's offset
    pictures, sentences = torch.empty(2, len(data)), torch.empty(2, len(data.sentences()[0]))
    for rows in tiles(len(data), ENCODING_BATCH):
        images, embeddings = unit.encode_regions(data.regions(rows))
        assert images.offset is not None
        pictures[:, rows] = torch.stack([images.offset, -embeddings[:, width]]).cpu()
    for chosen, texts, embeddings in encode_in_batches(unit, data.sentences()[0], ENCODING_BATCH):
        sentences[:, chosen] = torch.stack([texts.offset, -embeddings[:, width + 1]]).cpu()
    return Nearness(pictures[0], sentences[0]), Nearness(pictures[1], sentences[1])


class FittedHubness(NamedTuple):
    """A hubness correction, with the corrected scores of the reranker and of stage one; `by_sentence` are the
    reranker's with only sentences corrected."""

    config: HubnessConfig
    scores: ScoredPairs
    by_sentence: ScoredPairs
    stage_one: ScoredPairs


def fit_hubness(
    matcher: SingleMatcher,
    data: CaptionedFeatures,
    scores: ScoredPairs,
    stage_one: ScoredPairs,
    fitted: Int64[Tensor, " F"],
    plan: HubnessPlan,
    banks: HubnessBanks,
) -> FittedHubness:
    """The planned correction of an uncorrected matcher, fitted on the pictures `fitted`.

    `scores` and `stage_one` are those of all pairs of `data`.
    """
    near, near_stage_one = nearness_to_banks(matcher, data, plan, banks)
    full = plan.full_weights(scores.among(fitted).scores, stage_one.among(fitted).scores)
    shares = near.best_shares(scores, full, fitted) if plan.fit_share else SideWeights(plan.share, plan.share)
    weights = full.times(shares)
    stage_one_shares = near_stage_one.best_shares(stage_one, WHOLE, fitted) if plan.stage_one else SideWeights(0.0, 0.0)
    config = replace(
        plan.unit_config,
        image_weight=weights.pictures,
        text_weight=weights.sentences,
        stage_one_weight=stage_one_shares.pictures,
        stage_one_text_weight=stage_one_shares.sentences,
    )
    return FittedHubness(
        config,
        near.corrected(scores, weights),
        near.corrected(scores, SideWeights(0.0, weights.sentences)),
        near_stage_one.corrected(stage_one, stage_one_shares),
    )
