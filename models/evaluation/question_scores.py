"""Scores of questions with all pictures of a set, as in a search without a shortlist."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import HELD_PICTURES, Progress, encode_pictures
from models.matching.matcher import Matcher

PICTURES_A_BATCH = 64


class QuestionScores(NamedTuple):
    """Scores by the matcher, by stage one, and by the matcher before the questions' offsets are subtracted."""

    exhaustive: Float[np.ndarray, "Q K"]
    stage_one: Float[np.ndarray, "Q K"]
    without_offset: Float[np.ndarray, "Q K"]


@torch.no_grad()
def question_scores(
    matcher: Matcher, data: CaptionedFeatures, sentences: Sequence[str], progress: Progress | None = None
) -> QuestionScores:
    """Scores of every sentence with every picture."""
    matcher.eval()
    texts, embeddings = matcher.encode_sentences(sentences)
    parts: tuple[list[np.ndarray], ...] = [], [], []
    for tile in tiles(len(data), HELD_PICTURES):
        images, image_embeddings = encode_pictures(matcher, data, tile, PICTURES_A_BATCH)
        scores = matcher.score_in_blocks(images, texts)
        each = scores, embeddings @ image_embeddings.T, texts.without_offset(scores)
        for part, block in zip(parts, each, strict=True):
            part.append(block.double().cpu().numpy())
        if progress is not None:
            progress("asking short questions", tile.stop, len(data))
    return QuestionScores(*(np.concatenate(part, axis=1) for part in parts))
