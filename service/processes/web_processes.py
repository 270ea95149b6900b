"""Several web processes on one port, which share its connections evenly.

Python computes in one thread of a process at a time, so that one process hardly benefits from more processors. The
first process binds the port, and starts the others once it answers: they inherit its socket, and accept connections
once they have loaded (shared_port.py). All give the same answers, since everything stored lies in the data directory;
counters are added up in a folder.
"""

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from pydantic import TypeAdapter

from service.auth.api_keys import ApiKey
from service.processes.shared_port import TAKES_NONE, ConnectionCounts, SharedPort
from service.processes.supervisor import REGARD, Supervised, end_with_stdin, process_environment
from service.settings import Settings
from service.storage.temporary_folders import temporary_folder

BESIDE = "another web process answers on"  # logged by each further process, with the URL
METRICS_PREFIX = "regard-metrics-"
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # a variable that Prometheus' client reads when it is imported

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PortShare:
    """A process's share of a port: the inherited descriptors, and its index among the processes."""

    listening: int
    counts: int
    place: int
    processes: int


@dataclass(frozen=True)
class FirstProcess:
    """The handshake that the first process sends to each further one."""

    identity: str
    """The release, detector and models that determine its answers."""
    collection: str
    """The id of its collection."""
    own_keys: list[ApiKey]
    keys_required: bool
    port: PortShare | None = None
    """None before the index of the receiving process is known."""


@dataclass(frozen=True)
class ProcessesBeside:
    """The further web processes, and the first one's share of the connections: all of them where `shared` is None."""

    stop: Callable[[], None]
    """Terminates all of them without waiting."""
    shared: SharedPort | None


HANDSHAKE = TypeAdapter(FirstProcess)


@contextlib.contextmanager
def shared_metrics() -> Iterator[None]:
    """A folder for the counters of this process and its children. To be entered before the counters are imported."""
    with temporary_folder(METRICS_PREFIX) as folder:
        os.environ[METRICS_FOLDER] = str(folder)
        yield


@contextlib.contextmanager
def processes_beside(
    settings: Settings, listening: socket.socket, first: Callable[[], FirstProcess]
) -> Iterator[ProcessesBeside]:
    """The further web processes of a service, on the first one's socket, until the block ends."""
    beside: list[Supervised] = []

    def stop() -> None:
        for process in beside:
            process.stop()

    if settings.web_processes == 1:
        yield ProcessesBeside(stop, None)
        return
    host, port = listening.getsockname()[:2]
    environment = process_environment(settings.model_copy(update={"host": host, "port": port}))
    command = [*REGARD, "serve", "--role", "api", "--beside"]
    with contextlib.ExitStack() as stack:
        file = ConnectionCounts.new_file(settings.web_processes)
        stack.callback(os.close, file)
        counts = stack.enter_context(contextlib.closing(ConnectionCounts(file, settings.web_processes)))

        def handshake(place: int) -> bytes:
            counts.put(place, TAKES_NONE, 0)  # its predecessor may have been killed
            share = PortShare(listening.fileno(), file, place, settings.web_processes)
            return HANDSHAKE.dump_json(replace(first(), port=share)) + b"\n"

        for place in range(1, settings.web_processes):
            inherited = listening.fileno(), file
            process = Supervised(
                "web process", command, environment, handshake=partial(handshake, place), inherited=inherited
            )
            beside.append(stack.enter_context(process))
        try:
            yield ProcessesBeside(stop, SharedPort(listening, counts, 0))
        finally:
            stop()


def begin_beside() -> FirstProcess:
    """Start as a further web process, which ends with the first one; returns the first one's handshake."""
    handshake = HANDSHAKE.validate_json(sys.stdin.buffer.readline())
    end_with_stdin()
    return handshake


@contextlib.contextmanager
def inherited_port(share: PortShare) -> Iterator[tuple[socket.socket, SharedPort]]:
    """The listening socket inherited from the parent process, and this process's share of its connections."""
    with (
        socket.socket(fileno=share.listening) as listening,
        contextlib.closing(ConnectionCounts(share.counts, share.processes)) as counts,
    ):
        os.close(share.counts)  # the mapping stays valid
        yield listening, SharedPort(listening, counts, share.place)
