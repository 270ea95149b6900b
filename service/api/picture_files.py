"""Files of pictures for browsers: without metadata, in a format that they show. Decoding processes make them."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from index.records import Image
from service.errors import NotFound, Overloaded, ReadOnlyCollection, UnreadablePicture
from service.media.decode_pool import DecodeFailed, DecodePool, ErasedMeanwhile
from service.media.formats import MEDIA_TYPES
from service.storage.originals import Originals

MOST_WAITING = 8  # requests that wait for a file to be made, each in a thread
PREPARING_RETRY_S = 2

Made = TypeVar("Made")

log = logging.getLogger(__name__)


class PictureFiles:
    """The files that the worker makes of the originals.

    A file that is missing, such as that of a queued picture, is made by a decoding process, and stored.
    """

    def __init__(self, originals: Originals, pool: DecodePool, read_only: bool = False) -> None:
        """`read_only`: no file can be made."""
        self._originals, self._pool, self._read_only = originals, pool, read_only
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)

    def find(self, image: Image) -> tuple[Path, str]:
        """The path of the picture's file to show, and its media type.

        If it must be made first, raises NotFound where the original is missing, UnreadablePicture where it cannot be
        decoded, Overloaded where too many requests wait for that.
        """
        path = self._originals.find_stripped(image.image_id, image.extension)
        if path is None:
            place = self._originals.stripped(image.image_id, image.extension)
            path = self._make(image, "file to show", lambda original: self._pool.strip(original, place))
        return path, MEDIA_TYPES[path.suffix[1:]]

    def thumbnail(self, image: Image) -> tuple[Path, str]:
        """The path of the picture's thumbnail, and its media type. Raises what `find` does."""
        place = self._originals.thumbnail(image.image_id)
        if self._originals.find_thumbnail(image.image_id) is None:
            self._make(image, "thumbnail", lambda original: self._pool.make_thumbnail(original, place))
        return place, MEDIA_TYPES["jpg"]

    def _make(self, image: Image, name: str, make: Callable[[Path], Made]) -> Made:
        """The result of `make`, which writes a file from the picture's original."""
        original = self._originals.path(image.image_id, image.extension)
        if not original.is_file():
            log.error("the original of picture %s is missing: there is no %s", image.image_id, original)
            raise missing_original(image.image_id)
        if self._read_only:
            raise ReadOnlyCollection(
                f"The {name} of picture {image.image_id} is not made yet, and the data directory may not be"
                " written here."
            )
        if not self._waiting.acquire(blocking=False):
            raise Overloaded(
                "Many pictures are being prepared to be shown; ask again shortly.", retry_after=PREPARING_RETRY_S
            )
        try:
            return make(original)
        except ErasedMeanwhile:
            raise NotFound.picture(image.image_id) from None
        except DecodeFailed as failed:
            raise UnreadablePicture(failed.reason) from failed
        finally:
            self._waiting.release()


def missing_original(image_id: str, is_damaged: bool = False) -> NotFound:
    """The problem of a picture in the catalog whose original is not on disk, or damaged."""
    return NotFound(
        f"The original of picture {image_id} is {'damaged' if is_damaged else 'missing'} on the server; upload the same"
        " file again to restore it."
    )
