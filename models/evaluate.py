"""Evaluation by the field's protocol: all pairs, and the two stages as they are served."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.base import score_in_blocks, tiles
from models.dataset import CaptionedFeatures
from models.matcher import Matcher
from models.metrics import Recalls, Shortlists, image_to_text_ranks, rsum, text_to_image_ranks
from models.score import encoded_sentences

SHORTLISTS = (10, 50, 100, 200, 500)


@torch.no_grad()
def all_pairs(
    matcher: Matcher, data: CaptionedFeatures, batch: int = 256
) -> tuple[Float[Tensor, "Q K"], Float[Tensor, "Q K"]]:
    """Scores of every caption with every picture, by the reranker and by stage one.

    Pictures are held encoded; captions pass by in batches, so that 25 000 of them need no more memory than their rows.
    """
    matcher.eval()
    encoded = [matcher.encode_regions(data.regions(rows)) for rows in tiles(len(data), batch)]
    images = matcher.reranker.images_type.cat([part for part, _ in encoded])
    image_embeddings = torch.cat([embeddings for _, embeddings in encoded])
    sentences, _ = data.sentences()
    scores, stage_one = torch.empty(2, len(sentences), len(data), device=matcher.device)
    for chosen, words, embeddings in encoded_sentences(matcher, sentences, batch):
        scores[chosen] = score_in_blocks(matcher.reranker, images, words)
        stage_one[chosen] = embeddings @ image_embeddings.T
    return scores, stage_one


def recalls(
    scores: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"], shortlists: Shortlists | None = None
) -> dict[str, Any]:
    """Recalls both ways and their sum, for JSON."""
    forward = Recalls.of(text_to_image_ranks(scores, image_of, shortlists))
    backward = Recalls.of(image_to_text_ranks(scores, image_of, shortlists))
    return {
        "text_to_image": forward.as_dict(),
        "image_to_text": backward.as_dict(),
        "rsum": rsum(forward, backward),
    }


def two_stage(
    scores: Float[Tensor, "Q K"], stage_one: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"], k: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """Recalls when only a shortlist of k is reranked, and how often the shortlist holds a right answer, in percent."""
    held = {
        "text_to_image": 100 * float((text_to_image_ranks(stage_one, image_of) < k).mean()),
        "image_to_text": 100 * float((image_to_text_ranks(stage_one, image_of) < k).mean()),
    }
    return recalls(scores, image_of, Shortlists(stage_one, k)), held


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
        parts.append(recalls(scores[mine, fold * size : (fold + 1) * size], image_of[mine] - fold * size))
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
    matcher: Matcher, data: CaptionedFeatures, shortlists: Sequence[int] = SHORTLISTS, fold5: bool = False
) -> dict[str, Any]:
    """The whole report, for JSON: all pairs scored, stage one alone, two stages for every shortlist length, and with
    `fold5` all pairs within five folds."""
    if data.feature_dim != matcher.encoders.feature_dim:
        wanted = matcher.encoders.feature_dim
        raise ValueError(f"{matcher.name} reads features of {wanted} numbers, these have {data.feature_dim}")
    if not all(data.captions):
        raise ValueError("every picture to evaluate on needs a caption at least")
    scores, stage_one = all_pairs(matcher, data)
    image_of = data.sentences()[1].to(matcher.device)
    stages = {str(k): two_stage(scores, stage_one, image_of, k) for k in shortlists if k <= len(data)}
    return {
        "model": matcher.name,
        "digest": matcher.digest,
        "images": len(data),
        "captions": len(image_of),
        "exhaustive": recalls(scores, image_of),
        **({"fold5": folded(scores, image_of)} if fold5 else {}),
        "stage_one": recalls(stage_one, image_of),
        "two_stage": {k: both for k, (both, _) in stages.items()},
        "shortlist_recall": {k: held for k, (_, held) in stages.items()},
    }
