"""Region records of decoded pictures, whichever of them the detector fails on."""

import logging
from collections.abc import Sequence

import torch

from models.extractors.base import Extractor
from service.media.decode_pool import DecodedPicture
from service.storage.region_records import RecordLayout, Records, pack

log = logging.getLogger(__name__)


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
