"""A process that decodes pictures, as a worker has it."""

from collections.abc import Iterator

import pytest

from service.media.decode_pool import DecodePool
from service.media.decode_process import DecodeLimits


@pytest.fixture(scope="module")
def pool() -> Iterator[DecodePool]:
    """Decodes one picture at a time, with the limits of a service."""
    with DecodePool(1, DecodeLimits(timeout_s=20.0, memory_bytes=2**31, max_pixels=80_000_000)) as shared:
        yield shared
