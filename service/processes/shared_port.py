"""A listening socket shared by several processes, of which the one with the fewest connections accepts the next.

Otherwise the first process to wake would accept all waiting connections, so that their distribution is random: one
process would be slow while another's processor is idle. So each process publishes its number of connections in shared
memory, and briefly leaves a new connection to those that have fewer.
"""

import asyncio
import functools
import logging
import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Callable, Coroutine
from typing import Any

LEFT_TO_OTHERS_S = 0.005  # then any process that still sees the connection waiting accepts it
WITHOUT_HANDLES_S = 1.0
TAKES_NONE = 2**62  # the connection count of a process that accepts none

log = logging.getLogger(__name__)
_COUNTS = struct.Struct("=qq")  # the numbers of open, and of all accepted connections


class ConnectionCounts:
    """The numbers of connections of several processes, in an unnamed file that they inherit."""

    def __init__(self, file: int, processes: int) -> None:
        """`file` is the descriptor from `new_file`, called here or in the parent process."""
        self._shared, self._processes = mmap.mmap(file, processes * _COUNTS.size), processes

    @staticmethod
    def new_file(processes: int) -> int:
        """The descriptor of a new file for `processes` processes, all of them absent; the caller closes it."""
        with tempfile.TemporaryFile() as file:
            file.write(_COUNTS.pack(TAKES_NONE, 0) * processes)
            file.flush()
            return os.dup(file.fileno())

    def get(self, place: int) -> tuple[int, int]:
        """The numbers of open and of accepted connections of the process with this index."""
        num_open, num_taken = _COUNTS.unpack_from(self._shared, place * _COUNTS.size)
        return num_open, num_taken

    def put(self, place: int, num_open: int, num_taken: int) -> None:
        """Publish both numbers of the process with this index."""
        _COUNTS.pack_into(self._shared, place * _COUNTS.size, num_open, num_taken)

    def all(self) -> list[tuple[int, int]]:
        """Both numbers of every process, absent ones included."""
        return [self.get(place) for place in range(self._processes)]

    def taken(self) -> int:
        """The number of connections accepted by all processes, which changes with every connection."""
        return sum(taken for _, taken in self.all())

    def close(self) -> None:
        """Release the memory."""
        self._shared.close()


class SharedPort:
    """Accepts connections of a listening socket for the process at index `place` of `counts`. Used on one event loop.

    The next connection is for a process with the fewest open connections, among these for the one that accepted the
    fewest. If that process does not accept it quickly, because it is busy or gone, another one does.
    """

    def __init__(self, listening: socket.socket, counts: ConnectionCounts, place: int) -> None:
        self._listening, self._counts, self._place = listening, counts, place
        self._serve: Callable[[socket.socket], Coroutine[Any, Any, Any]] | None = None
        self._serving: set[asyncio.Task[Any]] = set()
        self._waiting: asyncio.TimerHandle | None = None
        self._taken = 0

    def start(self, serve: Callable[[socket.socket], Coroutine[Any, Any, Any]]) -> None:
        """Accept connections from now on, and pass each to `serve`."""
        self._serve = serve
        self._taken = max(taken for _, taken in self._counts.all())  # so that a new process gets no more than its share
        self.tell_open(0)
        self._listening.setblocking(False)
        self._listening.listen(socket.SOMAXCONN)
        self._watch()

    def tell_open(self, count: int) -> None:
        """Publish this process's number of connections, as long as it accepts any."""
        if self._serve is not None:
            self._counts.put(self._place, count, self._taken)

    def stop(self) -> None:
        """Accept no more connections."""
        if self._serve is None:
            return
        self._serve = None
        self._counts.put(self._place, TAKES_NONE, self._taken)
        if self._waiting is not None:
            self._waiting.cancel()
        asyncio.get_running_loop().remove_reader(self._listening)

    def _watch(self) -> None:
        self._waiting = None
        asyncio.get_running_loop().add_reader(self._listening, self._take_or_leave)

    def _pause(self, seconds: float, callback: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listening)
        self._waiting = loop.call_later(seconds, callback)

    def _take_or_leave(self) -> None:
        if self._counts.get(self._place) <= min(self._counts.all()):
            self._take()
        else:
            self._pause(LEFT_TO_OTHERS_S, functools.partial(self._take_what_was_left, self._counts.taken()))

    def _take_what_was_left(self, taken_before: int) -> None:
        self._watch()  # if others accepted one meanwhile, the waiting connection is a new one, to be left to them first
        if self._counts.taken() == taken_before:
            self._take()

    def _take(self) -> None:
        assert self._serve is not None
        try:
            connection, _ = self._listening.accept()
        except (
            BlockingIOError,
            InterruptedError,
            ConnectionAbortedError,
        ):  # another process accepted it, or it was closed
            return
        except OSError as fault:  # temporarily out of file descriptors or memory
            log.error("no connection can be taken: %s; next try in %g s", fault, WITHOUT_HANDLES_S)
            self._pause(WITHOUT_HANDLES_S, self._watch)
            return
        connection.setblocking(False)
        self._taken += 1
        self.tell_open(self._counts.get(self._place)[0] + 1)  # until the server has counted it
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
