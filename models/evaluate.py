"""Evaluation by the field's protocol: all pairs, and the two stages as they are served."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.base import score_in_blocks, tiles
from models.dataset import CaptionedFeatures
from models.matcher import Matcher
from models.metrics import Recalls, image_to_text_ranks, rsum, text_to_image_ranks
from models.rows import Rows, Words

SHORTLISTS = (10, 50, 100, 200, 500)


@dataclass(frozen=True)
class Encoded:
    """A gallery ready to be scored: encoded pictures and sentences with their stage-one embeddings."""

    images: Rows
    words: Words
    image_embeddings: Float[Tensor, "K E"]
    text_embeddings: Float[Tensor, "Q E"]
    image_of: Int64[Tensor, " Q"]


@torch.no_grad()
def encode(matcher: Matcher, data: CaptionedFeatures, batch: int = 256) -> Encoded:
    """All pictures and captions of `data`, encoded in batches."""
    matcher.eval()
    encoded = [matcher.encode_regions(data.regions(rows)) for rows in tiles(len(data), batch)]
    sentences, image_of = data.sentences()
    width = matcher.tokenize(sentences).ids.shape[1]
    words, embeddings = [], []
    for rows in tiles(len(sentences), batch):
        part, embedding = matcher.encode_sentences(sentences[rows])
        room = (0, width - part.mask.shape[1])
        words.append(
            Words(torch.nn.functional.pad(part.vectors, (0, 0, *room)), torch.nn.functional.pad(part.mask, room))
        )
        embeddings.append(embedding)
    images_type = matcher.reranker.images_type
    return Encoded(
        images_type.cat([images for images, _ in encoded]),
        Words.cat(words),
        torch.cat([embedding for _, embedding in encoded]),
        torch.cat(embeddings),
        image_of.to(matcher.device),
    )


def recalls(scores: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"]) -> dict[str, Any]:
    """Recalls both ways and their sum, for JSON."""
    forward = Recalls.of(text_to_image_ranks(scores, image_of))
    backward = Recalls.of(image_to_text_ranks(scores, image_of))
    return {
        "text_to_image": forward.as_dict(),
        "image_to_text": backward.as_dict(),
        "rsum": rsum(forward, backward),
    }


def shortlisted(scores: Float[Tensor, "N M"], stage_one: Float[Tensor, "N M"], k: int) -> Float[Tensor, "N M"]:
    """Scores of each row's k best by stage one; all else can no longer be found."""
    chosen = stage_one.topk(min(k, stage_one.shape[1]), dim=1).indices
    kept = torch.full_like(scores, -torch.inf)
    return kept.scatter(1, chosen, scores.gather(1, chosen))


def two_stage(
    scores: Float[Tensor, "Q K"], stage_one: Float[Tensor, "Q K"], image_of: Int64[Tensor, " Q"], k: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """Recalls when only a shortlist of k is reranked, and how often the shortlist holds the right answer."""
    forward = shortlisted(scores, stage_one, k)
    backward = shortlisted(scores.T, stage_one.T, k).T
    to_image = Recalls.of(text_to_image_ranks(forward, image_of))
    to_text = Recalls.of(image_to_text_ranks(backward, image_of))
    own = image_of[:, None] == torch.arange(scores.shape[1], device=scores.device)
    held = {
        "text_to_image": 100 * float((forward.isfinite() & own).any(1).float().mean()),
        "image_to_text": 100 * float((backward.isfinite() & own).any(0).float().mean()),
    }
    both = {
        "text_to_image": to_image.as_dict(),
        "image_to_text": to_text.as_dict(),
        "rsum": rsum(to_image, to_text),
    }
    return both, held


def evaluate(matcher: Matcher, data: CaptionedFeatures, shortlists: Sequence[int] = SHORTLISTS) -> dict[str, Any]:
    """The whole report, for JSON: all pairs scored, stage one alone, and two stages for every shortlist length."""
    encoded = encode(matcher, data)
    scores = score_in_blocks(matcher.reranker, encoded.images, encoded.words)
    stage_one = encoded.text_embeddings @ encoded.image_embeddings.T
    stages = {str(k): two_stage(scores, stage_one, encoded.image_of, k) for k in shortlists if k <= len(data)}
    return {
        "model": matcher.name,
        "digest": matcher.digest,
        "images": len(data),
        "captions": len(encoded.image_of),
        "exhaustive": recalls(scores, encoded.image_of),
        "stage_one": recalls(stage_one, encoded.image_of),
        "two_stage": {k: both for k, (both, _) in stages.items()},
        "shortlist_recall": {k: held for k, (_, held) in stages.items()},
    }
