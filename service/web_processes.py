"""Several web processes on one port, among which the system spreads connections.

Python computes in one thread of a process at a time, so that one process answers little more where there are more
processors. The first process holds the port, and starts the others beside itself once it answers: they bind the same
port, which it opens to processes of its own user for that, and listen once they have loaded. What clients see is the
same wherever they arrive, since everything stored lies in the data directory; counters are added up in a folder.
"""

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import TypeAdapter

from service.auth.api_keys import ApiKey
from service.settings import Settings
from service.storage.temporary_folders import temporary_folder
from service.supervisor import REGARD, Supervised, end_with_stdin, process_environment

BESIDE = "another web process answers on"  # what each of the others logs with the URL
METRICS_PREFIX = "regard-metrics-"
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the name that Prometheus' client reads when it is imported

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FirstProcess:
    """The message of the first process to each of the others at its start."""

    identity: str
    """Of what it answers by: its release, detector and models."""
    collection: str
    """The id of the collection that it answers from."""
    own_keys: list[ApiKey]
    keys_required: bool


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
) -> Iterator[Callable[[], None]]:
    """The other web processes of a service, on the port of the first one's socket, until the block ends.

    Gives a function that asks all of them to end, and does not wait.
    """
    beside: list[Supervised] = []

    def stop() -> None:
        for one in beside:
            one.stop()

    if settings.web_processes == 1:
        yield stop
        return
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    host, port = listening.getsockname()[:2]
    environment = process_environment(settings.model_copy(update={"host": host, "port": port}))
    command = [*REGARD, "serve", "--role", "api", "--beside"]
    with contextlib.ExitStack() as stack:
        for _ in range(settings.web_processes - 1):
            one = Supervised("web process", command, environment, told=lambda: TOLD.dump_json(first()) + b"\n")
            beside.append(stack.enter_context(one))
        try:
            yield stop
        finally:
            stop()


def begin_beside() -> FirstProcess:
    """Begin as one of these processes, which ends with the first one: what that tells."""
    told = TOLD.validate_json(sys.stdin.buffer.readline())
    end_with_stdin()
    return told


@contextlib.contextmanager
def joined_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A socket on a port that another process of this user listens on, and opened for it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as joined:
        # Connections that came before the port was opened allow SO_REUSEADDR alone.
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            joined.setsockopt(socket.SOL_SOCKET, option, 1)
        joined.bind((host, port))
        yield joined
