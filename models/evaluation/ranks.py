"""The ranks of the right answers in a search: recalls with intervals, and differences between searches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from models.evaluation.confidence import bootstrap_intervals, paired_intervals
from models.evaluation.metrics import (
    Recalls,
    Shortlists,
    image_to_text_ranks,
    rsum,
    subtract_numbers,
    text_to_image_ranks,
)
from models.evaluation.scored_pairs import Direction, ScoredPairs

FOLDS = 5
ASKING: Mapping[str, Direction] = {"text_to_image": "text", "image_to_text": "image"}
RANK_FUNCTIONS = {"text_to_image": text_to_image_ranks, "image_to_text": image_to_text_ranks}
BOTH_DIRECTIONS = tuple(RANK_FUNCTIONS)


@dataclass(frozen=True)
class Ranks:
    """The rank, from 0, of the right answer to every question of one search."""

    by_direction: Mapping[str, "Int64[np.ndarray, ' N']"]
    picture_of: Mapping[str, "Int64[np.ndarray, ' N']"]
    """Direction -> the picture that each question is about."""
    folds: int = 1
    """Equal runs of pictures, each a separate gallery, over which recalls are averaged."""

    @classmethod
    def of(
        cls, pairs: ScoredPairs, shortlists: Shortlists | None = None, directions: Sequence[str] = BOTH_DIRECTIONS
    ) -> "Ranks":
        """The ranks of a search among all pictures, and among all sentences."""
        ranks = {way: RANK_FUNCTIONS[way](pairs.of(ASKING[way]), pairs.image_of, shortlists) for way in directions}
        return cls(ranks, pictures_of_questions(pairs))

    @classmethod
    def in_folds(cls, pairs: ScoredPairs) -> "Ranks":
        """The ranks within each of five equal runs of pictures and their own captions.

        COCO's "1K" results are those of five folds of its 5000 test pictures. Raises ValueError for unequal folds.
        """
        num_pictures = pairs.scores.shape[1]
        size, rest = divmod(num_pictures, FOLDS)
        if rest or not size:
            raise ValueError(f"{num_pictures} pictures do not make {FOLDS} equal folds")
        picture_of = pictures_of_questions(pairs)
        ranks = {way: np.empty_like(pictures) for way, pictures in picture_of.items()}
        for fold, gallery in enumerate(torch.arange(num_pictures, device=pairs.image_of.device).reshape(FOLDS, size)):
            for way, fold_ranks in cls.of(pairs.among(gallery)).by_direction.items():
                ranks[way][picture_of[way] // size == fold] = fold_ranks
        return cls(ranks, picture_of, FOLDS)

    def recalls(self) -> dict[str, Any]:
        """Direction -> recalls, and with both directions their sum; for JSON."""
        size = (1 + max(int(pictures.max()) for pictures in self.picture_of.values())) // self.folds
        return mean_report(
            [
                _recalls({way: ranks[self.picture_of[way] // size == fold] for way, ranks in self.by_direction.items()})
                for fold in range(self.folds)
            ]
        )

    def report(self) -> dict[str, Any]:
        """The recalls, with their confidence intervals as `interval`; for JSON."""
        return {**self.recalls(), "interval": bootstrap_intervals(self.by_direction, self.picture_of, self.folds)}

    def minus(self, other: "Ranks") -> dict[str, Any]:
        """The differences from the recalls of another search with the same questions, with intervals on the same
        resampled pictures; for JSON."""
        intervals = paired_intervals(self.by_direction, other.by_direction, self.picture_of, self.folds)
        return {**subtract_numbers(self.recalls(), other.recalls()), "interval": intervals}


def pictures_of_questions(pairs: ScoredPairs) -> dict[str, np.ndarray]:
    """Direction -> the picture that each question is about."""
    return {"text_to_image": pairs.image_of.cpu().numpy(), "image_to_text": np.arange(pairs.scores.shape[1])}


def _recalls(by_direction: Mapping[str, np.ndarray]) -> dict[str, Any]:
    recalls = {direction: Recalls.of(ranks) for direction, ranks in by_direction.items()}
    total = {"rsum": rsum(*recalls.values())} if len(recalls) > 1 else {}
    return {direction: each.as_dict() for direction, each in recalls.items()} | total


def mean_report(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean of every number in reports of the same form."""
    return {
        name: mean_report([report[name] for report in reports])
        if isinstance(value, dict)
        else sum(report[name] for report in reports) / len(reports)
        for name, value in reports[0].items()
    }


def rank_arrays(searches: Mapping[str, Ranks]) -> dict[str, np.ndarray]:
    """The ranks of several searches as arrays, named SEARCH_DIRECTION."""
    return {f"{search}_{way}": array for search, ranks in searches.items() for way, array in ranks.by_direction.items()}
