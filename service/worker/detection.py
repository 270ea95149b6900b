"""Region records of decoded pictures, whichever of them the detector fails on or crashes the worker with."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from traceback import clear_frames

import torch

from index.catalog.ingestion.detection_starts import DetectionStarts
from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture
from service.storage.regions.records import RecordLayout, Records, pack

MOST_STARTS = 5  # detections that may have crashed the worker; also a kill by somebody else counts
ENDED_WORKER = f"Finding regions ended the worker {MOST_STARTS} times, perhaps for want of memory."

log = logging.getLogger(__name__)


@contextmanager
def counted_start(starts: DetectionStarts, image_ids: Sequence[str]) -> Iterator[None]:
    """Counts a start of the pictures, which ends as `ended_with_fault` says."""
    if image_ids:
        starts.begin(image_ids)
    with ended_with_fault(starts, image_ids):
        yield


@contextmanager
def ended_with_fault(starts: DetectionStarts, image_ids: Sequence[str]) -> Iterator[None]:
    """Ends the starts of the pictures where the block ends with an exception and not a kill.

    Where it ends well, the commit of what was found does so. Where it was cancelled before it began, this start alone
    is taken back: what the pictures did to workers before stays counted.
    """
    try:
        yield
    except CancelledError:
        starts.take_back(image_ids)
        raise
    except BaseException:
        starts.end(image_ids)
        raise


def batch_length(image_ids: Sequence[str], starts: Mapping[str, int], most: int) -> int:
    """The number of the first pictures that go to the detector together, `most` at most.

    A picture whose detection may have crashed a worker goes alone, so that no other is suspected with it.
    """
    together = image_ids[:most]
    suspects = [place for place, image_id in enumerate(together) if starts.get(image_id)]
    return max(1, suspects[0]) if suspects else len(together)


def packed_records(extractor: Extractor, decoded: Sequence[DecodedPicture]) -> Records:
    """The region records of decoded pictures; ValueError for features that are not finite."""
    try:
        detections = extractor.extract([one.picture for one in decoded])
    except Exception as fault:
        clear_frames(fault.__traceback__)  # or what they hold of a device's memory is held for as long as the fault is
        raise
    return pack(detections, [(one.width / one.picture.width, one.height / one.picture.height) for one in decoded])


def detected_parts(
    together: Callable[[], Records],
    pictures: Sequence[DecodedPicture],
    find: Callable[[Sequence[DecodedPicture]], Records],
) -> Iterator[tuple[Sequence[int], Records | str]]:
    """Places of the pictures and their records: of all `together` or, where the detector fails on these, one by one
    as `find` gives them, with the reason in the place of what could not be found.

    What no picture is to blame for is raised: CancelledError, torch.AcceleratorError where the device is lost, and
    torch.OutOfMemoryError where it has none for a single picture. The next process starts afresh.
    """
    try:
        records = together()
    except (torch.AcceleratorError, CancelledError):
        raise
    except Exception as fault:  # whatever it is, one picture never stops the others
        log.exception("detection failed for %d pictures together", len(pictures))
        if len(pictures) == 1:
            if isinstance(fault, torch.OutOfMemoryError):
                raise
            yield [0], f"Finding regions failed: {fault}"
            return
    else:
        yield range(len(pictures)), records
        return
    for place, picture in enumerate(pictures):
        for _, part in detected_parts(partial(find, [picture]), [picture], find):
            yield [place], part


def records_of_readable(
    extractor: Extractor, decoded: Sequence[DecodedPicture | None]
) -> tuple[Records, dict[int, str]]:
    """Records in order, blank where there is no picture, and place -> reason for the pictures that the detector failed
    on, whose records are blank. Raises what `detected_parts` raises."""
    records = RecordLayout.of(extractor).blank(len(decoded))
    failed: dict[int, str] = {}
    there = [(place, one) for place, one in enumerate(decoded) if one is not None]
    if not there:
        return records, failed
    places, pictures = zip(*there, strict=True)
    find = partial(packed_records, extractor)
    for part, found in detected_parts(partial(find, pictures), pictures, find):
        own = [places[number] for number in part]
        if isinstance(found, str):
            failed |= dict.fromkeys(own, found)
        else:
            for name, array in records.items():
                array[own] = found[name]
    return records, failed
