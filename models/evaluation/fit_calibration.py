"""A matcher's calibration, found from captioned pictures: fitted on some of them, judged by the others."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import Progress, all_pairs, recalls
from models.evaluation.score_matrix import encoded_sentences
from models.matching.calibration import (
    Answers,
    Calibration,
    Evidence,
    calibration_error,
    fit,
    leads,
    reliability,
    surprise,
)
from models.matching.checkpoint import calibrated
from models.matching.hubness import HUBNESS, By, HubCorrected, Hubs, centres, packed, unpacked
from models.matching.matcher import Matcher
from models.rerankers.attention import masked_mean

BATCH = 256
UNKNOWN = Evidence(1.0, 0.0)
SHOWN = 10  # answers of a question that somebody looks at
SMALLEST = 50  # pictures in a gallery to fit on
SMALL = 100  # and in one to be judged by, beside all pictures


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to calibrate: the hubs' correction, and the share of pictures kept for judging.

    `share` 0 corrects no hubs. `bank` is how many typical sentences stand for all.
    """

    share: float = 0.4
    by: By = "embeddings"
    best: int = 2
    bank: int = 160
    held_out: float = 0.5
    seed: int = 0

    def hubs(self, scores: Float[Tensor, "Q K"], stage_one: Float[Tensor, "Q K"]) -> Hubs:
        """A share of 1 takes a cosine for as much as it varies over all pairs, or a score for itself; of scores with
        single regions, which differ more than those with sentences, half as much."""
        if self.by == "scores":
            return Hubs(pictures=self.share, sentences=self.share / 2, best=self.best, by=self.by)
        spreads = [float(values[values.isfinite()].std()) for values in (scores, stage_one)]
        worth = self.share * spreads[0] / spreads[1]
        return Hubs(pictures=worth, sentences=worth, best=self.best)

    def halves(self, pictures: int) -> tuple[Int64[Tensor, " F"], Int64[Tensor, " H"]]:
        """Pictures to fit on and pictures to judge by; ValueError where either are too few."""
        order = torch.from_numpy(np.random.default_rng(self.seed).permutation(pictures))
        kept = round(pictures * self.held_out)
        if min(kept, pictures - kept) < SMALLEST:
            raise ValueError(
                f"{pictures - kept} pictures to fit on and {kept} to judge by: both must be {SMALLEST} at least"
            )
        return order[kept:].sort().values, order[:kept].sort().values


class Pairs(NamedTuple):
    """Scores of all sentences with all pictures, and the picture that each sentence belongs to."""

    scores: Float[Tensor, "Q K"]
    image_of: Int64[Tensor, " Q"]

    def among(self, gallery: Int64[Tensor, " G"]) -> "Pairs":
        """Those of some pictures and their own sentences, the pictures numbered anew."""
        own = self.image_of[:, None] == gallery
        mine = own.any(1)
        return Pairs(self.scores[mine][:, gallery], own[mine].int().argmax(1))


def answers(pairs: Pairs, direction: str) -> Answers:
    """The best of every question in one gallery: pictures for sentences (`text`), or sentences for pictures."""
    pictures = torch.arange(pairs.scores.shape[1])
    num_right = 1.0 if direction == "text" else len(pairs.image_of) / len(pictures)
    if direction == "text":
        scores, asked, owners = pairs.scores, pairs.image_of, pictures
    else:
        scores, asked, owners = pairs.scores.T, pictures, pairs.image_of
    best = scores.topk(min(SHOWN, scores.shape[1]), dim=1)
    values, right = best.values.double().numpy(), (owners[best.indices] == asked[:, None]).flatten().numpy()
    against = np.full(len(right), surprise(scores.shape[1], num_right))
    return Answers(values.flatten(), leads(values).flatten(), against, right)


def galleries(pictures: Int64[Tensor, " N"], size: int, seed: int) -> list[Int64[Tensor, " G"]]:
    """Pictures dealt into as many whole galleries of `size` as there are."""
    order = torch.from_numpy(np.random.default_rng([seed, size]).permutation(len(pictures)))
    return [pictures[order[start : start + size]] for start in range(0, len(pictures) - size + 1, size)]


def shown(pairs: Pairs, pictures: Int64[Tensor, " N"], size: int, direction: str, seed: int) -> Answers:
    """Answers in all galleries of one size."""
    return Answers.joined([answers(pairs.among(part), direction) for part in galleries(pictures, size, seed)])


def sizes(largest: int) -> list[int]:
    """Of galleries to fit on: doubling from the smallest, and all pictures at once."""
    doubling = [SMALLEST * 2**n for n in range(32) if SMALLEST * 2**n < largest]
    return [*doubling, largest]


def fitted(pairs: Pairs, pictures: Int64[Tensor, " N"], direction: str, seed: int) -> Evidence:
    """What speaks truest of the answers in galleries of many sizes."""
    return fit(Answers.joined([shown(pairs, pictures, size, direction, seed) for size in sizes(len(pictures))]))


def judged(
    evidence: Evidence, pairs: Pairs, pictures: Int64[Tensor, " N"], direction: str, seed: int
) -> dict[str, Any]:
    """Calibration error and reliability by size of the gallery, for JSON."""
    report = {}
    for size in sorted({len(pictures), min(SMALL, len(pictures))}):
        found = shown(pairs, pictures, size, direction, seed)
        predicted = evidence.probability(found.scores, found.leads, found.surprises)
        report[str(size)] = {
            "error": calibration_error(predicted, found.right),
            "answers": len(predicted),
            "reliability": reliability(predicted, found.right),
        }
    return report


@torch.no_grad()
def typical(matcher: Matcher, sentences: Sequence[str], count: int, seed: int) -> Float[Tensor, "count D"]:
    """A bank of `count` typical sentences, as it will be once it was kept; ValueError where they are too few."""
    encoded = [words for _, words, _ in encoded_sentences(matcher, list(sentences), BATCH)]
    means = torch.cat([masked_mean(words.vectors, words.mask) for words in encoded])
    return unpacked(packed(centres(means, count, seed)))


@torch.no_grad()
def taken_off(matcher: Matcher, data: CaptionedFeatures) -> Float[Tensor, "Q K"]:
    """What a matcher whose hubs are corrected takes off the score of every caption with every picture."""
    reranker = matcher.reranker
    assert isinstance(reranker, HubCorrected)
    encoded = [matcher.encode_regions(data.regions(rows))[0] for rows in tiles(len(data), BATCH)]
    pictures = torch.cat([images.tensors()[HUBNESS] for images in encoded])
    captions, _ = data.sentences()
    sentences = torch.empty(len(captions))
    for chosen, words, _ in encoded_sentences(matcher, captions, BATCH):
        sentences[chosen] = reranker.of_sentences(words).cpu()
    return pictures.cpu() + sentences[:, None]


def calibrate(
    matcher: Matcher,
    data: CaptionedFeatures,
    sentences: Sequence[str],
    plan: Plan,
    progress: Progress | None = None,
) -> tuple[Calibration, Float[Tensor, "C D"] | None, dict[str, Any]]:
    """The calibration of a matcher without one, the bank of its hubs, and a report for JSON.

    `sentences` are those of which the bank is made. ValueError where there is too little to go by, Uncalibratable
    where the scores do not tell right from wrong.
    """
    own, others = plan.halves(len(data))
    scores, stage_one = (each.cpu() for each in all_pairs(matcher, data, progress=progress))
    before = pairs = Pairs(scores, data.sentences()[1])
    hubs, bank = None, None
    if plan.share > 0:
        bank = typical(matcher, sentences, plan.bank, plan.seed)
        hubs = plan.hubs(scores, stage_one)
        corrected = calibrated(matcher, Calibration(text=UNKNOWN, image=UNKNOWN, hubs=hubs), bank)
        pairs = Pairs(scores - taken_off(corrected, data), before.image_of)
    lines = {direction: fitted(pairs, own, direction, plan.seed) for direction in ("text", "image")}
    about = {"pictures": len(own), "extractor": data.extractor_digest, "seed": plan.seed}
    report = {
        "model": matcher.name,
        "pictures": {"fitted": len(own), "held_out": len(others)},
        "hubs": hubs and {**asdict(hubs), "bank": plan.bank},
        "rsum": {
            half: {
                "without_hubs_corrected": recalls(*before.among(chosen))["rsum"],
                "as_served": recalls(*pairs.among(chosen))["rsum"],
            }
            for half, chosen in (("fitted", own), ("held_out", others))
        },
        **{name: asdict(line) for name, line in lines.items()},
        "held_out": {name: judged(line, pairs, others, name, plan.seed) for name, line in lines.items()},
    }
    calibration = Calibration(text=lines["text"], image=lines["image"], hubs=hubs, fitted=about)
    return calibration, bank, report
