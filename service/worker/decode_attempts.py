"""Decoding of stored pictures whose regions are found once more: faults that pass are no verdict on a picture."""

from collections.abc import Callable

from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.worker.heartbeat import Heartbeat

DECODE_ATTEMPTS = 3


def decoded_in_attempts(decode: Callable[[], DecodedPicture], heartbeat: Heartbeat) -> DecodedPicture | DecodeFailed:
    """The picture, or why it cannot be had. What failed for good, or took all of its time, is not tried again."""
    left = DECODE_ATTEMPTS
    while True:
        heartbeat.beat()
        left -= 1
        try:
            return decode()
        except DecodeFailed as failed:
            if failed.final or failed.timed_out or not left:
                return failed
