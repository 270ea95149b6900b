"""Processes and ports of this machine, for whoever starts services on it: benchmarks, fault injection, a demonstration.

Linux alone: processes are read from /proc.
"""

import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
STATE, PARENT, STARTED = 0, 1, 19  # fields of /proc/PID/stat, counted after the name (proc(5))


def free_port() -> int:
    """A port of the loopback address that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


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
