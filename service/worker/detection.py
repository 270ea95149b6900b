"""Region records of decoded pictures, whichever of them the detector fails on, or does not outlive."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager

import torch

from index.detection_starts import DetectionStarts
from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture
from service.storage.region_records import RecordLayout, Records, pack

MOST_STARTS = 5  # detections that the worker did not outlive; also a kill by somebody else counts
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

    One that a worker did not outlive goes alone, so that no other is suspected with it.
    """
    together = image_ids[:most]
    suspects = [place for place, image_id in enumerate(together) if starts.get(image_id)]
    return max(1, suspects[0]) if suspects else len(together)


def packed_records(extractor: Extractor, decoded: Sequence[DecodedPicture]) -> Records:
    """The region records of decoded pictures; ValueError for features that are not finite."""
    detections = extractor.extract([one.picture for one in decoded])
    return pack(detections, [(one.width / one.picture.width, one.height / one.picture.height) for one in decoded])


def records_with_gaps(extractor: Extractor, decoded: Sequence[DecodedPicture | None]) -> Records:
    """Records in order; blank where there is no picture."""
    records = RecordLayout.of(extractor).blank(len(decoded))
    there = [place for place, one in enumerate(decoded) if one is not None]
    if there:
        made = packed_records(extractor, [one for one in decoded if one is not None])
        for name, array in records.items():
            array[there] = made[name]
    return records


def records_of_readable(
    extractor: Extractor, decoded: Sequence[DecodedPicture | None]
) -> tuple[Records, dict[int, str]]:
    """Records in order, and place -> reason for the pictures that the detector failed on, whose records are blank.

    torch.AcceleratorError where the device is lost, which is no picture's fault.
    """
    try:
        return records_with_gaps(extractor, decoded), {}
    except torch.AcceleratorError:
        raise
    except Exception:
        log.exception("detection failed for one of %d pictures", len(decoded))
    kept = list(decoded)
    failed: dict[int, str] = {}
    for place, one in enumerate(decoded):
        if one is not None:
            try:
                packed_records(extractor, [one])
            except torch.AcceleratorError:
                raise
            except Exception as error:  # whatever it is, one picture never stops the others
                failed[place], kept[place] = f"Finding regions failed: {error}", None
    return records_with_gaps(extractor, kept), failed
