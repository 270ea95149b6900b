"""Short questions: whether searches for the name of a class, in several wordings, find its pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.coco_boxes import BoxedPictures
from models.evaluation.class_names import TEMPLATES, from_template
from models.evaluation.confidence import interval_of_ratio, interval_settings
from models.evaluation.evaluate import Progress, check_feature_width
from models.evaluation.question_scores import question_scores
from models.evaluation.short_match import LEAST_PICTURES, ShortAnswers, assess_short_match
from models.matching.matcher import Matcher
from models.text.request_words import subject_of

FIRST = 5  # answers that count


def measure_short_questions(
    matcher: Matcher,
    data: CaptionedFeatures,
    objects: BoxedPictures,
    least: int = LEAST_PICTURES,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """A report for JSON on searches of all pictures of `data` with every template of `TEMPLATES`: by the reranker
    (`exhaustive`), by `stage_one`, and on the probabilities that a picture shows what is asked for (`short_match`, if
    the matcher has these).

    Every class that at least `least` pictures show is queried, with the words that a search uses, which are those of
    `subject_of`. `objects` are those of the pictures, in their order. Raises ValueError if there is no such class.
    """
    check_feature_width(matcher, data)
    classes = [name for name in objects.classes if len(objects.showing(name)) >= least]
    if not classes:
        raise ValueError(f"no class is shown by {least} pictures or more")
    right = np.zeros((len(classes), len(data)), bool)
    for row, name in enumerate(classes):
        right[row, objects.showing(name)] = True
    sentences = [subject_of(from_template(template, name)) for template in TEMPLATES for name in classes]
    scores = question_scores(matcher, data, sentences, progress)
    test = matcher.calibration.short_match if matcher.calibration else None
    rows = {template: slice(n * len(classes), (n + 1) * len(classes)) for n, template in enumerate(TEMPLATES)}
    return {
        "pictures": len(data),
        "least_pictures": least,
        "first": FIRST,
        "intervals": {**interval_settings(), "of": "classes"},
        "classes": {name: int(right[row].sum()) for row, name in enumerate(classes)},
        "templates": {
            template: {
                "exhaustive": assess_class_search(scores.exhaustive[chosen], right, classes),
                "stage_one": assess_class_search(scores.stage_one[chosen], right, classes),
            }
            for template, chosen in rows.items()
        },
        "short_match": test
        and {
            template: assess_short_match(test, ShortAnswers(classes, scores.without_offset[chosen], right, ~right))
            for template, chosen in rows.items()
        },
    }


def assess_class_search(
    scores: Float[np.ndarray, "C K"], right: Bool[np.ndarray, "C K"], classes: Sequence[str]
) -> dict[str, Any]:
    """Measures of C questions, one for each class, whose `right` pictures are known.

    Means over classes, from 0 to 1: hits among the FIRST answers as a share of the possible ones, right first answers,
    average precision. `without_hit` names the classes without a hit among the FIRST.
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
        "without_hit": [name for name, count in zip(classes, among_first, strict=True) if not count],
        "interval": {name: [end / 100 for end in interval_of_ratio(each, ones)] for name, each in values.items()},
    }
