"""Connections of one socket go to whoever has the fewest, and to others where that one does not come."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from service import shared_port
from service.serve import listening_socket
from service.shared_port import TAKES_NONE, ConnectionCounts, SharedPort


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


async def connect(listening: socket.socket, those: Sequence[Process], times: int) -> list[socket.socket]:
    """So many clients one after the other, each taken before the next one comes."""
    clients = []
    for _ in range(times):
        before = sum(len(one.open) for one in those)
        clients.append(socket.create_connection(listening.getsockname()))
        while sum(len(one.open) for one in those) == before:
            await asyncio.sleep(0)
    return clients


def close_all(clients: Sequence[socket.socket]) -> None:
    for client in clients:
        client.close()


@pytest.mark.parametrize("count", [2, 3])
def test_each_takes_as_many_connections_as_any(listening: socket.socket, count: int) -> None:
    async def run() -> None:
        async with processes(listening, count) as those:
            clients = await connect(listening, those, 12)
            assert {len(one.open) for one in those} == {12 // count}
            close_all(clients)

    asyncio.run(run())


def test_connections_that_come_one_by_one_go_around(listening: socket.socket) -> None:
    async def run() -> None:
        async with processes(listening, 2) as those:
            got = [0, 0]
            for _ in range(40):
                (client,) = await connect(listening, those, 1)
                for place, one in enumerate(those):
                    got[place] += len(one.open)
                    one.close_connections(len(one.open))
                client.close()
            assert min(got) >= 10, got

    asyncio.run(run())


def test_who_has_fewer_takes_the_next_ones(listening: socket.socket) -> None:
    async def run() -> None:
        async with processes(listening, 2) as those:
            clients = await connect(listening, those, 8)
            those[1].close_connections(3)
            clients += await connect(listening, those, 3)
            assert sorted(len(one.open) for one in those) == [4, 4]
            close_all(clients)

    asyncio.run(run())


def test_what_one_leaves_that_no_other_takes_is_taken_after_a_moment(listening: socket.socket) -> None:
    async def run() -> None:
        with shared_counts(2) as counts:
            gone, here = Process(listening, counts[0], 0), Process(listening, counts[1], 1)
            counts[0].put(0, 0, 0)  # it was killed, and told nobody
            here.port.start(here.serve)
            clients = await connect(listening, [here], 5)
            assert len(here.open) == 5
            close_all(clients)
            for one in (gone, here):
                one.close()

    asyncio.run(run())


def test_a_process_that_ends_or_has_not_begun_is_waited_for_by_nobody(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with processes(listening, 2) as (first, second):
            clients = await connect(listening, [first, second], 4)
            second.port.stop()
            second.close_connections(2)  # which no longer counts
            monkeypatch.setattr(shared_port, "LEFT_TO_OTHERS_S", 3600.0)
            clients += await connect(listening, [first], 4)
            assert len(first.open) == 6
            close_all(clients)

    asyncio.run(run())
    with shared_counts(2) as counts:
        assert counts[0].all() == [(TAKES_NONE, 0), (TAKES_NONE, 0)]


def test_a_newcomer_gets_its_share_and_no_more(listening: socket.socket) -> None:
    async def run() -> None:
        with shared_counts(2) as counts:
            first, second = (Process(listening, each, place) for place, each in enumerate(counts))
            first.port.start(first.serve)
            close_all(await connect(listening, [first], 6))
            first.close_connections(6)
            second.port.start(second.serve)
            assert counts[0].all() == [(0, 6), (0, 6)]
            for one in (first, second):
                one.close()

    asyncio.run(run())


def test_without_file_handles_it_waits_and_says_so(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_port, "WITHOUT_HANDLES_S", 0.001)

    class Poor(socket.socket):
        times = 3

        def accept(self) -> tuple[socket.socket, object]:
            if self.times:
                self.times -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    async def run() -> None:
        with shared_counts(1) as counts:
            one = Process(listening, counts[0], 0)
            one.port._listening = Poor(fileno=os.dup(listening.fileno()))
            with caplog.at_level(logging.ERROR), one.port._listening:
                one.port.start(one.serve)
                close_all(await connect(listening, [one], 2))
                one.close()
            assert caplog.text.count("no connection can be taken") == 3

    asyncio.run(run())
