"""Short questions: whether pictures of a class of objects are found by its name, asked in several wordings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.coco_boxes import BoxedPictures
from models.evaluation.class_names import TEMPLATES, from_template
from models.evaluation.confidence import interval_of_ratio, interval_settings
from models.evaluation.evaluate import HELD_PICTURES, Progress, check_feature_width, encode_pictures
from models.matching.matcher import Matcher
from models.text.request_words import subject_of

FIRST = 5  # answers that are looked at
LEAST_PICTURES = 3  # that must show a class for it to be asked for
PICTURES_A_BATCH = 64


def measure_short_questions(
    matcher: Matcher,
    data: CaptionedFeatures,
    objects: BoxedPictures,
    least: int = LEAST_PICTURES,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """A report for JSON: how searches of all pictures of `data` with every template of `TEMPLATES` do, by the reranker
    (`exhaustive`) and by `stage_one`.

    Every class shown by at least `least` pictures is queried, in the words that a search uses: without those of the
    template that only ask (`subject_of`). `objects` are those of the pictures, in their order. Raises ValueError where
    no class is shown so often.
    """
    check_feature_width(matcher, data)
    classes = [name for name in objects.classes if len(objects.showing(name)) >= least]
    if not classes:
        raise ValueError(f"no class is shown by {least} pictures or more")
    right = np.zeros((len(classes), len(data)), bool)
    for row, name in enumerate(classes):
        right[row, objects.showing(name)] = True
    sentences = [subject_of(from_template(template, name)) for template in TEMPLATES for name in classes]
    scores = dict(zip(("exhaustive", "stage_one"), question_scores(matcher, data, sentences, progress), strict=True))
    rows = {template: slice(n * len(classes), (n + 1) * len(classes)) for n, template in enumerate(TEMPLATES)}
    return {
        "pictures": len(data),
        "least_pictures": least,
        "first": FIRST,
        "intervals": {**interval_settings(), "of": "classes"},
        "classes": {name: int(right[row].sum()) for row, name in enumerate(classes)},
        "templates": {
            template: {search: assess_class_search(own[chosen], right, classes) for search, own in scores.items()}
            for template, chosen in rows.items()
        },
    }


@torch.no_grad()
def question_scores(
    matcher: Matcher, data: CaptionedFeatures, sentences: Sequence[str], progress: Progress | None = None
) -> tuple[Float[np.ndarray, "Q K"], Float[np.ndarray, "Q K"]]:
    """Scores of every sentence with every picture, by the matcher and by stage one."""
    matcher.eval()
    texts, embeddings = matcher.encode_sentences(sentences)
    parts: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for tile in tiles(len(data), HELD_PICTURES):
        images, image_embeddings = encode_pictures(matcher, data, tile, PICTURES_A_BATCH)
        for own, scores in zip(
            parts, (matcher.score_in_blocks(images, texts), embeddings @ image_embeddings.T), strict=True
        ):
            own.append(scores.double().cpu().numpy())
        if progress is not None:
            progress("asking short questions", tile.stop, len(data))
    return np.concatenate(parts[0], axis=1), np.concatenate(parts[1], axis=1)


def assess_class_search(
    scores: Float[np.ndarray, "C K"], right: Bool[np.ndarray, "C K"], classes: Sequence[str]
) -> dict[str, Any]:
    """Measures of C questions, one for each class, whose `right` pictures are known.

    Shares of 1 are means over classes: hits among the FIRST answers of those that are possible there, first answers
    that are right, average precision; `without_hit` names the classes with no hit among the FIRST.
    """
    order = np.lexsort((right, -np.nan_to_num(scores, nan=-np.inf)), axis=1)  # wrong pictures come first in a tie
    hits = np.take_along_axis(right, order, axis=1)
    num_right = right.sum(1)
    among_first = hits[:, :FIRST].sum(1)
    precision = hits.cumsum(1) / np.arange(1, hits.shape[1] + 1)
    values = {
        "hits_of_possible": among_first / np.minimum(num_right, FIRST),
        "first_right": hits[:, 0].astype(float),
        "mean_average_precision": (precision * hits).sum(1) / num_right,
    }
    ones = np.ones(len(classes))
    return {
        **{name: float(each.mean()) for name, each in values.items()},
        "without_hit": [name for name, found in zip(classes, among_first, strict=True) if not found],
        "interval": {name: [end / 100 for end in interval_of_ratio(each, ones)] for name, each in values.items()},
    }
