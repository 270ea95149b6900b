"""Repeated attempts to decode stored pictures: a transient fault must not condemn a picture."""

from collections.abc import Callable

from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.worker.heartbeat import Heartbeat

DECODE_ATTEMPTS = 3


def decoded_in_attempts(decode: Callable[[], DecodedPicture], heartbeat: Heartbeat) -> DecodedPicture | DecodeFailed:
    """The picture, or the failure to decode it. A permanent failure or a timeout is not tried again."""
    attempts_left = DECODE_ATTEMPTS
    while True:
        heartbeat.beat()
        attempts_left -= 1
        try:
            return decode()
        except DecodeFailed as failed:
            if failed.final or failed.timed_out or not attempts_left:
                return failed
