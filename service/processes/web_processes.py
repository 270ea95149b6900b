"""Several web processes on one port, who share its connections evenly.

Python computes in one thread of a process at a time, so that one process answers little more where there are more
processors. The first process binds the port, and starts the others beside itself once it answers: they inherit its
socket, and take connections once they have loaded (shared_port.py). What clients see is the same wherever they arrive,
since everything stored lies in the data directory; counters are added up in a folder.
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

BESIDE = "another web process answers on"  # what each of the others logs with the URL
METRICS_PREFIX = "regard-metrics-"
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the name that Prometheus' client reads when it is imported

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PortShare:
    """A process's part of the connections of a port: the descriptors that it inherits, and its place."""

    listening: int
    counts: int
    place: int
    processes: int


@dataclass(frozen=True)
class FirstProcess:
    """The message of the first process to each of the others at its start."""

    identity: str
    """Of what it answers by: its release, detector and models."""
    collection: str
    """The id of the collection that it answers from."""
    own_keys: list[ApiKey]
    keys_required: bool
    port: PortShare | None = None
    """None in what is told by the process itself, before the place of another one is known."""


@dataclass(frozen=True)
class ProcessesBeside:
    """The other web processes of the first one, and its own part of the connections: all, where that is None."""

    stop: Callable[[], None]
    """Asks all of them to end, and does not wait."""
    shared: SharedPort | None


TOLD = TypeAdapter(FirstProcess)


@contextlib.contextmanager
def shared_metrics() -> Iterator[None]:
    """A folder for the counters of this process and of those it starts. To be entered before they are imported."""
    with temporary_folder(METRICS_PREFIX) as folder:
        os.environ[METRICS_FOLDER] = str(folder)
        yield


@contextlib.contextmanager
def processes_beside(
    settings: Settings, listening: socket.socket, first: Callable[[], FirstProcess]
) -> Iterator[ProcessesBeside]:
    """The other web processes of a service, on the first one's socket, until the block ends."""
    beside: list[Supervised] = []

    def stop() -> None:
        for one in beside:
            one.stop()

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

        def told(place: int) -> bytes:
            counts.put(place, TAKES_NONE, 0)  # it may be the successor of one that was killed
            share = PortShare(listening.fileno(), file, place, settings.web_processes)
            return TOLD.dump_json(replace(first(), port=share)) + b"\n"

        for place in range(1, settings.web_processes):
            inherited = listening.fileno(), file
            one = Supervised("web process", command, environment, told=partial(told, place), inherited=inherited)
            beside.append(stack.enter_context(one))
        try:
            yield ProcessesBeside(stop, SharedPort(listening, counts, 0))
        finally:
            stop()


def begin_beside() -> FirstProcess:
    """Begin as one of these processes, which ends with the first one: what that tells."""
    told = TOLD.validate_json(sys.stdin.buffer.readline())
    end_with_stdin()
    return told


@contextlib.contextmanager
def inherited_port(share: PortShare) -> Iterator[tuple[socket.socket, SharedPort]]:
    """The socket of the process that started this one, and this one's part of its connections."""
    with (
        socket.socket(fileno=share.listening) as listening,
        contextlib.closing(ConnectionCounts(share.counts, share.processes)) as counts,
    ):
        os.close(share.counts)  # the memory stays
        yield listening, SharedPort(listening, counts, share.place)
