"""Region records of decoded pictures, with failures and crashes of the detector confined to the picture that causes
them."""

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

MOST_STARTS = 5  # detections that may have crashed the worker; a kill from outside counts, too
ENDED_WORKER = f"Finding regions ended the worker {MOST_STARTS} times, perhaps for want of memory."

log = logging.getLogger(__name__)


@contextmanager
def counted_start(starts: DetectionStarts, image_ids: Sequence[str]) -> Iterator[None]:
    """Count a start of the pictures' detection; `ended_with_fault` says how it ends."""
    if image_ids:
        starts.begin(image_ids)
    with ended_with_fault(starts, image_ids):
        yield


@contextmanager
def ended_with_fault(starts: DetectionStarts, image_ids: Sequence[str]) -> Iterator[None]:
    """End the starts of the pictures if the block raises an exception. A kill leaves them counted.

    On success, the commit of the regions ends them. On CancelledError the detection had not begun: only this start is
    taken back, and earlier ones, which may have crashed workers, stay counted.
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
    """The number of leading pictures that go to the detector together, at most `most`.

    A picture whose detection may have crashed a worker goes alone, so that no other picture falls under suspicion.
    """
    candidates = image_ids[:most]
    suspects = [place for place, image_id in enumerate(candidates) if starts.get(image_id)]
    return max(1, suspects[0]) if suspects else len(candidates)


def packed_records(extractor: Extractor, decoded: Sequence[DecodedPicture]) -> Records:
    """The region records of decoded pictures; ValueError for features that are not finite."""
    try:
        detections = extractor.extract([item.picture for item in decoded])
    except Exception as fault:
        clear_frames(fault.__traceback__)  # so that the traceback keeps no device memory allocated
        raise
    scales = [(item.width / item.picture.width, item.height / item.picture.height) for item in decoded]
    return pack(detections, scales)


def detected_parts(
    together: Callable[[], Records],
    pictures: Sequence[DecodedPicture],
    find: Callable[[Sequence[DecodedPicture]], Records],
) -> Iterator[tuple[Sequence[int], Records | str]]:
    """Indexes of pictures with their records, or with the reason why they have none.

    `together` gives the records of all pictures. Where the detector fails on these, `find` gives those of single
    pictures, one after the other.

    Faults that no picture causes are raised: CancelledError, torch.AcceleratorError where the device is lost, and
    torch.OutOfMemoryError where a single picture does not fit. The next process starts afresh.
    """
    try:
        records = together()
    except (torch.AcceleratorError, CancelledError):
        raise
    except Exception as fault:  # of any kind: one picture must never stop the others
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
    """Records in order, blank where there is no picture, and index -> reason for the pictures that the detector failed
    on, whose records are blank, too. Raises what `detected_parts` raises."""
    records = RecordLayout.of(extractor).blank(len(decoded))
    failed: dict[int, str] = {}
    readable = [(row, picture) for row, picture in enumerate(decoded) if picture is not None]
    if not readable:
        return records, failed
    rows, pictures = zip(*readable, strict=True)
    find = partial(packed_records, extractor)
    for part, result in detected_parts(partial(find, pictures), pictures, find):
        part_rows = [rows[number] for number in part]
        if isinstance(result, str):
            failed |= dict.fromkeys(part_rows, result)
        else:
            for name, array in records.items():
                array[part_rows] = result[name]
    return records, failed
