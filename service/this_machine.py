"""Processes and ports of this machine, for programs that start services on it: benchmarks, fault injection, a
demonstration.

Linux only: processes are read from /proc.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOPBACK = "127.0.0.1"
STATE, PARENT, STARTED = 0, 1, 19  # fields of /proc/PID/stat, counted after the name (proc(5))


@contextmanager
def held_port() -> Iterator[int]:
    """A port of the loopback address that the system assigns to nobody else until the block ends.

    A socket is bound to it without listening: connections are refused until a server binds the same port with
    SO_REUSEADDR and listens.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, 0))
        yield int(held.getsockname()[1])


def children_of(parent: int) -> list[int]:
    """Ids of the running child processes of `parent`, the newest last."""
    children = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _status(int(folder.name))) and int(fields[PARENT]) == parent:
            children.append((int(fields[STARTED]), int(folder.name)))
    return [child for _, child in sorted(children)]  # by start time: process ids wrap around


def processes_under(parent: int) -> list[int]:
    """Ids of a process and of all its descendants, parents first."""
    return [parent, *(process for child in children_of(parent) for process in processes_under(child))]


def is_running(process: int) -> bool:
    """Whether the process exists and is no zombie."""
    fields = _status(process)
    return fields is not None and fields[STATE] not in "ZX"


def _status(process: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name; None where the process does not exist (any more)."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
