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
import tempfile
from collections.abc import Iterator, Sequence

from pydantic import TypeAdapter

from service.auth.api_keys import ApiKey
from service.settings import Settings
from service.supervisor import REGARD, Supervised, end_with_stdin, process_environment

BESIDE = "another web process answers on"  # what each of the others logs with the URL
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the name that Prometheus' client reads when it is imported
KEYS = TypeAdapter(list[ApiKey])

log = logging.getLogger(__name__)


@contextlib.contextmanager
def shared_metrics() -> Iterator[None]:
    """A folder for the counters of this process and of those it starts. To be entered before they are imported."""
    with tempfile.TemporaryDirectory(prefix="regard-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ[METRICS_FOLDER] = folder
        yield


@contextlib.contextmanager
def processes_beside(settings: Settings, listening: socket.socket, own_keys: Sequence[ApiKey]) -> Iterator[None]:
    """The other web processes of a service, on the port of the first one's socket, until the block ends."""
    if settings.web_processes == 1:
        yield
        return
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    environment = process_environment(settings.model_copy(update={"port": listening.getsockname()[1]}))
    command, told = [*REGARD, "serve", "--role", "api", "--beside"], KEYS.dump_json(list(own_keys)) + b"\n"
    with contextlib.ExitStack() as stack:
        beside = [
            stack.enter_context(Supervised("web process", command, environment, told=told))
            for _ in range(settings.web_processes - 1)
        ]
        try:
            yield
        finally:
            for one in beside:  # all at once: each finishes the requests that it has
                one.stop()


def begin_beside() -> list[ApiKey]:
    """Begin as one of these processes: the own keys of the first one, with which this process ends."""
    own_keys = KEYS.validate_json(sys.stdin.buffer.readline())
    end_with_stdin()
    return own_keys


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
