"""Fault points: named places where a process kills itself, so that tests and `regard chaos` can choose where.

Nothing is armed unless `arm` is called; only the program `regard` does so, for the variable CHAOS_FAULT_POINT.
"""

import logging
import os
import signal
from enum import StrEnum

VARIABLE = "CHAOS_FAULT_POINT"  # not a setting, so without their prefix: no child inherits it as one

log = logging.getLogger(__name__)


class FaultPoint(StrEnum):
    """All fault points. One named `x-y` lies between the durable steps x and y."""

    UPLOAD_RECEIVED = "upload-received"  # in a temporary folder, and nothing announced
    ORIGINAL_WRITTEN = "original-written"  # durable under a temporary name, before the rename
    ORIGINAL_RENAMED = "original-renamed"  # before the folder is durable, and before the catalog knows it
    UPLOAD_COMMITTED = "upload-committed"  # before the response
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    DERIVED_WRITTEN = "derived-written"  # a thumbnail or a display copy, before its rename
    DERIVED_RENAMED = "derived-renamed"
    RECORDS_WRITTEN = "records-written"  # to a slab, before they are durable
    SLAB_CATALOG = "slab-catalog"  # region records are durable, but assigned to no picture
    CATALOG_VIEWS = "catalog-views"  # pictures are ready, but in no view
    WORDS_PLACES = "words-places"  # the words of captions are durable, but not their offsets
    ROWS_MANIFEST = "rows-manifest"  # rows of a view are durable, but not published
    REPLACEMENT_WRITTEN = "replacement-written"  # of a file such as a manifest, before its rename
    REPLACEMENT_RENAMED = "replacement-renamed"
    ERASURE_FILES = "erasure-files"  # descriptions are erased, files still exist
    FILES_FORGOTTEN = "files-forgotten"  # files are removed, but the catalog does not know


class _Armed:
    """The fault point where this process ends, and how many more times it is reached until then."""

    def __init__(self, point: FaultPoint, passes: int) -> None:
        self._point, self._passes_left = point, passes

    def reach(self, point: FaultPoint) -> None:
        if point is not self._point:
            return
        self._passes_left -= 1
        if self._passes_left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


_armed: _Armed | None = None


def reach(point: FaultPoint) -> None:
    """Kill this process if it is armed for the point; do nothing otherwise."""
    if _armed is not None:
        _armed.reach(point)


def arm(place: str | None) -> None:
    """Arm this process for `NAME` or `NAME:TIMES`: it kills itself when it reaches the point for that time. None
    disarms it.

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
