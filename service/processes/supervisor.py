"""A supervised child process: started, restarted when it ends, and ended with this process however that ends."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from service import PACKAGES_FOLDER
from service.settings import PREFIX, Settings

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 30.0
# Statuses of a process that got a signal, perhaps with this one.
TOLD_TO_END = (0, -signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGINT)
LASTED_S = 60.0  # a process that lived this long did not fail at its start
POLITE_S = 30.0  # after SIGTERM, in which a worker finishes the batch in hand
SILENT_S = 1.0  # the first part of that, before the log says that it is waited for
REGARD = (sys.executable, "-P", "-m", "service.cli.main")  # the command of this program

log = logging.getLogger(__name__)


class Supervised:
    """A process that is restarted, after a growing delay, whenever it ends."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        first_delay_s: float = FIRST_DELAY_S,
        handshake: Callable[[], bytes] = bytes,
        inherited: Sequence[int] = (),
    ) -> None:
        """`name` is for the log; `handshake` gives the few bytes that a process reads from its stdin at its start;
        `inherited` are additional file descriptors that it keeps open."""
        self._name, self._command, self._environment = name, list(command), dict(environment)
        self._first_delay_s, self._handshake, self._inherited = first_delay_s, handshake, tuple(inherited)
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    @property
    def pid(self) -> int | None:
        """The id of the running process; None if there is none."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def _run(self) -> None:
        delay = self._first_delay_s
        while not self._stop.is_set():
            told_to_end = False
            try:
                process = self._started()
            except Exception as fault:  # temporarily no memory, processes, file descriptors or disk
                log.error("the %s cannot be started: %s; next try in %g s", self._name, fault, delay)
            else:
                if process is None:
                    return
                started = time.monotonic()
                status = process.wait()
                if self._stop.is_set():
                    return
                _release(process)
                if time.monotonic() - started >= LASTED_S:
                    delay = self._first_delay_s
                told_to_end = status in TOLD_TO_END
                if not told_to_end:
                    log.error("the %s (process %d) ended with %d; next in %g s", self._name, process.pid, status, delay)
            if self._stop.wait(delay):
                return
            if told_to_end:
                log.warning("the %s was told to end: the next one starts", self._name)
            delay = min(2 * delay, LONGEST_DELAY_S)

    def _started(self) -> "subprocess.Popen[bytes] | None":
        handshake = self._handshake()  # not under the lock: it may wait for the disk, which `stop` must not
        with self._starting:
            if self._stop.is_set():
                return None
            # The child reads the pipe: when this process dies, even by SIGKILL, the pipe ends, and so does the child.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, env=self._environment, pass_fds=self._inherited
            )
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # the child has already ended
                self._process.stdin.write(handshake)
                self._process.stdin.flush()
            return self._process

    def __enter__(self) -> Self:
        """Start the thread that keeps the process running."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Terminate the process without waiting for it; it is not restarted."""
        with self._starting:
            self._stop.set()
        if self._process is not None:
            self._process.terminate()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Terminate the process, and kill it after a while."""
        self.stop()
        process = self._process
        if process is not None:
            self._wait_politely(process)
        self._thread.join()
        if process is not None:
            _release(process)

    def _wait_politely(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for a terminated process to end, and kill it where that takes too long."""
        description = f"the {self._name} (process {process.pid})"
        try:
            process.wait(SILENT_S)
        except subprocess.TimeoutExpired:
            log.info("waiting for %s to finish what it is at, for at most %g s", description, POLITE_S)
            try:
                process.wait(POLITE_S - SILENT_S)
            except subprocess.TimeoutExpired:
                log.warning("%s does not end: it is killed, which loses nothing that was accepted", description)
                process.kill()
            process.wait()


def _release(process: "subprocess.Popen[bytes]") -> None:
    """Close this end of an ended process's pipe."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # raised for buffered bytes that it did not read
        process.stdin.close()


def end_with_stdin() -> None:
    """End this process as soon as its stdin ends, whose other end only the parent process holds."""
    threading.Thread(target=_exit_at_end_of_stdin, daemon=True).start()


def _exit_at_end_of_stdin() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)  # as harmless as a kill


def supervised_worker(settings: Settings, collection: str) -> Supervised:
    """A worker with these settings, which works on this collection only."""
    command = [*REGARD, "worker", "--end-with-stdin", "--collection", collection]
    return Supervised("worker", command, process_environment(settings))


def process_environment(settings: Settings) -> dict[str, str]:
    """This process's environment, with the settings as variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    for name, value in settings.model_dump(mode="json", exclude={"role"}).items():
        if value is not None:
            text = ",".join(value) if isinstance(value, list) else str(value)
            environment[PREFIX + name.upper()] = text
    # -P excludes the current folder from imports; this is the folder from which the program itself was imported.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGES_FOLDER), os.environ.get("PYTHONPATH")]))
    return environment
