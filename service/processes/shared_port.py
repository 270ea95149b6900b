"""One listening socket for several processes, of which the one with the fewest connections takes the next.

Whoever wakes first would take all connections that wait, and the system would spread them by chance: a process that has
more of them than another answers later, while the other one's processor is idle. So each writes down how many it has,
in memory that all of them see, and leaves a connection for a while to those that have fewer.
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

LEFT_TO_OTHERS_S = 0.005  # after which a connection is taken by whoever still sees it waiting
WITHOUT_HANDLES_S = 1.0
TAKES_NONE = 2**62  # the number of connections of a process that takes none

log = logging.getLogger(__name__)
_COUNTS = struct.Struct("=qq")  # connections that are open, and that were taken until now


class ConnectionCounts:
    """The number of connections that each of several processes has open, in a file without a name that they inherit."""

    def __init__(self, file: int, processes: int) -> None:
        """`file` is the descriptor that `new_file` gave, here or in the process that started this one."""
        self._shared, self._processes = mmap.mmap(file, processes * _COUNTS.size), processes

    @staticmethod
    def new_file(processes: int) -> int:
        """The descriptor of a new file for `processes` processes, all of them absent; it is the caller's to close."""
        with tempfile.TemporaryFile() as file:
            file.write(_COUNTS.pack(TAKES_NONE, 0) * processes)
            file.flush()
            return os.dup(file.fileno())

    def get(self, place: int) -> tuple[int, int]:
        """Connections of the process at a place that are open, and that it has taken."""
        is_open, taken = _COUNTS.unpack_from(self._shared, place * _COUNTS.size)
        return is_open, taken

    def put(self, place: int, is_open: int, taken: int) -> None:
        """Write down both numbers of the process at a place."""
        _COUNTS.pack_into(self._shared, place * _COUNTS.size, is_open, taken)

    def all(self) -> list[tuple[int, int]]:
        """Both numbers of every process, absent ones included."""
        return [self.get(place) for place in range(self._processes)]

    def taken(self) -> int:
        """The sum of what all of them have taken, which changes with every connection."""
        return sum(taken for _, taken in self.all())

    def close(self) -> None:
        """Give the memory back."""
        self._shared.close()


class SharedPort:
    """Takes connections of a listening socket for the process at one place of `counts`. Used on one event loop.

    A process that has as few connections as any, and of such the one that took the fewest, takes the next one; if it
    does not for a moment, because it is busy or gone, another one does.
    """

    def __init__(self, listening: socket.socket, counts: ConnectionCounts, place: int) -> None:
        self._listening, self._counts, self._place = listening, counts, place
        self._serve: Callable[[socket.socket], Coroutine[Any, Any, Any]] | None = None
        self._serving: set[asyncio.Task[Any]] = set()
        self._waiting: asyncio.TimerHandle | None = None
        self._taken = 0

    def start(self, serve: Callable[[socket.socket], Coroutine[Any, Any, Any]]) -> None:
        """Take connections from now on, each handed to `serve`."""
        self._serve = serve
        self._taken = max(taken for _, taken in self._counts.all())  # a newcomer gets no more than its share
        self.tell_open(0)
        self._listening.setblocking(False)
        self._listening.listen(socket.SOMAXCONN)
        self._watch()

    def tell_open(self, count: int) -> None:
        """Let the others know how many connections this process has, as long as it takes any."""
        if self._serve is not None:
            self._counts.put(self._place, count, self._taken)

    def stop(self) -> None:
        """Take no more connections."""
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

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listening)
        self._waiting = loop.call_later(seconds, then)

    def _take_or_leave(self) -> None:
        if self._counts.get(self._place) <= min(self._counts.all()):
            self._take()
        else:
            self._pause(LEFT_TO_OTHERS_S, functools.partial(self._take_what_was_left, self._counts.taken()))

    def _take_what_was_left(self, taken_until_then: int) -> None:
        self._watch()  # where another came meanwhile, what waits now is a new one, which is nobody's yet
        if self._counts.taken() == taken_until_then:
            self._take()

    def _take(self) -> None:
        assert self._serve is not None
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # another process has it, or it is gone
            return
        except OSError as fault:  # no file handles or memory just now
            log.error("no connection can be taken: %s; next try in %g s", fault, WITHOUT_HANDLES_S)
            self._pause(WITHOUT_HANDLES_S, self._watch)
            return
        connection.setblocking(False)
        self._taken += 1
        self.tell_open(self._counts.get(self._place)[0] + 1)  # until the server has counted it
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
