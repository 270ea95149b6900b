"""Wake-ups: quick where they work, and where they do not the worker looks by itself; they never raise."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from index.catalog.catalog import Catalog
from index.records import Collection, NewPicture
from service.redis_answering import LEFT_ALONE_S
from service.worker import redis_wakeups
from service.worker.open_wakeups import open_notifier, open_wakeups
from service.worker.redis_wakeups import GROUP, RedisNotifier, RedisWakeups, stream_name
from service.worker.wakeups import POLL_S, SWEEP_S, NoNotifier, Polling
from tests.support.redis_server import RedisServer

OURS = Collection("aa", b"secret")
STREAM = stream_name(OURS)
MOST_WAITS = 20  # each ends after about a second, or with a wake-up


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    made = Catalog(tmp_path / "catalog.sqlite")
    yield made
    made.close()


def new(image_id: str) -> NewPicture:
    return NewPicture(image_id=image_id, filename="a.jpg", extension="jpg", num_bytes=1)


class Counted(threading.Event):
    """Nobody waits for it; it notes for how long each would have, and tells them whether it was set."""

    def __init__(self, told: bool) -> None:
        super().__init__()
        self.waits, self._told = list[float | None](), told

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return self._told


def test_without_redis_the_catalog_is_watched(catalog: Catalog) -> None:
    assert type(open_notifier(None, Path("unused"))) is NoNotifier
    wakeups, nothing = open_wakeups(None, catalog), Counted(True)
    assert isinstance(wakeups, Polling)
    wakeups.wait(nothing)
    catalog.take_in([new("a" * 32)], now=0.0)
    wakeups.wait(nothing)  # a change between two waits is not missed: this returns at once
    assert nothing.waits == []
    before = time.monotonic()
    wakeups.wait(threading.Event())  # nothing changed: this takes its whole second
    assert time.monotonic() - before >= SWEEP_S


def test_a_stop_ends_the_wait(catalog: Catalog) -> None:
    wakeups, stopped = Polling(catalog), Counted(True)
    wakeups.wait(stopped)  # the first look is always worth it
    wakeups.wait(stopped)
    assert stopped.waits == [POLL_S]


def test_a_redis_that_is_not_there_is_no_trouble(free_port: int) -> None:
    url = f"redis://127.0.0.1:{free_port}/0"
    RedisNotifier(url, OURS).wake()
    wakeups, nobody = RedisWakeups(url, OURS), Counted(False)
    wakeups.wait(nobody)
    wakeups.acknowledge()
    wakeups.close()
    assert nobody.waits == [SWEEP_S]


def test_a_fault_of_the_socket_is_no_trouble_either(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([OSError(), redis.ResponseError("NOGROUP"), OSError(), [(STREAM, [(b"1-0", {})])], OSError()])

    def answer(*_: object, **__: object) -> object:
        if isinstance(outcome := next(outcomes), Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(redis.Redis, "execute_command", answer)
    wakeups, nobody = RedisWakeups("redis://unused/0", OURS), Counted(False)
    for _ in range(3):
        wakeups.wait(nobody)
    wakeups.acknowledge()
    assert (nobody.waits, next(outcomes, None)) == ([SWEEP_S, SWEEP_S], None)


def test_a_redis_that_does_not_answer_is_left_alone_for_a_while() -> None:
    now = [0.0]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        notifier = RedisNotifier(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", OURS, lambda: now[0])

        def asked() -> bool:
            """Whether another connection was made."""
            try:
                silent.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        silent.setblocking(False)
        notifier.wake()
        assert asked()
        notifier.wake()
        assert not asked()
        now[0] += LEFT_ALONE_S
        notifier.wake()
        assert asked()
        notifier.close()


@pytest.fixture
def redis_server(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> RedisServer:
    """A Redis that is given its time where this machine holds it up."""
    monkeypatch.setattr(redis_wakeups, "ANSWER_S", 20.0)
    return redis_server


def pending(server: RedisServer) -> int:
    """Wake-ups delivered and not acknowledged."""
    with redis.Redis(port=server.port) as client:
        return int(client.xpending(STREAM, GROUP)["pending"])


def delivered(server: RedisServer) -> int | None:
    """Entries of the stream that the group was given; None without a group."""
    with redis.Redis(port=server.port) as client:
        try:
            (group,) = client.xinfo_groups(STREAM)
        except (redis.ResponseError, ValueError):
            return None
        return int(group["entries-read"] or 0)


def wait_for_delivery(server: RedisServer, wakeups: RedisWakeups) -> None:
    """Wait until the one entry of the stream is delivered, for so many waits at most."""
    for _ in range(MOST_WAITS):
        if delivered(server) == 1:
            return
        wakeups.wait(threading.Event())
    raise AssertionError(f"the wake-up was not delivered in {MOST_WAITS} waits")


@pytest.mark.redis
@pytest.mark.parametrize("options", ["", "?protocol=2", "?protocol=3", "?decode_responses=true"])
def test_a_wake_up_is_delivered_and_acknowledged_after_the_work(redis_server: RedisServer, options: str) -> None:
    url = redis_server.url + options
    notifier, wakeups, stop = RedisNotifier(url, OURS), RedisWakeups(url, OURS), threading.Event()
    wakeups.wait(stop)  # makes the group
    notifier.wake()
    wait_for_delivery(redis_server, wakeups)
    assert pending(redis_server) == 1
    wakeups.acknowledge()
    assert pending(redis_server) == 0


@pytest.mark.redis
def test_a_full_redis_is_asked_once_a_second(redis_server: RedisServer) -> None:
    stop = Counted(False)
    with redis.Redis(port=redis_server.port) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        wakeups = RedisWakeups(redis_server.url, OURS)
        wakeups.wait(stop)
        wakeups.wait(stop)
        assert stop.waits == [SWEEP_S, SWEEP_S]
        client.config_set("maxmemory", 0)
    wakeups.wait(threading.Event())  # makes the group
    RedisNotifier(redis_server.url, OURS).wake()
    wait_for_delivery(redis_server, wakeups)
    assert pending(redis_server) == 1
    wakeups.close()


@pytest.mark.redis
def test_a_wake_up_that_could_not_be_acknowledged_is_delivered_again(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wakeups, stop = RedisWakeups(redis_server.url, OURS), threading.Event()
    wakeups.wait(stop)  # makes the group
    RedisNotifier(redis_server.url, OURS).wake()
    wait_for_delivery(redis_server, wakeups)

    def fail(*_: object) -> None:
        raise redis.ConnectionError("gone for a moment")

    with monkeypatch.context() as away:
        away.setattr(redis.Redis, "xack", fail)
        wakeups.acknowledge()
    assert pending(redis_server) == 1
    wakeups.wait(stop)
    wakeups.acknowledge()
    assert pending(redis_server) == 0


@pytest.mark.redis
def test_a_wake_up_from_before_the_worker_is_not_lost(redis_server: RedisServer) -> None:
    RedisNotifier(redis_server.url, OURS).wake()
    wait_for_delivery(redis_server, RedisWakeups(redis_server.url, OURS))


@pytest.mark.redis
def test_what_a_dead_worker_had_in_hand_is_acknowledged_by_the_next(redis_server: RedisServer) -> None:
    notifier, stop = RedisNotifier(redis_server.url, OURS), threading.Event()
    dead = RedisWakeups(redis_server.url, OURS)
    dead.wait(stop)
    notifier.wake()
    wait_for_delivery(redis_server, dead)
    following = RedisWakeups(redis_server.url, OURS)
    following.wait(stop)
    following.acknowledge()
    assert pending(redis_server) == 0


@pytest.mark.redis
def test_a_flushed_or_restarted_redis_is_taken_up_again(redis_server: RedisServer) -> None:
    now = [0.0]
    notifier, wakeups, stop = (
        RedisNotifier(redis_server.url, OURS, lambda: now[0]),
        RedisWakeups(redis_server.url, OURS),
        threading.Event(),
    )
    wakeups.wait(stop)
    notifier.wake()
    wakeups.wait(stop)
    redis_server.flush()
    wakeups.wait(stop)
    wakeups.acknowledge()
    redis_server.kill()
    notifier.wake()
    wakeups.wait(stop)
    redis_server.start()
    now[0] += LEFT_ALONE_S
    notifier.wake()
    wait_for_delivery(redis_server, wakeups)
    wakeups.acknowledge()
    assert pending(redis_server) == 0


@pytest.mark.redis
def test_the_stream_does_not_grow_for_ever(redis_server: RedisServer) -> None:
    notifier = RedisNotifier(redis_server.url, OURS)
    for _ in range(3000):
        notifier.wake()
    with redis.Redis(port=redis_server.port) as client:
        assert client.xlen(STREAM) < 2000
