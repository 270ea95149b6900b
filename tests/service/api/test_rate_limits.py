"""Each key may ask so often: here, in Redis with several processes, and here again while Redis is away."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from service.api.admission.capacity import open_rate_limiter
from service.api.admission.rate_limits import LocalRateLimiter, NoLimit, RateLimiter
from service.api.admission.redis_rate_limits import ASKED_AT_ONCE, RedisRateLimiter
from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from service.settings import Settings
from tests.support.library import NOW, Library
from tests.support.redis_server import RedisServer
from tests.support.web_app import problem, served


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(limiter: RateLimiter, ask: Callable[[], Awaitable[None]]) -> None:
    async def both() -> None:
        await ask()
        await limiter.close()

    asyncio.run(both())


@given(
    rate=st.floats(0.1, 100.0),
    burst=st.integers(1, 20),
    pauses=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60),
)
def test_never_more_than_the_burst_and_the_rate_allow_and_waiting_as_told_helps(
    rate: float, burst: int, pauses: list[float]
) -> None:
    clock = Clock()
    limiter = LocalRateLimiter(rate, burst, clock)

    async def ask() -> None:
        for admitted, pause in enumerate(pauses, start=1):
            clock.now += pause
            wait_s = await limiter.take("a")
            assert wait_s >= 0
            if wait_s:
                clock.now += wait_s * 1.000001 + 1e-9
                assert await limiter.take("a") == 0
            assert admitted <= burst + rate * clock.now + 1e-6

    run(limiter, ask)


def test_keys_do_not_share_a_bucket() -> None:
    limiter = LocalRateLimiter(1.0, 1, Clock())

    async def ask() -> None:
        assert await limiter.take("a") == 0
        assert await limiter.take("a") == 1.0
        assert await limiter.take("b") == 0

    run(limiter, ask)


@pytest.mark.redis
def test_processes_share_a_bucket_in_redis(redis_server: RedisServer) -> None:
    one = RedisRateLimiter.connect(redis_server.url, 0.001, 10, timeout=20.0)
    other = RedisRateLimiter.connect(redis_server.url, 0.001, 10, timeout=20.0)

    async def ask() -> None:
        waits = await asyncio.gather(*(limiter.take("a") for limiter in [one, other] * 10))
        assert sum(wait == 0 for wait in waits) == 10
        assert all(wait == 0 or 900 < wait <= 1000 for wait in waits)
        assert await other.take("b") == 0
        await other.close()

    run(one, ask)


@pytest.mark.redis
def test_many_requests_at_once_are_all_counted_in_redis(redis_server: RedisServer) -> None:
    limiter = RedisRateLimiter.connect(redis_server.url, 0.001, 100, timeout=20.0)

    async def ask() -> None:
        waits = await asyncio.gather(*(limiter.take("a") for _ in range(400)))
        assert sum(wait == 0 for wait in waits) == 100

    run(limiter, ask)


def test_a_redis_that_never_answers_is_waited_for_by_few_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        limiter = RedisRateLimiter.connect(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", 0.001, 100)

        async def ask() -> None:
            waits = await asyncio.gather(*(limiter.take("a") for _ in range(400)))
            assert sum(wait == 0 for wait in waits) == 100

        run(limiter, ask)
        silent.setblocking(False)
        connections = 0
        with suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                connections += 1
    assert connections == ASKED_AT_ONCE
    assert len(caplog.records) == 1


@pytest.mark.redis
def test_a_bucket_fills_again_by_the_clock_of_redis(redis_server: RedisServer) -> None:
    limiter = RedisRateLimiter.connect(redis_server.url, 0.001, 1, timeout=20.0)

    async def ask() -> None:
        assert await limiter.take("a") == 0
        assert 900 < await limiter.take("a") <= 1000
        client.hincrbyfloat("regard:rate:a", "at", -600)  # as if so many seconds had passed
        assert 300 < await limiter.take("a") <= 400
        client.hincrbyfloat("regard:rate:a", "at", -401)
        assert await limiter.take("a") == 0
        assert 900 < await limiter.take("a") <= 1000

    with redis.Redis(port=redis_server.port) as client:
        run(limiter, ask)


@pytest.mark.redis
def test_redis_forgets_a_bucket_once_it_would_be_full(redis_server: RedisServer) -> None:
    limiter = RedisRateLimiter.connect(redis_server.url, 0.01, 10, timeout=20.0)

    async def ask() -> None:
        assert await limiter.take("a") == 0

    run(limiter, ask)
    with redis.Redis(port=redis_server.port) as client:
        assert 0 < client.pttl("regard:rate:a") <= 1_001_000


@pytest.mark.redis
def test_a_clock_of_redis_that_is_set_back_empties_no_bucket(redis_server: RedisServer) -> None:
    limiter = RedisRateLimiter.connect(redis_server.url, 1.0, 1, timeout=20.0)
    with redis.Redis(port=redis_server.port) as client:
        seconds, _ = client.time()
        client.hset("regard:rate:a", mapping={"tokens": 1, "at": seconds + 3600})

    async def ask() -> None:
        assert await limiter.take("a") == 0

    run(limiter, ask)
    with redis.Redis(port=redis_server.port) as client:  # not this process, whose bucket would have been full as well
        assert float(client.hget("regard:rate:a", "tokens") or 1) == 0


@pytest.mark.redis
def test_without_redis_each_process_counts_and_later_redis_again(redis_server: RedisServer) -> None:
    clock = Clock()
    limiter = RedisRateLimiter.connect(redis_server.url, 0.001, 2, timeout=20.0, clock=clock)

    async def ask() -> None:
        assert await limiter.take("a") == 0
        redis_server.kill()
        assert [await limiter.take("a") == 0 for _ in range(3)] == [True, True, False]
        redis_server.start()
        assert await limiter.take("a") > 0  # left alone for a while
        clock.now += 3.0
        assert [await limiter.take("a") == 0 for _ in range(3)] == [True, True, False]

    run(limiter, ask)


def test_settings_choose_the_limiter() -> None:
    assert isinstance(open_rate_limiter(Settings(rate_limit=0, redis_url="redis://127.0.0.1:1/0")), NoLimit)
    assert isinstance(open_rate_limiter(Settings()), LocalRateLimiter)
    assert isinstance(open_rate_limiter(Settings(redis_url="redis://127.0.0.1:1/0")), RedisRateLimiter)


def test_a_key_that_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    made = [create_key(name, Permission.READ, NOW) for name in ("one", "two")]
    change_keys(tmp_path / "keys.json", lambda keys: [stored for _, stored in made])
    with served(Library(tmp_path), rate_limit=0.01, rate_burst=3) as api:
        first, second = ({"Authorization": f"Bearer {key}"} for key, _ in made)
        assert [api.request("GET", "/tags", headers=first).status_code for _ in range(4)] == [200, 200, 200, 429]
        answer = api.request("GET", "/tags", headers=first)
        said = problem(answer, 429, "rate-limited")
        assert int(answer.headers["retry-after"]) == said["retry_after"]
        assert 90 <= said["retry_after"] <= 100
        assert api.request("GET", "/tags", headers=second).status_code == 200
        for _ in range(10):  # what needs no key is not counted
            assert api.request("GET", "/livez", headers=first).status_code == 200


def test_whoever_has_to_wait_for_a_moment_is_never_told_to_come_back_at_once(tmp_path: Path) -> None:
    key, stored = create_key("one", Permission.READ, NOW)
    change_keys(tmp_path / "keys.json", lambda keys: [stored])
    with served(Library(tmp_path), rate_limit=3.0, rate_burst=1) as api:
        limiter = api.services.capacity.rate_limiter
        assert isinstance(limiter, LocalRateLimiter)
        limiter._clock = Clock()
        first, second = (api.request("GET", "/tags", headers={"Authorization": f"Bearer {key}"}) for _ in range(2))
        assert first.status_code == 200
        assert "try again in 1 s" in problem(second, 429, "rate-limited")["detail"]
        assert second.headers["retry-after"] == "1"


def test_without_keys_nobody_is_counted(tmp_path: Path) -> None:
    with served(Library(tmp_path), rate_limit=0.001, rate_burst=1) as api:
        assert {api.get("/tags").status_code for _ in range(5)} == {200}
