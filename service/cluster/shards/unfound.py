"""Pictures that a replica must be able to find before it answers searches again, as its siblings do."""

import time
from collections.abc import Callable

from index.catalog.catalog import Catalog
from service.api.stored_pictures import StoredPictures

MOST_QUEUED = 1_000_000
BETWEEN_LOOKS_S = 1.0


class Unfound:
    """Pictures that are queued, or not in every view yet, at one moment. Later ones are not waited for."""

    def __init__(self, catalog: Catalog, pictures: StoredPictures, timer: Callable[[], float] = time.monotonic) -> None:
        self._catalog, self._pictures, self._timer = catalog, pictures, timer
        self._queued = {picture.image_id for picture in catalog.queue.waiting(MOST_QUEUED)}
        self._in_views: dict[str, int] | None = None  # model digest -> pictures that its view must hold
        self._looked = float("-inf")

    def are_found(self) -> bool:
        """Whether all of them can be found, or were set aside. Called by every search, it checks once a second."""
        if self._timer() - self._looked < BETWEEN_LOOKS_S:
            return False
        self._looked = self._timer()
        self._queued = self._catalog.queue.waiting_among(sorted(self._queued))
        if self._queued:
            return False
        states = {model.header.digest: state for model, state in self._pictures.view_states()}
        if self._in_views is None:  # views take pictures in this order, so the last position decides
            self._in_views = {digest: state.pictures + state.missing_pictures for digest, state in states.items()}
        return all(
            not state.missing_pictures or state.pictures >= self._in_views.get(digest, 0)
            for digest, state in states.items()
            if state.state != "not built"
        )
