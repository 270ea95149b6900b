"""The processes of a service: those of the web side, the worker, or both.

PyTorch, FAISS and the web framework are imported only once the port is bound, so that an occupied port is refused at
once.
"""

import contextlib
import errno
import logging
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from index.catalog.database.connection import is_writable
from models.freed_memory import keep_freed_memory
from service import VERSION
from service.auth.exposure import check_exposure
from service.auth.permissions import Permission
from service.errors import Misconfigured, UserError, user_input
from service.garbage_collection import pass_over_loaded_objects, without_collections
from service.model_names import model_name
from service.processes.supervisor import supervised_worker
from service.processes.web_processes import (
    BESIDE,
    FirstProcess,
    begin_beside,
    inherited_port,
    processes_beside,
    shared_metrics,
)
from service.settings import Settings
from service.storage.ballast import give_up_ballast, lay_ballast
from service.storage.data_dir import DataDir
from service.storage.data_dir_lock import require_enterable, require_no_cluster, wait_for_lock
from service.storage.misplaced_files import refuse_misplaced_files
from service.storage.snapshots.same_collection import collection_of, require_collection

if TYPE_CHECKING:
    from service.api.services import Services
    from service.model_loading import LoadedModels
    from service.processes.shared_port import SharedPort

RESTART_S = 5.0
WITHOUT_WORKER = "they wait for a service that may write here"
ORIGINALS_LOOKED_AT = 256  # at startup, in some ten milliseconds

log = logging.getLogger(__name__)
_signals: list[int] = []  # that asked this process to end; no event, whose lock the interrupted code may hold


def run_worker(settings: Settings, end_with_stdin: bool, collection: str | None = None) -> None:
    """Run a worker until it is told to end; with `collection`, on this collection only. Raises MissingCatalog where
    that is missing."""
    with without_collections():
        from models import lean_torch  # noqa: F401, PLC0415 - before whatever imports PyTorch
        from service.worker.process import serve_worker  # noqa: PLC0415

    _prepare_data_dir(settings)
    if collection is not None:
        require_collection(settings.data_dir, collection)
    keep_freed_memory()
    loaded = _load(settings)
    serve_worker(settings, loaded.extractor, loaded.in_views(), loaded.on_request(), end_with_stdin)


def run_web_process(settings: Settings) -> None:
    """Answer requests beside the first web process, on its port, until it is told to end.

    Misconfigured where the weights changed since the first process loaded them, MissingCatalog where its collection is
    missing.
    """
    exit_on_signals()
    first = begin_beside()
    require_collection(settings.data_dir, first.collection)
    with contextlib.ExitStack() as stack:
        side = _web_side(settings, stack)
        if side.identity != first.identity:
            raise Misconfigured("models, detector or program were changed since this service began: start it again")
        side.services.keys.accept_own(first.own_keys, first.keys_required)
        assert first.port is not None
        listening, shared = stack.enter_context(inherited_port(first.port))
        side.answer(listening, listens=lambda: log.info("%s %s", BESIDE, base_url(listening)), shared=shared)


def run_api(
    settings: Settings, with_worker: bool, once_listening: Callable[[str, SecretStr], None] | None = None
) -> None:
    """Run the web side, and a worker beside it if wanted, until it is told to end.

    `once_listening` is called in a thread of its own, with the server's URL and an API key that may write.
    Misconfigured where strangers could reach it without a key.
    """
    check_exposure(settings)
    _prepare_data_dir(settings)
    exit_on_signals()
    catalog = DataDir(settings.data_dir).catalog
    log.info("the data directory is %s", settings.data_dir.resolve())
    if with_worker and not is_writable(catalog):
        log.warning("%s may not be written: it is searched as it is, without a worker", settings.data_dir)
        with_worker = False
    # Processes of a killed predecessor may still be ending.
    patience_s = RESTART_S if settings.web_processes > 1 else 0.0
    with listening_socket(settings.host, settings.port, patience_s) as listening, contextlib.ExitStack() as stack:
        stop_worker: list[Callable[[], None]] = []
        if with_worker:
            wait_for_lock(settings.data_dir).close()  # for the worker, which otherwise might fail repeatedly
            worker = stack.enter_context(supervised_worker(settings, collection_of(settings.data_dir)))
            stop_worker.append(worker.stop)  # by a signal that it may have got as well: it is not started again
        tell_of_left_behind(settings.data_dir)
        # A callback, since a signal may end this block while it loads; the server re-raises the signal that ended it.
        stack.callback(tell_of_queued, catalog, "they are stored, and the next start goes on with them")
        if settings.web_processes > 1:
            stack.enter_context(shared_metrics())
        url = base_url(listening)
        with _loading(listening, settings, url):
            side = _web_side(settings, stack)
        side.services.separate_cache_from_copies()
        log.info("Regard listens on %s", url)
        if once_listening is not None:
            key = side.services.keys.create_own("serve --photos", Permission.WRITE)
            threading.Thread(target=once_listening, args=(url, SecretStr(key)), daemon=True).start()
        beside = stack.enter_context(processes_beside(settings, listening, side.as_first_process))
        tell_of_queued(catalog, "the worker goes on with them")
        side.answer(listening, ends=[beside.stop, *stop_worker], shared=beside.shared)


def tell_of_queued(catalog: Path, next_step: str) -> None:
    """Log the number of pictures that wait for their regions, if any, and what happens to them."""
    from index.catalog.catalog import Catalog  # noqa: PLC0415 - opened only for a moment
    from index.catalog.database.faults import DamagedCatalog  # noqa: PLC0415

    if not catalog.is_file():
        return
    try:
        with contextlib.closing(Catalog(catalog)) as opened:
            if num_queued := opened.counts()["queued"]:
                step = WITHOUT_WORKER if opened.read_only else next_step
                log.info("%d pictures wait for their regions: %s", num_queued, step)
    except (sqlite3.Error, OSError, DamagedCatalog) as fault:  # not worth ending for
        log.error("how many pictures wait for their regions cannot be read: %s", fault)


def tell_of_left_behind(data_dir: Path) -> None:
    """Log a warning where stored files are not in the catalog, as far as a sample shows."""
    from index.catalog.catalog import Catalog  # noqa: PLC0415 - opened only for a moment
    from index.catalog.database.faults import DamagedCatalog, ReadOnlyCatalog, UnknownSchema  # noqa: PLC0415
    from service.storage.left_behind import left_behind  # noqa: PLC0415

    data = DataDir(data_dir)
    if not data.originals.is_dir() and not data.regions.is_dir():
        return
    faults = (sqlite3.Error, OSError, DamagedCatalog, ReadOnlyCatalog, UnknownSchema)  # reported by the next step
    with contextlib.suppress(*faults), contextlib.closing(Catalog(data.catalog)) as opened:
        if (message := left_behind(data, opened, ORIGINALS_LOOKED_AT)) is not None:
            log.warning("%s", message)


@dataclass(frozen=True)
class _WebSide:
    """A web process that has loaded, and is ready to answer."""

    app: Any
    services: "Services"
    settings: Settings
    identity: str

    def answer(
        self,
        listening: socket.socket,
        listens: Callable[[], None] = lambda: None,
        ends: Sequence[Callable[[], None]] = (),
        shared: "SharedPort | None" = None,
    ) -> None:
        """Answer on a socket until told to end; see web_server."""
        from service.processes.connections import web_server  # noqa: PLC0415 - imports the web server

        def end() -> None:
            for stop in ends:
                stop()
            self.services.ending.set()

        pass_over_loaded_objects()
        _exit_if_asked()
        web_server(self.app, self.settings, listens, end, shared).run(sockets=[listening])

    def as_first_process(self) -> FirstProcess:
        """The handshake for further web processes."""
        keys, collection = self.services.keys, self.services.storage.catalog.collection().id
        return FirstProcess(self.identity, collection, keys.own_keys(), keys.required)


@without_collections()
def _web_side(settings: Settings, stack: contextlib.ExitStack) -> _WebSide:
    """Load everything that answering needs, which takes seconds."""
    from models import lean_torch  # noqa: F401, PLC0415 - before whatever imports PyTorch
    from service.api.app import create_app  # noqa: PLC0415
    from service.api.services import build_services  # noqa: PLC0415
    from service.worker.open_wakeups import open_notifier  # noqa: PLC0415

    catalog = DataDir(settings.data_dir).catalog
    notifier = stack.enter_context(contextlib.closing(open_notifier(settings.redis_url, catalog)))
    loaded = _load(settings)
    services = build_services(settings, loaded, notifier.wake, processes=settings.web_processes)
    models = [f"{name}={model.header.digest}" for name, model in loaded.models.items()]
    identity = " ".join([VERSION, loaded.extractor.digest, *models])
    return _WebSide(create_app(services), services, settings, identity)


@contextlib.contextmanager
def _loading(listening: socket.socket, settings: Settings, url: str) -> Iterator[None]:
    """Log what is loaded, and answer requests accordingly until the block ends."""
    from service.processes.startup_answers import answered_while_loading  # noqa: PLC0415 - imports the web server

    names = [model_name(entry) for entry in settings.models]
    shown = ", ".join(names if settings.preload else names[:1])
    log.info("loading the detector and the model %s; %s answers 503 until they are there", shown, url)
    started = time.monotonic()
    with answered_while_loading(listening, settings):
        yield
    log.info("loaded in %.1f s", time.monotonic() - started)


def _load(settings: Settings) -> "LoadedModels":
    from service.model_loading import LoadedModels  # noqa: PLC0415 - imports PyTorch

    with user_input():  # weights and descriptions in the configured folders
        return LoadedModels.from_settings(settings, at_first_use=True)


def _prepare_data_dir(settings: Settings) -> None:
    """Check the data directory, and make room to open it. Misconfigured where the disk stays full, or a path is of the
    wrong kind; UserError where the directory may not be entered, is a cluster's, or holds an unfinished restore, which
    would look empty."""
    require_enterable(settings.data_dir)
    require_no_cluster(settings.data_dir)
    refuse_misplaced_files(DataDir(settings.data_dir))
    if DataDir(settings.data_dir).unchecked_catalog.exists():
        raise UserError(
            f"a restore into {settings.data_dir} did not come to its end: remove that folder, and run `regard restore`"
            " again"
        )
    give_up_ballast(settings.data_dir)
    if settings.data_dir.is_dir():
        lay_ballast(settings.data_dir)


def exit_on_signals() -> None:
    """Exit through the `with` blocks on SIGTERM and SIGINT, with status 0; the server restores these handlers when it
    ends.

    An exception raised in a finalizer is lost, and so may be the exit: `_exit_if_asked` makes up for it.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        _signals.append(number)
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)


def _exit_if_asked() -> None:
    """Exit if a signal asked for it and its exception was lost."""
    if _signals:
        raise SystemExit(0)


@contextlib.contextmanager
def listening_socket(host: str, port: int, patience_s: float = 0.0) -> Iterator[socket.socket]:
    """A socket bound to the address, tried for up to `patience_s` seconds. UserError where that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is explicit because asyncio then sets TCP_NODELAY; without, kept-alive responses wait 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(listening, host, port, patience_s)
        yield listening


def _bind(listening: socket.socket, host: str, port: int, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            listening.bind((host, port))
        except OSError as fault:
            if fault.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                advice = "; REGARD_PORT or --port names another" if fault.errno == errno.EADDRINUSE else ""
                raise UserError(f"cannot listen on {host}:{port}: {fault.strerror}{advice}") from fault
            time.sleep(0.1)
        else:
            return


def base_url(listening: socket.socket) -> str:
    """The URL at which this machine reaches the server of a socket."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
