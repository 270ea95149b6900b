"""Processes and ports of this machine, for whoever starts services on it: benchmarks, fault injection, a demonstration.

Linux alone: processes are read from /proc.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOPBACK = "127.0.0.1"
STATE, PARENT, STARTED = 0, 1, 19  # fields of /proc/PID/stat, counted after the name (proc(5))


@contextmanager
def held_port() -> Iterator[int]:
    """A port of the loopback address that the system gives to nobody else until the block ends.

    A socket is bound to it and does not listen: connections are refused, unless somebody binds it by its number to
    listen, as servers may (SO_REUSEADDR), again and again.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, 0))
        yield int(held.getsockname()[1])


def children_of(parent: int) -> list[int]:
    """Ids of the processes that `parent` started and that still run, the newest last."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _status(int(folder.name))) and int(fields[PARENT]) == parent:
            found.append((int(fields[STARTED]), int(folder.name)))
    return [child for _, child in sorted(found)]  # numbers of processes begin anew after the highest


def processes_under(parent: int) -> list[int]:
    """Ids of a process and of all that it and they started, parents first."""
    return [parent, *(one for child in children_of(parent) for one in processes_under(child))]


def is_running(process: int) -> bool:
    """Whether there is such a process, and it has not ended and merely waits to be counted."""
    fields = _status(process)
    return fields is not None and fields[STATE] not in "ZX"


def _status(process: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name; None where the process is not there (any more)."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
