"""Region records, detected again from the originals, of pictures that already have a slot."""

import logging
from collections.abc import Callable, Sequence

from index.records import Image
from service.media.decode_pool import DecodedPicture
from service.worker.detection import ENDED_WORKER, MOST_STARTS, counted_start, records_of_readable
from service.worker.open_store import OpenStore

log = logging.getLogger(__name__)


class SlotRecords:
    """Writes records of consecutive slots. Hold the WriterLock."""

    def __init__(self, store: OpenStore, end_detection: Callable[[], None]) -> None:
        """`end_detection` is called before the detector gets a picture: it completes other detections in progress, so
        that no picture is blamed for a crash that another caused."""
        self._slab, self._catalog, self._extractor = store.slab, store.catalog, store.extractor
        self._end_detection = end_detection

    def write(
        self, slots: range, images: Sequence[Image], decoded: Sequence[DecodedPicture | str | None]
    ) -> dict[int, str | None]:
        """Write the records; returns slot -> reason for the blank ones.

        `decoded` has, for each slot, its picture, the reason why it cannot be read, or None without an original.
        """
        starts = self._catalog.starts
        num_starts = starts.of([image.image_id for image in images])
        crashed = [num_starts.get(image.image_id, 0) >= MOST_STARTS for image in images]
        pictures = list[DecodedPicture | None]()
        reasons: dict[int, str | None] = {}
        for row, (item, has_crashed) in enumerate(zip(decoded, crashed, strict=True)):
            if isinstance(item, DecodedPicture) and not has_crashed:
                pictures.append(item)
            else:
                pictures.append(None)
                reasons[row] = ENDED_WORKER if isinstance(item, DecodedPicture) else item
        self._end_detection()
        image_ids = [image.image_id for image, item in zip(images, pictures, strict=True) if item is not None]
        with counted_start(starts, image_ids):
            records, failed = records_of_readable(self._extractor, pictures)
        starts.end([images[row].image_id for row in failed])
        reasons |= failed
        for row, reason in reasons.items():
            if reason is not None:
                log.error("picture %s has no regions any more: %s", images[row].image_id, reason)
        self._slab.append(slots.start, records)
        return {slots[row]: reason for row, reason in reasons.items()}
