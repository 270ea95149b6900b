"""The cost of scoring one picture with one sentence, model by model, measured on this machine."""

import logging
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch

from models.batches import Regions
from models.matching.encoded import stored_arrays
from models.matching.matcher import Matcher

PICTURES = 16
SENTENCE = "a brown dog catches a red frisbee in front of people on a wide green lawn"
REPEATS = 3  # of which the fastest counts, as the least disturbed by other work
MOST = 1000.0

log = logging.getLogger(__name__)


class PairCosts:
    """The time that each model takes for a region and a word, relative to the fastest model; 1 until measured.

    Measured by one thread, read by many.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._measured: dict[str, float | None] = {}  # digest -> seconds; None where measuring failed
        self._weights: dict[str, float] = {}

    def weight(self, matcher: Matcher) -> float:
        """The model's factor, from 1 to MOST."""
        return self._weights.get(matcher.digest, 1.0)

    def measure(self, matchers: Iterable[Matcher], num_regions: int) -> None:
        """Measure every model not measured yet, in the thread where models run; one that fails is logged, and keeps the
        factor 1."""
        for matcher in [matcher for matcher in matchers if matcher.digest not in self._measured]:
            try:
                self._measured[matcher.digest] = self._seconds(matcher, num_regions)
            except Exception:  # queries report it themselves; here the model only lacks a factor
                self._measured[matcher.digest] = None
                log.exception("the cost of %s cannot be measured", matcher.name)
        seconds = {digest: spent for digest, spent in self._measured.items() if spent is not None}
        least = min((spent for spent in seconds.values() if spent > 0), default=0.0)
        self._weights = {digest: min(MOST, max(1.0, spent / least)) for digest, spent in seconds.items() if least}

    def _seconds(self, matcher: Matcher, num_regions: int) -> float:
        """Seconds for one picture and one word of a sentence."""
        shape = (PICTURES, num_regions, matcher.feature_dim)
        images, _ = matcher.encode_regions(Regions(torch.ones(shape), torch.ones(shape[:2], dtype=torch.bool)))
        texts, _ = matcher.encode_sentences([SENTENCE])
        records, rows, spent = stored_arrays(images, matcher.wide_fields), np.arange(PICTURES), []
        for _ in range(REPEATS):
            started = self._clock()
            # As searches do, by the kernels where they know the model.
            scores = matcher.score_stored(records, rows, texts)
            (matcher.score(images, texts) if scores is None else scores).cpu()  # which waits for a GPU
            spent.append(self._clock() - started)
        return min(spent) / (PICTURES * len(matcher.words(SENTENCE)))
