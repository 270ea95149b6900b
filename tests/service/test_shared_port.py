"""Connections of one socket go to whoever has the fewest, and to others where that one does not come."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

import pytest

from service.processes import shared_port
from service.processes.shared_port import TAKES_NONE, ConnectionCounts, SharedPort
from service.serve import listening_socket


class LoopOfSteps(asyncio.SelectorEventLoop):
    """A loop whose clock goes on by a tenth of a millisecond whenever it is read, however long this machine pauses.

    All processes of a test share one loop: a real pause would make each of them think that the others do not come.
    """

    now = 0.0

    def time(self) -> float:
        self.now += 0.0001
        return self.now


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a test's coroutine by a clock of its own; it must always have something to do, as `connect` has."""
    with asyncio.Runner(loop_factory=LoopOfSteps) as runner:
        runner.run(test())


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with listening_socket("127.0.0.1", 0) as one:
        yield one


@contextlib.contextmanager
def shared_counts(processes: int) -> Iterator[list[ConnectionCounts]]:
    """The counts as each of so many processes has them."""
    with contextlib.ExitStack() as stack:
        file = ConnectionCounts.new_file(processes)
        stack.callback(os.close, file)
        yield [stack.enter_context(contextlib.closing(ConnectionCounts(file, processes))) for _ in range(processes)]


class Process:
    """A process at a port, which keeps the connections that it gets open."""

    def __init__(self, listening: socket.socket, counts: ConnectionCounts, place: int) -> None:
        # Epoll knows a descriptor of each, as in processes that inherit it.
        self.listening = socket.socket(fileno=os.dup(listening.fileno()))
        self.port = SharedPort(self.listening, counts, place)
        self.open: list[socket.socket] = []

    async def serve(self, connection: socket.socket) -> None:
        self.open.append(connection)
        self.port.tell_open(len(self.open))

    def close_connections(self, count: int) -> None:
        """Close the first ones that it has."""
        for connection in self.open[:count]:
            connection.close()
        del self.open[:count]
        self.port.tell_open(len(self.open))

    def close(self) -> None:
        self.port.stop()
        self.close_connections(len(self.open))
        self.listening.close()


@contextlib.asynccontextmanager
async def processes(listening: socket.socket, count: int) -> AsyncIterator[list[Process]]:
    """So many processes that take connections."""
    with shared_counts(count) as counts, contextlib.ExitStack() as stack:
        all_of_them = [Process(listening, each, place) for place, each in enumerate(counts)]
        for one in all_of_them:
            stack.callback(one.close)
            one.port.start(one.serve)
        yield all_of_them


Connect = Callable[[Sequence[Process], int], Coroutine[None, None, None]]


@pytest.fixture
def connect(listening: socket.socket) -> Iterator[Connect]:
    """Connects so many clients one after the other, each taken by one of some processes before the next one comes."""
    with contextlib.ExitStack() as clients:

        async def of_new_clients(those: Sequence[Process], times: int) -> None:
            for _ in range(times):
                before = sum(len(one.open) for one in those)
                clients.enter_context(socket.create_connection(listening.getsockname()))
                while sum(len(one.open) for one in those) == before:
                    await asyncio.sleep(0)

        yield of_new_clients


@pytest.mark.parametrize("count", [2, 3])
def test_each_takes_as_many_connections_as_any(listening: socket.socket, connect: Connect, count: int) -> None:
    async def test() -> None:
        async with processes(listening, count) as those:
            await connect(those, 12)
            assert {len(one.open) for one in those} == {12 // count}

    run(test)


def test_connections_that_come_one_by_one_go_around(listening: socket.socket, connect: Connect) -> None:
    async def test() -> None:
        async with processes(listening, 2) as those:
            got = [0, 0]
            for _ in range(40):
                await connect(those, 1)
                for place, one in enumerate(those):
                    got[place] += len(one.open)
                    one.close_connections(len(one.open))
            assert got == [20, 20]

    run(test)


def test_who_has_fewer_takes_the_next_ones(listening: socket.socket, connect: Connect) -> None:
    async def test() -> None:
        async with processes(listening, 2) as those:
            await connect(those, 8)
            those[1].close_connections(3)
            await connect(those, 3)
            assert [len(one.open) for one in those] == [4, 4]

    run(test)


def test_what_one_leaves_that_no_other_takes_is_taken_after_a_moment(
    listening: socket.socket, connect: Connect
) -> None:
    async def test() -> None:
        with shared_counts(2) as counts, contextlib.closing(Process(listening, counts[1], 1)) as here:
            counts[0].put(0, 0, 0)  # a process that was killed, and told nobody
            here.port.start(here.serve)
            await connect([here], 5)
            assert len(here.open) == 5

    run(test)


def test_a_process_that_ends_or_has_not_begun_is_waited_for_by_nobody(
    listening: socket.socket, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with processes(listening, 2) as (first, second):
            await connect([first, second], 4)
            second.port.stop()
            second.close_connections(2)  # which no longer counts
            monkeypatch.setattr(shared_port, "LEFT_TO_OTHERS_S", 3600.0)
            await connect([first], 4)
            assert len(first.open) == 6

    run(test)
    with shared_counts(2) as counts:
        assert counts[0].all() == [(TAKES_NONE, 0), (TAKES_NONE, 0)]


def test_a_newcomer_gets_its_share_and_no_more(listening: socket.socket, connect: Connect) -> None:
    async def test() -> None:
        with contextlib.ExitStack() as stack:
            counts = stack.enter_context(shared_counts(2))
            first, second = (
                stack.enter_context(contextlib.closing(Process(listening, each, place)))
                for place, each in enumerate(counts)
            )
            first.port.start(first.serve)
            await connect([first], 6)
            first.close_connections(6)
            second.port.start(second.serve)
            assert counts[0].all() == [(0, 6), (0, 6)]

    run(test)


def test_without_file_handles_it_waits_and_says_so(
    listening: socket.socket, connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_port, "WITHOUT_HANDLES_S", 0.001)

    class Poor(socket.socket):
        times = 3

        def accept(self) -> tuple[socket.socket, object]:
            if self.times:
                self.times -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    async def test() -> None:
        with (
            shared_counts(1) as counts,
            Poor(fileno=os.dup(listening.fileno())) as without_handles,
            contextlib.closing(Process(listening, counts[0], 0)) as one,
            caplog.at_level(logging.ERROR),
        ):
            one.port._listening = without_handles
            one.port.start(one.serve)
            await connect([one], 2)
        assert caplog.text.count("no connection can be taken") == 3

    run(test)
