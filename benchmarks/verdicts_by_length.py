"""The accuracy of the verdict whether a gallery has an answer, judged by the first one, by the sentence's length.

    python -m benchmarks.verdicts_by_length --features FEATURES --captions captions.jsonl --split dev

Each caption asks a gallery of random pictures, once with its own among them and once without. The figures are the area
under the ROC curve of the test's probability, and the shares of verdicts that nothing matches and that something does,
with and without a right answer.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.captioned_pictures import captions_parser, given_matcher, given_pictures
from models.batches import MARKS
from models.evaluation.evaluate import score_all_pairs
from models.matching.log_odds import prior_log_odds
from models.matching.match_verdict import MatchTest, area_under_roc

Floats = npt.NDArray[np.float64]

LENGTHS = ((1, 4), (5, 6), (7, 8), (9, 12), (13, 1000))  # words
SIZES = (100, 200, 500)  # pictures
MOST = 600  # captions of a length


def probabilities(
    test: MatchTest, scores: Floats, own: int, size: int, random: np.random.Generator
) -> tuple[float, float]:
    """The probability that a gallery has an answer, for one with the caption's own picture and one without."""
    others = random.choice(np.delete(np.arange(len(scores)), own), size, replace=False)
    values = []
    for gallery in (np.append(others[1:], own), others):
        second, first = np.sort(scores[gallery])[-2:]
        values.append(float(test.probability(first, first - second, prior_log_odds(size, 1.0))))
    return values[0], values[1]


def judged(test: MatchTest, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The area under the ROC curve, and the shares of each verdict."""
    with_own, without = np.array(pairs).T
    both, holds = np.concatenate([with_own, without]), np.repeat([True, False], len(pairs))
    shares = {
        "nothing, where it is": with_own < test.absent_below,
        "nothing, where it is not": without < test.absent_below,
        "something, where it is": with_own >= test.present_from,
        "something, where it is not": without >= test.present_from,
    }
    rounded = {name: round(float(share.mean()), 3) for name, share in shares.items()}
    return {"captions": len(pairs), "area": round(area_under_roc(both, holds), 3), **rounded}


def main() -> None:
    """Print one JSON object."""
    args = captions_parser(__doc__).parse_args()
    torch.set_num_threads(1)
    pictures, matcher = given_pictures(args), given_matcher(args)
    assert matcher.calibration is not None
    assert matcher.calibration.text_match is not None
    test = matcher.calibration.text_match
    lengths = np.array([len(matcher.words(text)) - MARKS for text in pictures.sentences()[0]])
    pairs, _ = score_all_pairs(matcher, pictures)
    scores, image_of, random = pairs.scores.double().numpy(), pairs.image_of.numpy(), np.random.default_rng(0)
    reports: dict[str, Any] = {}
    for size in SIZES:
        for least, most in LENGTHS:
            asked = random.permutation(np.flatnonzero((lengths >= least) & (lengths <= most)))[:MOST]
            each = [probabilities(test, scores[n], int(image_of[n]), size, random) for n in asked]
            reports[f"{size} pictures, {least} to {most} words"] = judged(test, each)
    print(json.dumps({"model": args.model, **reports}, indent=1))


if __name__ == "__main__":
    main()
