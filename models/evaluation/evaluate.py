"""Evaluation by the field's protocol: all pairs, and the two stages as they are served."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.batches import Rows, tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.confidence import described, intervals
from models.evaluation.metrics import (
    Recalls,
    Shortlists,
    image_to_text_ranks,
    places_of_best,
    rsum,
    text_to_image_ranks,
)
from models.evaluation.score_matrix import encoded_sentences
from models.matching.matcher import Matcher
from models.rerankers.base import score_in_blocks

T = TypeVar("T")

SHORTLISTS = (10, 50, 100, 200, 500)
HELD = 2048  # pictures that are held encoded at once: 36 regions of SCAN at width 512 take 160 MB
RANKS = {"text_to_image": text_to_image_ranks, "image_to_text": image_to_text_ranks}
BOTH_WAYS = tuple(RANKS)
ONE_WAY = ("text_to_image",)

Progress = Callable[[str, int, int], object]
"""Called with what is being done, how much of it is, and of how much."""


@torch.no_grad()
def all_pairs(
    matcher: Matcher, data: CaptionedFeatures, batch: int = 256, held: int = HELD, progress: Progress | None = None
) -> tuple[Float[Tensor, "Q K"], Float[Tensor, "Q K"]]:
    """Scores of every caption with every picture, by the reranker and by stage one.

    Encoded are `held` pictures and a batch of captions at a time, however many there are of both.
    """
    matcher.eval()
    sentences, _ = data.sentences()
    scores, stage_one = torch.empty(2, len(sentences), len(data), device=matcher.device)
    done = 0
    for tile in tiles(len(data), held):
        images, image_embeddings = encoded_pictures(matcher, data, tile, batch)
        for chosen, words, embeddings in encoded_sentences(matcher, sentences, batch):
            scores[chosen, tile] = score_in_blocks(matcher.reranker, images, words)
            stage_one[chosen, tile] = embeddings @ image_embeddings.T
            done += len(chosen) * len(images)
            if progress is not None:
                progress("scoring pairs", done, scores.numel())
    return scores, stage_one


def encoded_pictures(
    matcher: Matcher, data: CaptionedFeatures, chosen: slice, batch: int
) -> tuple[Rows, Float[Tensor, "K E"]]:
    """Some of the pictures as the reranker reads them, and their stage-one embeddings."""
    starts = range(chosen.start, chosen.stop, batch)
    parts = [matcher.encode_regions(data.regions(slice(at, min(at + batch, chosen.stop)))) for at in starts]
    images = matcher.reranker.images_type.cat([rows for rows, _ in parts])
    return images, torch.cat([embeddings for _, embeddings in parts])


def ranks_of(
    scores: Float[Tensor, "Q K"],
    image_of: Int64[Tensor, " Q"],
    shortlists: Shortlists | None = None,
    ways: Sequence[str] = BOTH_WAYS,
) -> dict[str, np.ndarray]:
    """Rank of the right answer to every question of each way of asking."""
    return {way: RANKS[way](scores, image_of, shortlists) for way in ways}


def figures(ranks: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Recalls of each way of asking and, where there are both, their sum; for JSON."""
    found = {way: Recalls.of(each) for way, each in ranks.items()}
    total = {"rsum": rsum(*found.values())} if len(found) > 1 else {}
    return {way: each.as_dict() for way, each in found.items()} | total


def recalls(
    scores: Float[Tensor, "Q K"],
    image_of: Int64[Tensor, " Q"],
    shortlists: Shortlists | None = None,
    ways: Sequence[str] = BOTH_WAYS,
) -> dict[str, Any]:
    """The same with what they could have been on other pictures, as `interval`."""
    ranks = ranks_of(scores, image_of, shortlists, ways)
    asked = {"text_to_image": image_of.cpu().numpy(), "image_to_text": np.arange(scores.shape[1])}
    return {**figures(ranks), "interval": intervals(ranks, asked)}


def shortlisting(
    scores: Float[Tensor, "Q K"],
    stage_one: Float[Tensor, "Q K"],
    image_of: Int64[Tensor, " Q"],
    lengths: Sequence[int],
    ways: Sequence[str] = BOTH_WAYS,
) -> dict[str, dict[str, dict[str, float]]]:
    """What shortlists keep, in percent: `shortlist_recall`, of how many questions a right answer; `top10_kept`, how
    much of the ten answers that come first among all."""
    right = ranks_of(stage_one, image_of, None, ways)
    turned = {way: (scores, stage_one) if way == "text_to_image" else (scores.T, stage_one.T) for way in ways}
    best = {way: places_of_best(*both) for way, both in turned.items()}
    return {
        name: {str(k): {way: 100 * float((places[way] < k).mean()) for way in ways} for k in lengths}
        for name, places in (("shortlist_recall", right), ("top10_kept", best))
    }


def folded(scores: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"], folds: int = 5) -> dict[str, Any]:
    """Recalls among each of `folds` equal runs of pictures and their own captions alone, averaged number by number.

    COCO's "1K" results are those of five folds of its 5000 test pictures. ValueError where folds cannot be equal.
    """
    size, rest = divmod(scores.shape[1], folds)
    if rest or not size:
        raise ValueError(f"{scores.shape[1]} pictures do not make {folds} equal folds")
    parts = []
    for fold in range(folds):
        mine = image_of // size == fold
        own = scores[mine, fold * size : (fold + 1) * size]
        parts.append(figures(ranks_of(own, image_of[mine] - fold * size)))
    return averaged(parts)


def averaged(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean of every number in reports of the same form."""
    return {
        name: averaged([report[name] for report in reports])
        if isinstance(value, dict)
        else sum(report[name] for report in reports) / len(reports)
        for name, value in reports[0].items()
    }


def evaluate(
    matcher: Matcher,
    data: CaptionedFeatures,
    shortlists: Sequence[int] = SHORTLISTS,
    fold5: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The whole report, for JSON: all pairs scored, stage one alone, two stages for every shortlist length, and with
    `fold5` all pairs within five folds."""
    if not all(data.captions):
        raise ValueError("every picture to evaluate on needs a caption at least")
    pairs = checked_pairs(matcher, data, progress)
    report = judged(matcher, *pairs, data.sentences()[1], shortlists, BOTH_WAYS, progress)
    return report | ({"fold5": folded(pairs[0], data.sentences()[1].to(matcher.device))} if fold5 else {})


def evaluate_gallery(
    matcher: Matcher,
    data: CaptionedFeatures,
    shortlists: Sequence[int] = SHORTLISTS,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The same of sentences asked among all pictures of `data`, of which some have no caption and only stand there."""
    pairs = checked_pairs(matcher, data, progress)
    return judged(matcher, *pairs, data.sentences()[1], shortlists, ONE_WAY, progress)


def checked_pairs(
    matcher: Matcher, data: CaptionedFeatures, progress: Progress | None = None
) -> tuple[Float[Tensor, "Q K"], Float[Tensor, "Q K"]]:
    """`all_pairs`; ValueError for features that the model cannot read."""
    if data.feature_dim != matcher.encoders.feature_dim:
        wanted = matcher.encoders.feature_dim
        raise ValueError(f"{matcher.name} reads features of {wanted} numbers, these have {data.feature_dim}")
    return all_pairs(matcher, data, progress=progress)


def judged(
    matcher: Matcher,
    scores: Float[Tensor, "Q K"],
    stage_one: Float[Tensor, "Q K"],
    image_of: Int64[Tensor, " Q"],
    shortlists: Sequence[int],
    ways: Sequence[str],
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The report on all pairs of one model."""
    image_of = image_of.to(scores.device)
    lengths = [k for k in shortlists if k <= scores.shape[1]]
    steps = count(1)

    def counted(part: T) -> T:
        if progress is not None:
            progress("computing recalls", next(steps), len(lengths) + 3)
        return part

    return {
        "model": matcher.name,
        "digest": matcher.digest,
        "images": scores.shape[1],
        "captions": len(image_of),
        "intervals": described(),
        "exhaustive": counted(recalls(scores, image_of, ways=ways)),
        "stage_one": counted(recalls(stage_one, image_of, ways=ways)),
        "two_stage": {str(k): counted(recalls(scores, image_of, Shortlists(stage_one, k), ways)) for k in lengths},
        **counted(shortlisting(scores, stage_one, image_of, lengths, ways)),
    }
