"""Bounds on requests that do the same at the same time."""

import pytest

from service.api.admission.request_slots import RequestSlots
from service.errors import Overloaded


def test_only_so_many_uploads_are_open_at_a_time() -> None:
    slots = RequestSlots.of_uploads(2)
    with slots.taken(), slots.taken():
        with pytest.raises(Overloaded) as refused, slots.taken():
            pass
        assert int(refused.value.headers["Retry-After"]) > 0
        assert refused.value.detail.startswith("2 uploads")
    with pytest.raises(ZeroDivisionError), slots.taken():
        raise ZeroDivisionError
    assert slots.num_open == 0
