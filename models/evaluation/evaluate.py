"""Evaluation by the field's protocol: all pairs, and the two stages as in the service."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import half_slices
from models.evaluation.confidence import interval_settings
from models.evaluation.metrics import Shortlists, stage_one_ranks_of_best
from models.evaluation.ranks import BOTH_DIRECTIONS, Ranks
from models.evaluation.score_matrix import encode_in_batches
from models.evaluation.scored_pairs import ScoredPairs
from models.matching.encoded import EncodedImages
from models.matching.matcher import Matcher

T = TypeVar("T")

SHORTLISTS = (10, 50, 100, 200, 500)
HELD_PICTURES = 2048  # encoded at once: 36 regions of SCAN at width 512 take 160 MB
TEXT_TO_IMAGE = ("text_to_image",)

Progress = Callable[[str, int, int], object]
"""Called with the name of the current work, the amount done and the total."""


@torch.no_grad()
def score_all_pairs(
    matcher: Matcher,
    data: CaptionedFeatures,
    batch: int = 256,
    held: int = HELD_PICTURES,
    progress: Progress | None = None,
) -> tuple[ScoredPairs, ScoredPairs]:
    """Scores of every caption with every picture, by the matcher and by stage one, on the matcher's device.

    At most `held` pictures and a batch of captions are encoded at a time. In memory are two scores of every pair, or
    three if short questions have separate scores.
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
    """Some of the pictures, encoded, with their stage-one embeddings."""
    starts = range(chosen.start, chosen.stop, batch)
    parts = [matcher.encode_regions(data.regions(slice(at, min(at + batch, chosen.stop)))) for at in starts]
    return EncodedImages.cat([images for images, _ in parts]), torch.cat([embeddings for _, embeddings in parts])


def check_feature_width(matcher: Matcher, data: CaptionedFeatures) -> None:
    """Raise ValueError for features that the matcher cannot read."""
    if data.feature_dim != matcher.feature_dim:
        raise ValueError(
            f"{matcher.name} reads features of {matcher.feature_dim} numbers, these have {data.feature_dim}"
        )


def ranks_of_both_stages(
    pairs: ScoredPairs, stage_one: ScoredPairs, directions: Sequence[str] = BOTH_DIRECTIONS
) -> dict[str, Ranks]:
    """The ranks by the reranker (`exhaustive`) and by its own `stage_one`, both over the whole gallery."""
    return {
        search: Ranks.of(scored, None, directions)
        for search, scored in (("exhaustive", pairs), ("stage_one", stage_one))
    }


def report_on_both_stages(ranks: Mapping[str, Ranks]) -> dict[str, Any]:
    """Recalls of both stages and their `difference`, which is positive if the reranker is better; with intervals, for
    JSON."""
    exhaustive, stage_one = ranks["exhaustive"], ranks["stage_one"]
    difference = exhaustive.minus(stage_one)
    return {"exhaustive": exhaustive.report(), "stage_one": stage_one.report(), "difference": difference}


def recalls_of_halves(pairs: ScoredPairs, stage_one: ScoredPairs) -> dict[str, Any]:
    """`report_on_both_stages` for the first and for the second half of the pictures, each a gallery of its own.

    The second half is for choices that were made on the first.
    """
    report = {}
    for name, pictures in half_slices(pairs.scores.shape[1]).items():
        gallery = torch.arange(pictures.start, pictures.stop, device=pairs.image_of.device)
        half, half_stage_one = pairs.among(gallery), stage_one.among(gallery)
        searches = report_on_both_stages(ranks_of_both_stages(half, half_stage_one))
        report[name] = {"images": len(gallery), "captions": len(half.image_of), **searches}
    return report


def shortlist_recalls(
    pairs: ScoredPairs, stage_one: ScoredPairs, lengths: Sequence[int], directions: Sequence[str] = BOTH_DIRECTIONS
) -> dict[str, dict[str, dict[str, float]]]:
    """The percentage of questions of which shortlists keep a right answer (`shortlist_recall`), and of each question's
    ten best answers by score that they keep (`top10_kept`)."""
    right = Ranks.of(stage_one, None, directions).by_direction
    by_question = {
        direction: (pairs.scores, stage_one.scores)
        if direction == "text_to_image"
        else (pairs.of("image").T, stage_one.scores.T)
        for direction in directions
    }
    best = {direction: stage_one_ranks_of_best(*both) for direction, both in by_question.items()}
    return {
        name: {str(k): {way: 100 * float((ranks[way] < k).mean()) for way in directions} for k in lengths}
        for name, ranks in (("shortlist_recall", right), ("top10_kept", best))
    }


class Evaluation(NamedTuple):
    """The report of an evaluation, and the ranks behind its recalls."""

    report: dict[str, Any]
    """For JSON."""
    ranks: dict[str, Ranks]
    """Search (`exhaustive`, `stage_one`, `fold5`) -> its ranks."""


def evaluate(
    matcher: Matcher,
    data: CaptionedFeatures,
    shortlists: Sequence[int] = SHORTLISTS,
    fold5: bool = False,
    halves: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """The whole evaluation: all pairs scored, stage one alone, two stages for every shortlist length, with
    `fold5` all pairs within five folds, and with `halves` within the first and the second half of the pictures."""
    if not all(data.captions):
        raise ValueError("every picture to evaluate on needs a caption at least")
    check_feature_width(matcher, data)
    pairs, stage_one = score_all_pairs(matcher, data, progress=progress)
    report, ranks = evaluate_scores(matcher, pairs, stage_one, shortlists, BOTH_DIRECTIONS, progress)
    if fold5:
        ranks["fold5"] = Ranks.in_folds(pairs)
        report["fold5"] = ranks["fold5"].report()
    if halves:
        report["halves"] = recalls_of_halves(pairs, stage_one)
    return Evaluation(report, ranks)


def evaluate_gallery(
    matcher: Matcher,
    data: CaptionedFeatures,
    shortlists: Sequence[int] = SHORTLISTS,
    progress: Progress | None = None,
) -> Evaluation:
    """The evaluation of a search with the sentences of `data` among all its pictures, some of which have no caption.

    Raises ValueError if none has one.
    """
    if not any(data.captions):
        raise ValueError("no picture has a caption to search for")
    check_feature_width(matcher, data)
    pairs, stage_one = score_all_pairs(matcher, data, progress=progress)
    return evaluate_scores(matcher, pairs, stage_one, shortlists, TEXT_TO_IMAGE, progress)


def evaluate_scores(
    matcher: Matcher,
    pairs: ScoredPairs,
    stage_one: ScoredPairs,
    shortlists: Sequence[int],
    directions: Sequence[str],
    progress: Progress | None = None,
) -> Evaluation:
    """The evaluation of a matcher's scores of all pairs."""
    num_pictures = pairs.scores.shape[1]
    lengths = [k for k in shortlists if k <= num_pictures]
    steps = count(1)

    def counted(part: T) -> T:
        if progress is not None:
            progress("computing recalls", next(steps), len(lengths) + 2)
        return part

    ranks = ranks_of_both_stages(pairs, stage_one, directions)
    report = {
        "model": matcher.name,
        "digest": matcher.digest,
        "images": num_pictures,
        "captions": len(pairs.image_of),
        "intervals": interval_settings(),
        **counted(report_on_both_stages(ranks)),
        "two_stage": {
            str(k): counted(Ranks.of(pairs, Shortlists(stage_one.scores, k), directions).report()) for k in lengths
        },
        **counted(shortlist_recalls(pairs, stage_one, lengths, directions)),
    }
    return Evaluation(report, ranks)
