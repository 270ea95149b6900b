"""The processes of a service: the web side, the worker, or both."""

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from service.api.app import create_app
from service.api.services import Loaded, build_services
from service.settings import Settings
from service.worker.process import serve_worker
from service.worker.supervisor import supervised_worker
from service.worker.wakeups import open_notifier

log = logging.getLogger(__name__)

DRAIN_S = 10  # requests in hand get this long when the server is told to end


def run_worker(settings: Settings, end_with_stdin: bool) -> None:
    """A worker until it is told to end."""
    loaded = Loaded.from_settings(settings)
    matchers = [loaded.matchers[name] for name in loaded.views]
    others = [matcher for name, matcher in loaded.matchers.items() if name not in loaded.views]
    serve_worker(settings, loaded.extractor, matchers, others, end_with_stdin)


def run_api(settings: Settings, with_worker: bool, once_listening: Callable[[str], None] | None = None) -> None:
    """The web side, and a worker beside it if asked for, until it is told to end.

    `once_listening` gets the address, in a thread of its own.
    """
    exit_by_signal()
    with bound(settings.host, settings.port) as listening, contextlib.ExitStack() as stack:
        if with_worker:
            stack.enter_context(supervised_worker(settings))
        notifier = stack.enter_context(contextlib.closing(open_notifier(settings.redis_url)))
        services = build_services(settings, Loaded.from_settings(settings), notifier.wake)
        config = uvicorn.Config(
            create_app(services),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=DRAIN_S,
            server_header=False,
        )
        url = address(listening)
        log.info("Regard listens on %s", url)
        if once_listening is not None:
            threading.Thread(target=once_listening, args=(url,), daemon=True).start()
        uvicorn.Server(config).run(sockets=[listening])


def exit_by_signal() -> None:
    """End through the `with` blocks on SIGTERM and SIGINT, with status 0; the server restores these when it ends."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)


@contextlib.contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket on the address, taken before anything slow is loaded. OSError says which address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only where it is: without, kept-alive answers wait 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as fault:
            raise OSError(f"cannot listen on {host}:{port}: {fault.strerror}") from fault
        yield listening


def address(listening: socket.socket) -> str:
    """The URL under which this machine reaches a socket."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
