"""More searches than a slow model can answer: what is over the bound is told to come back, and nothing piles up.

REGARD_LOAD_REQUESTS=2000 asks for more than a daily run has time for.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.single_threads import usual_threads
from service.api.admission.request_threads import CHANGE_THREADS, HEALTH_THREADS, LOOKUP_THREADS, SEARCH_THREADS
from service.api.app import BLOCKING_THREADS
from service.settings import Settings
from tests.support.load_run import MB, SlowService, slow_service
from tests.support.slow_service import QUEUE_COST

REQUESTS = int(os.environ.get("REGARD_LOAD_REQUESTS", "300"))
CLIENTS = 50
WARM_UP, ROUNDS = 2, 3
OWN_THREADS = SEARCH_THREADS + usual_threads() + LOOKUP_THREADS + CHANGE_THREADS + HEALTH_THREADS
MOST_THREADS = OWN_THREADS + Settings().max_uploads + BLOCKING_THREADS + 12  # and those of its own kind
MOST_GROWTH = 24 * MB  # from one round to a later one; a request alone that is kept would take more, 300 times over


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SlowService]:
    with slow_service(tmp_path) as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(600 + REQUESTS)
def test_what_is_too_much_is_refused_and_leaves_nothing(service: SlowService) -> None:
    for _ in range(WARM_UP):
        before = service.load(REQUESTS, CLIENTS)
    for _ in range(ROUNDS):
        found = service.load(REQUESTS, CLIENTS)
        assert set(found.statuses) == {200, 503}
        assert found.statuses.total() == REQUESTS
        assert found.without_retry == 0
        assert 0 < found.highest_cost <= QUEUE_COST
        assert found.resident_bytes - before.resident_bytes < MOST_GROWTH
        assert found.threads <= MOST_THREADS
        assert found.catalog_handles <= 2 * found.threads + 1
        assert found.other_handles <= before.other_handles + 4  # connections that are about to be closed
