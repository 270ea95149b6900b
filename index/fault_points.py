"""Fault points: named places at which a process kills itself, so that tests and `regard chaos` can say where.

Nothing is armed unless somebody calls `arm`, which the program `regard` does for the variable CHAOS_FAULT_POINT alone.
"""

import logging
import os
import signal
from enum import StrEnum

VARIABLE = "CHAOS_FAULT_POINT"  # without the prefix of settings: no setting, and no child inherits it as one

log = logging.getLogger(__name__)


class FaultPoint(StrEnum):
    """Every fault point. What is named `x-y` lies between the durable steps x and y."""

    UPLOAD_RECEIVED = "upload-received"  # in a temporary folder, and nothing announced
    ORIGINAL_WRITTEN = "original-written"  # durable under its temporary name, before the rename
    ORIGINAL_RENAMED = "original-renamed"  # before the folder is durable, and before the catalog knows it
    UPLOAD_COMMITTED = "upload-committed"  # before anybody is told
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    DERIVED_WRITTEN = "derived-written"  # a thumbnail, or a file to show, before its rename
    DERIVED_RENAMED = "derived-renamed"
    RECORDS_WRITTEN = "records-written"  # of a slab, before they are durable
    SLAB_CATALOG = "slab-catalog"  # region records are durable, and no picture has them
    CATALOG_VIEWS = "catalog-views"  # pictures are ready, and in no view
    WORDS_PLACES = "words-places"  # the words of captions are durable, and no place points at them
    ROWS_MANIFEST = "rows-manifest"  # rows of a view are durable, and do not count
    REPLACEMENT_WRITTEN = "replacement-written"  # of a small file such as a manifest, before its rename
    REPLACEMENT_RENAMED = "replacement-renamed"
    ERASURE_FILES = "erasure-files"  # descriptions are erased, files are there
    FILES_FORGOTTEN = "files-forgotten"  # files are gone, and the catalog does not know


class _Armed:
    """The fault point at which this process ends, and how often it is passed before."""

    def __init__(self, point: FaultPoint, passes: int) -> None:
        self._point, self._left = point, passes

    def reach(self, point: FaultPoint) -> None:
        if point is not self._point:
            return
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


_armed: _Armed | None = None


def reach(point: FaultPoint) -> None:
    """Kill this process if it is armed for the point; otherwise nothing."""
    if _armed is not None:
        _armed.reach(point)


def arm(place: str | None) -> None:
    """Arm this process for `NAME` or `NAME:TIMES`, by which it dies when it is there for that time; None disarms.

    ValueError for anything else.
    """
    global _armed  # noqa: PLW0603 - a process dies as a whole
    if place is None:
        _armed = None
        return
    name, _, times = place.partition(":")
    if name not in list(FaultPoint) or (times and not (times.isascii() and times.isdigit() and int(times))):
        raise ValueError(f"{VARIABLE} is {place!r}, not one of {', '.join(FaultPoint)}, with :TIMES perhaps")
    _armed = _Armed(FaultPoint(name), int(times or 1))
    log.warning("%s=%s: this process will kill itself there", VARIABLE, place)
