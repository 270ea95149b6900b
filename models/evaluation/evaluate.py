"""Evaluation by the field's protocol: all pairs, and the two stages as they are served."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import half_slices
from models.evaluation.comparison import KeptRanks
from models.evaluation.confidence import bootstrap_intervals, interval_settings, paired_intervals
from models.evaluation.metrics import (
    Recalls,
    Shortlists,
    image_to_text_ranks,
    rsum,
    stage_one_ranks_of_best,
    subtract_numbers,
    text_to_image_ranks,
)
from models.evaluation.score_matrix import encode_in_batches
from models.evaluation.scored_pairs import Direction, ScoredPairs
from models.matching.encoded import EncodedImages
from models.matching.matcher import Matcher

T = TypeVar("T")

SHORTLISTS = (10, 50, 100, 200, 500)
FOLDS = 5
HELD_PICTURES = 2048  # encoded at once: 36 regions of SCAN at width 512 take 160 MB
ASKING: Mapping[str, Direction] = {"text_to_image": "text", "image_to_text": "image"}
RANK_FUNCTIONS = {"text_to_image": text_to_image_ranks, "image_to_text": image_to_text_ranks}
BOTH_DIRECTIONS = tuple(RANK_FUNCTIONS)
TEXT_TO_IMAGE = ("text_to_image",)

Progress = Callable[[str, int, int], object]
"""Called with what is being done, how much of it is, and of how much."""


@torch.no_grad()
def score_all_pairs(
    matcher: Matcher,
    data: CaptionedFeatures,
    batch: int = 256,
    held: int = HELD_PICTURES,
    progress: Progress | None = None,
) -> tuple[ScoredPairs, ScoredPairs]:
    """Scores of every caption with every picture, by the matcher and by stage one, on the matcher's device.

    Encoded are `held` pictures and a batch of captions at a time, however many there are of both. Of all pairs two
    scores are held, or three where short questions have scores of their own.
    """
    matcher.eval()
    sentences, image_of = data.sentences()
    scores, stage_one = torch.empty(2, len(sentences), len(data), device=matcher.device)
    for_pictures = torch.empty_like(scores) if matcher.short_question else None
    done = 0
    for tile in tiles(len(data), held):
        images, image_embeddings = encode_pictures(matcher, data, tile, batch)
        for chosen, texts, embeddings in encode_in_batches(matcher, sentences, batch):
            scores[chosen, tile] = matcher.score_in_blocks(images, texts)
            if for_pictures is not None:
                for_pictures[chosen, tile] = scores[chosen, tile]
                short = texts.words.num_words <= matcher.short_question
                if short.any():
                    answers = matcher.texts_from(texts.words[short], asked=False)
                    for_pictures[chosen[short.cpu()], tile] = matcher.score_in_blocks(images, answers)
            stage_one[chosen, tile] = embeddings @ image_embeddings.T
            done += len(chosen) * len(images)
            if progress is not None:
                progress("scoring pairs", done, scores.numel())
    image_of = image_of.to(matcher.device)
    return ScoredPairs(scores, image_of, for_pictures), ScoredPairs(stage_one, image_of)


def encode_pictures(
    matcher: Matcher, data: CaptionedFeatures, chosen: slice, batch: int
) -> tuple[EncodedImages, Float[Tensor, "K E"]]:
    """Some of the pictures, encoded, and their stage-one embeddings."""
    starts = range(chosen.start, chosen.stop, batch)
    parts = [matcher.encode_regions(data.regions(slice(at, min(at + batch, chosen.stop)))) for at in starts]
    return EncodedImages.cat([images for images, _ in parts]), torch.cat([embeddings for _, embeddings in parts])


def check_feature_width(matcher: Matcher, data: CaptionedFeatures) -> None:
    """ValueError for features that the matcher cannot read."""
    if data.feature_dim != matcher.feature_dim:
        raise ValueError(
            f"{matcher.name} reads features of {matcher.feature_dim} numbers, these have {data.feature_dim}"
        )


def ranks_by_direction(
    pairs: ScoredPairs, shortlists: Shortlists | None = None, directions: Sequence[str] = BOTH_DIRECTIONS
) -> dict[str, np.ndarray]:
    """Direction -> rank of the right answer to every question."""
    return {
        direction: RANK_FUNCTIONS[direction](pairs.of(ASKING[direction]), pairs.image_of, shortlists)
        for direction in directions
    }


def recalls_of_ranks(ranks: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Direction -> recalls, and with both directions their sum; for JSON."""
    recalls = {direction: Recalls.of(own) for direction, own in ranks.items()}
    total = {"rsum": rsum(*recalls.values())} if len(recalls) > 1 else {}
    return {direction: own.as_dict() for direction, own in recalls.items()} | total


def recalls_with_intervals(
    pairs: ScoredPairs, shortlists: Shortlists | None = None, directions: Sequence[str] = BOTH_DIRECTIONS
) -> dict[str, Any]:
    """Direction -> recalls, with their confidence intervals as `interval`; for JSON."""
    ranks = ranks_by_direction(pairs, shortlists, directions)
    return {**recalls_of_ranks(ranks), "interval": bootstrap_intervals(ranks, pictures_of_questions(pairs))}


def pictures_of_questions(pairs: ScoredPairs) -> dict[str, np.ndarray]:
    """Direction -> the picture that each question is about."""
    return {"text_to_image": pairs.image_of.cpu().numpy(), "image_to_text": np.arange(pairs.scores.shape[1])}


def reranker_and_stage_one(
    pairs: ScoredPairs,
    stage_one: ScoredPairs,
    directions: Sequence[str] = BOTH_DIRECTIONS,
    kept: KeptRanks | None = None,
) -> dict[str, Any]:
    """Recalls of the reranker (`exhaustive`) and of its own `stage_one`, both over the whole gallery, and the
    `difference`, which is above 0 where the reranker is better; each with intervals; for JSON. Their ranks are left in
    `kept`."""
    picture_of = pictures_of_questions(pairs)
    ranks = {
        "exhaustive": ranks_by_direction(pairs, None, directions),
        "stage_one": ranks_by_direction(stage_one, None, directions),
    }
    recalls = {search: recalls_of_ranks(own) for search, own in ranks.items()}
    if kept is not None:
        kept.ranks, kept.recalls, kept.picture_of = ranks, dict(recalls), picture_of
    intervals = {search: bootstrap_intervals(own, picture_of) for search, own in ranks.items()}
    intervals["difference"] = paired_intervals(ranks["exhaustive"], ranks["stage_one"], picture_of)
    recalls["difference"] = subtract_numbers(recalls["exhaustive"], recalls["stage_one"])
    return {search: {**own, "interval": intervals[search]} for search, own in recalls.items()}


def recalls_of_halves(pairs: ScoredPairs, stage_one: ScoredPairs) -> dict[str, Any]:
    """`reranker_and_stage_one` of the first and of the second half of the pictures, each a gallery of its own.

    Where something was chosen on the first half, the second one has not seen it.
    """
    report = {}
    for name, pictures in half_slices(pairs.scores.shape[1]).items():
        gallery = torch.arange(pictures.start, pictures.stop, device=pairs.image_of.device)
        own, own_stage_one = pairs.among(gallery), stage_one.among(gallery)
        searches = reranker_and_stage_one(own, own_stage_one)
        report[name] = {"images": len(gallery), "captions": len(own.image_of), **searches}
    return report


def shortlist_recalls(
    pairs: ScoredPairs, stage_one: ScoredPairs, lengths: Sequence[int], directions: Sequence[str] = BOTH_DIRECTIONS
) -> dict[str, dict[str, dict[str, float]]]:
    """The percentage that shortlists keep of the right answers (`shortlist_recall`: of how many questions at least one)
    and of each question's ten best answers by score (`top10_kept`)."""
    right = ranks_by_direction(stage_one, None, directions)
    by_question = {
        direction: (pairs.scores, stage_one.scores)
        if direction == "text_to_image"
        else (pairs.of("image").T, stage_one.scores.T)
        for direction in directions
    }
    best = {direction: stage_one_ranks_of_best(*both) for direction, both in by_question.items()}
    return {
        name: {str(k): {one: 100 * float((ranks[one] < k).mean()) for one in directions} for k in lengths}
        for name, ranks in (("shortlist_recall", right), ("top10_kept", best))
    }


def recalls_of_folds(pairs: ScoredPairs, kept: KeptRanks | None = None) -> dict[str, Any]:
    """Recalls within each of five equal runs of pictures and their own captions, averaged number by number, with
    intervals of the means. Their ranks are left in `kept`, as `fold5`.

    COCO's "1K" results are those of five folds of its 5000 test pictures. ValueError where folds cannot be equal.
    """
    num_pictures = pairs.scores.shape[1]
    size, rest = divmod(num_pictures, FOLDS)
    if rest or not size:
        raise ValueError(f"{num_pictures} pictures do not make {FOLDS} equal folds")
    galleries = torch.arange(num_pictures, device=pairs.image_of.device).reshape(FOLDS, size)
    parts = [ranks_by_direction(pairs.among(gallery)) for gallery in galleries]
    recalls = mean_report([recalls_of_ranks(part) for part in parts])
    picture_of = pictures_of_questions(pairs)
    ranks = {direction: np.empty_like(of) for direction, of in picture_of.items()}
    for direction, of in picture_of.items():
        for fold, part in enumerate(parts):
            ranks[direction][of // size == fold] = part[direction]
    if kept is not None:
        kept.ranks["fold5"], kept.recalls["fold5"], kept.folds["fold5"] = ranks, recalls, FOLDS
    return {**recalls, "interval": bootstrap_intervals(ranks, picture_of, FOLDS)}


def mean_report(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean of every number in reports of the same form."""
    return {
        name: mean_report([report[name] for report in reports])
        if isinstance(value, dict)
        else sum(report[name] for report in reports) / len(reports)
        for name, value in reports[0].items()
    }


def evaluate(
    matcher: Matcher,
    data: CaptionedFeatures,
    shortlists: Sequence[int] = SHORTLISTS,
    fold5: bool = False,
    halves: bool = False,
    progress: Progress | None = None,
    kept: KeptRanks | None = None,
) -> dict[str, Any]:
    """The whole report, for JSON: all pairs scored, stage one alone, two stages for every shortlist length, with
    `fold5` all pairs within five folds, and with `halves` within the first and the second half of the pictures."""
    if not all(data.captions):
        raise ValueError("every picture to evaluate on needs a caption at least")
    check_feature_width(matcher, data)
    pairs, stage_one = score_all_pairs(matcher, data, progress=progress)
    report = report_on_scores(matcher, pairs, stage_one, shortlists, BOTH_DIRECTIONS, progress, kept)
    report |= {"fold5": recalls_of_folds(pairs, kept)} if fold5 else {}
    return report | ({"halves": recalls_of_halves(pairs, stage_one)} if halves else {})


def evaluate_gallery(
    matcher: Matcher,
    data: CaptionedFeatures,
    shortlists: Sequence[int] = SHORTLISTS,
    progress: Progress | None = None,
    kept: KeptRanks | None = None,
) -> dict[str, Any]:
    """The report of searching all pictures of `data` for its sentences, where some pictures have no caption.

    ValueError where none has one.
    """
    if not any(data.captions):
        raise ValueError("no picture has a caption to search for")
    check_feature_width(matcher, data)
    pairs, stage_one = score_all_pairs(matcher, data, progress=progress)
    return report_on_scores(matcher, pairs, stage_one, shortlists, TEXT_TO_IMAGE, progress, kept)


def report_on_scores(
    matcher: Matcher,
    pairs: ScoredPairs,
    stage_one: ScoredPairs,
    shortlists: Sequence[int],
    directions: Sequence[str],
    progress: Progress | None = None,
    kept: KeptRanks | None = None,
) -> dict[str, Any]:
    """The report on a matcher's scores of all pairs."""
    num_pictures = pairs.scores.shape[1]
    lengths = [k for k in shortlists if k <= num_pictures]
    steps = count(1)

    def counted(part: T) -> T:
        if progress is not None:
            progress("computing recalls", next(steps), len(lengths) + 2)
        return part

    return {
        "model": matcher.name,
        "digest": matcher.digest,
        "images": num_pictures,
        "captions": len(pairs.image_of),
        "intervals": interval_settings(),
        **counted(reranker_and_stage_one(pairs, stage_one, directions, kept)),
        "two_stage": {
            str(k): counted(recalls_with_intervals(pairs, Shortlists(stage_one.scores, k), directions)) for k in lengths
        },
        **counted(shortlist_recalls(pairs, stage_one, lengths, directions)),
    }
