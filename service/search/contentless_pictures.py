"""Pictures that show nothing: of one colour, or nearly so, and of a few pixels.

Searches leave them out: models learnt from photographs, and the correction of hubs raises the scores of pictures that
are far from all captions, so that empty ones came before pictures that nearly answer. A picture shows nothing where its
perceptual hash is empty, or it is tiny, and the detector is sure of nothing in it. The hash alone does not tell: that
of a bird in the sky or of a word on a page is empty, too.
"""

import logging
import time
from collections.abc import Callable

import numpy as np

from index.catalog.picture_hashes import PictureHashes
from index.views.slab import Corrupt
from service.storage.regions.records import RegionStore

# Of the shipped detector: blank pictures have at most 0.23, the plainest of 7 171 photographs at least 0.39.
LEAST_SURE = 0.25
AGAIN_S = 60.0

log = logging.getLogger(__name__)


class ContentlessPictures:
    """The slots of such pictures, looked for once for each view. Safe from many threads."""

    def __init__(self, hashes: PictureHashes, clock: Callable[[], float] = time.monotonic) -> None:
        self._hashes, self._clock, self._next_look = hashes, clock, 0.0
        self._found: dict[str, tuple[str, int, list[int]]] = {}  # view -> edition, slots looked at, those found

    def slots(self, view: str, regions: RegionStore | None, num_slots: int, edition: str) -> list[int]:
        """The slots found by now, among the first `num_slots` at least, for the view of the model with this digest.

        `regions` is what the view was made of. An `edition` names one state of its rows and their hashes, to which
        rows may be added.
        """
        found_edition, num_seen, found = self._found.get(view, (edition, 0, list[int]()))
        if found_edition != edition:
            num_seen, found = 0, []
        if regions is None or num_seen >= num_slots or self._clock() < self._next_look:
            return found
        plain = self._hashes.plain_slots(num_seen, num_slots)
        try:
            confidences = regions.confidence_of_second(plain) if plain else np.zeros(0)
        except (Corrupt, LookupError, OSError, ValueError) as fault:  # searches go on, and do not look each time
            log.warning("which pictures show nothing cannot be told: %s", fault)
            if isinstance(fault, OSError):  # which may pass
                self._next_look = self._clock() + AGAIN_S
                return found
            confidences = np.ones(len(plain))
        found = [*found, *(slot for slot, sure in zip(plain, confidences, strict=True) if sure < LEAST_SURE)]
        self._found[view] = edition, num_slots, found
        return found
