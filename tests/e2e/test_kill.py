"""What was answered with 202 survives `kill -9` of anything at any moment, and nothing shows half.

REGARD_KILLS=30 REGARD_KILL_PHOTOS=300 asks for more than a daily run has time for.
"""

import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from index.catalog.catalog import Catalog
from tests.e2e.pictures import Photo, photos, queries
from tests.e2e.stack import Stack, until
from tests.e2e.stores import assert_whole
from tests.support.redis_server import RedisServer

KILLS = int(os.environ.get("REGARD_KILLS", "4"))
PHOTOS = int(os.environ.get("REGARD_KILL_PHOTOS", "15"))
NUM_QUERIES = 12
MODELS = {"REGARD_MODELS": "bfan-equal,scan-t2i-avg"}  # each that is served takes its time at every start
TIMEOUT_S = 2000 + 30 * KILLS + 5 * PHOTOS
Ranking = list[tuple[str, float]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ranking]:
    """The answer of each query after an ingestion that nothing interrupted."""
    pictures = photos(PHOTOS)
    with Stack(tmp_path_factory.mktemp("undisturbed"), MODELS) as stack:
        stack.start("api", "worker")
        stack.wait_ready()
        stack.wait_job(stack.ingest(pictures))
        return {query: stack.ranking(query) for query in queries(pictures, NUM_QUERIES)}


def upload(stack: Stack, part: Sequence[Photo]) -> list[str]:
    """The ids of a part, sent again until it is accepted: the sender of an unanswered request knows nothing."""
    while True:
        try:
            answer = stack.client.post(
                "/ingest",
                files=[("images", (photo.name, photo.content)) for photo in part],
                timeout=60,
            )
        except httpx.TransportError:
            time.sleep(0.1)
            continue
        if answer.status_code == 503 and answer.json()["type"].endswith(":not-ready"):  # it loads its models
            time.sleep(0.1)
            continue
        assert answer.status_code == 202, answer.text
        return [one["image_id"] for one in answer.json()["accepted"]]


def wait_for_a_moment(stack: Stack, rng: random.Random, since: float) -> None:
    """A random moment of a start, or of the work that a worker started after `since` does."""
    if rng.random() < 0.7:
        until(lambda: is_at_work(stack, since), "the worker never came to its work")
    time.sleep(rng.uniform(0, 2))


def is_at_work(stack: Stack, since: float) -> bool:
    """Whether a worker was heard from since then, and pictures wait for it."""
    path = stack.data / "catalog.sqlite"
    if not path.exists():
        return False
    with closing(Catalog(path)) as catalog:
        return (catalog.processes.last_heartbeat("worker") or 0.0) > since and catalog.counts()["queued"] > 0


def ingest_under_fire(stack: Stack, rng: random.Random, server: RedisServer | None) -> set[str]:
    """Upload everything while processes are killed at random moments; the ids that were accepted."""
    pictures = photos(PHOTOS)
    parts = [pictures[start :: KILLS + 1] for start in range(KILLS + 1)]
    victims = [("api",), ("worker",), ("api", "worker")]  # each once, then any
    sent: list[Future[list[str]]] = []
    since = time.time()
    with ThreadPoolExecutor(len(parts)) as senders:
        for number, part in enumerate(parts):
            sent.append(senders.submit(upload, stack, part))
            if number == KILLS:
                break
            wait_for_a_moment(stack, rng, since)
            roles = victims[number] if number < len(victims) else rng.choice(victims)
            if server is not None and number % 2 == 0:
                server.kill()
            stack.kill(*roles)
            since = time.time() if "worker" in roles else since
            stack.start(*roles)
            if server is not None:
                time.sleep(rng.uniform(0, 1))  # without Redis for a while, then with one that knows nothing
                server.start()
                server.flush()
        return {image_id for one in sent for image_id in one.result()}


def assert_as_undisturbed(stack: Stack, accepted: set[str], undisturbed: dict[str, Ranking]) -> None:
    """Everything accepted is there once, whole, findable, and found in the same order."""
    listed = stack.images()
    assert sorted(image["image_id"] for image in listed) == sorted(accepted)
    assert {image["state"] for image in listed} == {"ready"}
    for image in listed:
        found = stack.get(f"/images/{image['image_id']}/regions")["regions"]
        assert len(found) >= 1
        assert all(0 <= x1 < x2 <= image["width"] for x1, _, x2, _ in (region["box"] for region in found))
        assert stack.client.get(image["url"]).status_code == 200
        assert stack.client.get(image["thumbnail_url"]).status_code == 200
    for query, expected in undisturbed.items():
        got = dict(stack.ranking(query, k=min(100, len(accepted))))
        assert set(got) == accepted if len(accepted) <= 100 else len(got) == 100
        assert_same_ranking(stack.ranking(query), expected)


def assert_same_ranking(got: Ranking, expected: Ranking) -> None:
    """Equal pictures with scores within 1e-4; those closer together than that may have changed places."""
    assert [score for _, score in got] == pytest.approx([score for _, score in expected], abs=1e-4)
    for place, (image_id, _) in enumerate(expected):
        last = expected[-1][1]
        tied = {other for other, score in got if abs(score - expected[place][1]) <= 2e-4}
        assert image_id in tied or abs(expected[place][1] - last) <= 1e-4


@pytest.fixture(params=["polling", "redis"])
def server(request: pytest.FixtureRequest) -> RedisServer | None:
    """No Redis, or one that is killed as well."""
    return request.getfixturevalue("redis_server") if request.param == "redis" else None


@pytest.mark.timeout(TIMEOUT_S)
def test_nothing_accepted_is_lost_whatever_is_killed(
    tmp_path: Path, server: RedisServer | None, undisturbed: dict[str, Ranking]
) -> None:
    rng = random.Random(20 if server is None else 21)
    settings = MODELS | {"REGARD_DETECT_BATCH": "3"} | ({} if server is None else {"REGARD_REDIS_URL": server.url})
    with Stack(tmp_path / "stack", settings) as stack:
        stack.start("api", "worker")
        accepted = ingest_under_fire(stack, rng, server)
        assert len(accepted) == PHOTOS
        stack.wait_ready()
        until(lambda: all_found(stack, accepted), "some pictures never became ready", TIMEOUT_S)
        assert stack.get("/failures")["failures"] == []
        assert_as_undisturbed(stack, accepted, undisturbed)
        stack.stop("worker")
        stack.stop("api")
        assert_whole(stack.data, accepted)


def all_found(stack: Stack, accepted: set[str]) -> bool:
    """Whether every picture is in every view, or was given up."""
    given_up = len(stack.get("/failures")["failures"])
    return all(model["pictures"] + given_up == len(accepted) for model in stack.get("/models")["models"])
