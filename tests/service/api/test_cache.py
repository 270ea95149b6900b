"""Kept answers: what counts as the same question, bounds, and a Redis that is not there."""

import socket
import threading
import time

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from index.records import Collection
from service.api.cache import LARGEST, LocalCache, cache_key
from service.api.redis_cache import RedisCache
from tests.support.redis_server import RedisServer

OURS = Collection("aa", b"secret")
PATIENT_S = 20.0  # a Redis that this machine holds up is not one that does not answer


@given(st.lists(st.tuples(st.integers(0, 8), st.binary(max_size=8)), max_size=60))
def test_the_local_cache_holds_the_answers_used_last(puts: list[tuple[int, bytes]]) -> None:
    cache, used = LocalCache(max_entries=4), dict[str, bytes]()
    for number, answer in puts:
        key = str(number)
        cache.put(key, answer)
        used.pop(key, None)
        used[key] = answer
        kept = list(used)[-4:]
        assert cache.get(kept[0]) == used[kept[0]]
        used[kept[0]] = used.pop(kept[0])  # just used: now the last to go
        assert [cache.get(old) for old in list(used)[:-4]] == [None] * (len(used) - 4)


def test_an_answer_too_large_to_keep_is_not_kept_and_neither_is_the_one_it_replaces() -> None:
    cache = LocalCache(max_entries=4)
    cache.put("x", b"small")
    cache.put("x", b"." * (LARGEST + 1))
    assert cache.get("x") is None


def test_no_entries_means_no_cache() -> None:
    cache = LocalCache(max_entries=0)
    cache.put("x", b"1")
    assert not cache.keeps_any
    assert cache.get("x") is None
    assert LocalCache(max_entries=1).keeps_any


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
    cache = RedisCache.connect(redis_server.url, 60, OURS, "f", PATIENT_S)
    assert cache.get("x") is None
    cache.put("x", b"\x00answer")
    assert cache.get("x") == b"\x00answer"
    redis_server.kill()
    assert cache.get("x") is None
    cache.put("x", b"other")
    cache.close()


@pytest.mark.redis
def test_redis_is_used_again_some_time_after_it_came_back(redis_server: RedisServer) -> None:
    now = [0.0]
    redis_server.kill()

    client = redis.Redis.from_url(redis_server.url, retry=None)
    cache = RedisCache(client, seconds_kept=60, collection=OURS, answer_format="f", clock=lambda: now[0])
    cache.put("x", b"lost")
    redis_server.start()
    cache.put("x", b"also lost")
    answers = [cache.get("x"), client.get("regard:aa:answer:f:x")]
    now[0] += 3
    cache.put("x", b"kept")
    answers.append(cache.get("x"))
    cache.close()
    assert answers == [None, None, b"kept"]


def test_a_server_that_never_answers_costs_one_short_wait() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()

        cache = RedisCache.connect(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", 60, OURS, "f", timeout=0.05)
        answers = [cache.get("x"), cache.get("x")]
        cache.close()
        assert answers == [None, None]


THEIRS = Collection("bb", b"another secret")


@pytest.mark.redis
def test_two_collections_on_one_redis_do_not_answer_for_each_other(redis_server: RedisServer) -> None:
    ours, theirs, later = (
        RedisCache.connect(redis_server.url, 60, collection, form, PATIENT_S)
        for collection, form in ((OURS, "f"), (THEIRS, "f"), (OURS, "another form"))
    )
    ours.put("x", b"ours")
    theirs.put("x", b"theirs")
    answers = [ours.get("x"), theirs.get("x"), later.get("x")]
    for cache in (ours, theirs, later):
        cache.close()
    assert answers == [b"ours", b"theirs", None]


@pytest.mark.redis
@pytest.mark.parametrize("forged", [b"", b"{}", b"x" * 500, "signed by others", "signed for another question"])
def test_an_answer_that_was_not_written_here_is_a_miss(redis_server: RedisServer, forged: bytes | str) -> None:
    client = redis.Redis.from_url(redis_server.url)
    cache = RedisCache.connect(redis_server.url, 60, OURS, "f", PATIENT_S)
    cache.put("x", b"answer")
    content: bytes | str | None = forged
    if forged == "signed by others":
        other = RedisCache.connect(redis_server.url, 60, Collection("aa", b"guessed"), "f", PATIENT_S)
        other.put("x", b"forged")
        other.close()
    else:
        if forged == "signed for another question":
            cache.put("y", b"answer to y")
            content = client.get("regard:aa:answer:f:y")
        assert content is not None
        client.set("regard:aa:answer:f:x", content)
    answers = [cache.get("x")]
    cache.put("x", b"answer")
    answers.append(cache.get("x"))
    cache.close()
    client.close()
    assert answers == [None, b"answer"]


class SlowRedis:
    """A client that answers when it may, and counts who waits."""

    def __init__(self) -> None:
        self.may_answer, self.asked = threading.Event(), 0

    def get(self, key: str) -> None:
        self.asked += 1
        if not self.may_answer.wait(30):
            raise redis.TimeoutError("too late")

    def set(self, key: str, value: bytes, px: int) -> None:
        self.get(key)


def test_until_it_has_answered_one_thread_at_a_time_asks_it() -> None:
    client = SlowRedis()
    cache = RedisCache(client, seconds_kept=60, collection=OURS, answer_format="f")  # type: ignore[arg-type]
    first = threading.Thread(target=cache.get, args=("x",))
    first.start()
    while not client.asked:
        time.sleep(0.001)
    for _ in range(3):  # at once: the first one still waits
        assert cache.get("x") is None
        cache.put("x", b"answer")
    assert client.asked == 1
    client.may_answer.set()
    first.join()
    client.may_answer.clear()
    others = [threading.Thread(target=cache.get, args=("x",)) for _ in range(3)]
    for other in others:
        other.start()
    while client.asked < 4:
        time.sleep(0.001)
    client.may_answer.set()
    for other in others:
        other.join()


def test_the_local_cache_is_one_for_all_threads() -> None:
    cache, faults = LocalCache(max_entries=3), list[object]()

    def use(number: int) -> None:
        for turn in range(2000):
            key = str((number + turn) % 7)
            cache.put(key, key.encode())
            if cache.get(key) not in (key.encode(), None):
                faults.append(key)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert sum(cache.get(str(number)) is not None for number in range(7)) == 3
