"""Two models compared on the same questions, and the ranks that evaluations leave for it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.evaluation.confidence import paired_intervals
from models.evaluation.metrics import subtract_numbers


@dataclass
class KeptRanks:
    """Ranks, from 0, of the right answer to every question, by which an evaluation's recalls were computed."""

    ranks: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """Search (`exhaustive`, `stage_one`, `fold5`) -> direction -> ranks."""
    recalls: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Search -> recalls of these ranks."""
    picture_of: dict[str, np.ndarray] = field(default_factory=dict)
    """Direction -> the picture that each question is about."""
    folds: dict[str, int] = field(default_factory=dict)
    """Search -> the number of folds that its recalls are means over, where there are several."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The ranks as arrays, named SEARCH_DIRECTION."""
        return {f"{search}_{way}": own for search, ways in self.ranks.items() for way, own in ways.items()}


def compare_ranks(one: KeptRanks, other: KeptRanks) -> dict[str, Any]:
    """Search -> how much higher the recalls of `one` are, with intervals of the difference on the same resampled
    pictures; for JSON. Both ranked the answers to the same questions."""
    return {
        search: {
            **subtract_numbers(one.recalls[search], other.recalls[search]),
            "interval": paired_intervals(own, other.ranks[search], one.picture_of, one.folds.get(search, 1)),
        }
        for search, own in one.ranks.items()
    }
