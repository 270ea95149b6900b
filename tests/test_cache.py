"""Kept answers: what counts as the same question, bounds, and a Redis that is not there."""

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from service.cache import LocalCache, RedisCache, cache_key


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """A real server on a port of its own, started and killed by the test."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None
        self._process = subprocess.Popen(
            [program, "--port", str(self.port), "--save", "", "--dir", str(self._folder)],
            stdout=subprocess.DEVNULL,
        )
        with redis.Redis(port=self.port) as probe:
            for _ in range(400):
                try:
                    probe.ping()
                    return
                except redis.ConnectionError:
                    time.sleep(0.05)
        pytest.fail("redis-server did not answer within 20 s")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    server = RedisServer(tmp_path)
    yield server
    server.kill()


@given(st.lists(st.tuples(st.integers(0, 20), st.binary(max_size=40)), max_size=60))
def test_the_local_cache_answers_only_what_was_put_last_and_stays_within_its_bytes(
    puts: list[tuple[int, bytes]],
) -> None:
    async def use() -> None:
        cache, last = LocalCache(max_bytes=100), {}
        for number, answer in puts:
            await cache.put(str(number), answer)
            last[str(number)] = answer
            kept = {key: found for key in last if (found := await cache.get(key)) is not None}
            assert all(last[key] == found for key, found in kept.items())
            assert sum(map(len, kept.values())) <= 100
            assert kept.get(str(number)) == answer

    asyncio.run(use())


def test_the_least_recently_used_answer_goes_first() -> None:
    async def use() -> list[bytes | None]:
        cache = LocalCache(max_bytes=2)
        await cache.put("a", b"1")
        await cache.put("b", b"2")
        await cache.get("a")
        await cache.put("c", b"3")
        return [await cache.get(key) for key in "abc"]

    assert asyncio.run(use()) == [b"1", None, b"3"]


def test_every_part_of_a_question_counts() -> None:
    asked = {"query": "a dog", "k": 10, "filter": {"tags": {"year": 2024}}, "index_version": "7"}
    again = dict(reversed(list(asked.items())))
    assert cache_key(asked) == cache_key(again)
    others = [
        asked | change
        for change in (
            {"query": "a Dog"},
            {"k": 11},
            {"filter": {"tags": {"year": "2024"}}},
            {"filter": None},
            {"index_version": "8"},
        )
    ]
    assert len({cache_key(other) for other in [asked, *others]}) == 6


@pytest.mark.redis
def test_redis_keeps_answers_and_is_a_miss_once_it_is_gone(redis_server: RedisServer) -> None:
    redis_server.start()

    async def use() -> None:
        cache = RedisCache.connect(redis_server.url, seconds_kept=60)
        assert await cache.get("x") is None
        await cache.put("x", b"\x00answer")
        assert await cache.get("x") == b"\x00answer"
        redis_server.kill()
        assert await cache.get("x") is None
        await cache.put("x", b"other")
        await cache.close()

    asyncio.run(use())


@pytest.mark.redis
def test_redis_is_used_again_some_time_after_it_came_back(redis_server: RedisServer) -> None:
    now = [0.0]

    async def use() -> list[bytes | None]:
        client = redis.asyncio.Redis.from_url(redis_server.url, retry=None)
        cache = RedisCache(client, seconds_kept=60, seconds_left_alone=2, clock=lambda: now[0])
        await cache.put("x", b"lost")
        redis_server.start()
        await cache.put("x", b"also lost")
        answers = [await cache.get("x"), await client.get("regard:answer:x")]
        now[0] += 3
        await cache.put("x", b"kept")
        answers.append(await cache.get("x"))
        await cache.close()
        return answers

    assert asyncio.run(use()) == [None, None, b"kept"]


def test_a_server_that_never_answers_costs_one_short_wait() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()

        async def use() -> list[bytes | None]:
            cache = RedisCache.connect(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", 60, timeout=0.05)
            answers = [await cache.get("x"), await cache.get("x")]
            await cache.close()
            return answers

        assert asyncio.run(use()) == [None, None]
