"""A process beside this one: started, started again when it ends, ended with this one however that ends."""

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
LASTED_S = 60.0  # a process that lived this long did not fail at its start
POLITE_S = 30.0  # a worker told to end finishes the batch in hand
SILENT_S = 1.0  # of these, in which most end
REGARD = (sys.executable, "-P", "-m", "service.cli.main")  # the command of this very program

log = logging.getLogger(__name__)


class Supervised:
    """A process that is started again, after a growing delay, whenever it ends."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        first_delay_s: float = FIRST_DELAY_S,
        told: Callable[[], bytes] = bytes,
        inherited: Sequence[int] = (),
    ) -> None:
        """`name` is for the log; `told` gives what a process finds on its stdin at its start, and is short; `inherited`
        are file descriptors that it has open as well."""
        self._name, self._command, self._environment = name, list(command), dict(environment)
        self._first_delay_s, self._told, self._inherited = first_delay_s, told, tuple(inherited)
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def _run(self) -> None:
        delay = self._first_delay_s
        while not self._stop.is_set():
            try:
                process = self._started()
            except Exception as fault:  # no memory, processes or file handles just now, or no disk to tell it of
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
                if status == -signal.SIGTERM:  # by whoever ends all processes, this one soon as well, or that one alone
                    log.warning("the %s (process %d) was told to end; next in %g s", self._name, process.pid, delay)
                else:
                    log.error("the %s (process %d) ended with %d; next in %g s", self._name, process.pid, status, delay)
            if self._stop.wait(delay):
                return
            delay = min(2 * delay, LONGEST_DELAY_S)

    def _started(self) -> "subprocess.Popen[bytes] | None":
        told = self._told()  # which may wait for the disk, as whoever stops this must not
        with self._starting:
            if self._stop.is_set():
                return None
            # It reads this end of the pipe: when this process dies, even by SIGKILL, the pipe ends and so does it.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, env=self._environment, pass_fds=self._inherited
            )
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has ended already
                self._process.stdin.write(told)
                self._process.stdin.flush()
            return self._process

    def __enter__(self) -> Self:
        """Start the thread that keeps the process running."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ask the process to end, without waiting for it; it is not started again."""
        with self._starting:
            self._stop.set()
        if self._process is not None:
            self._process.terminate()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask the process to end, insist after a while."""
        self.stop()
        process = self._process
        if process is not None:
            self._wait_politely(process)
        self._thread.join()
        if process is not None:
            _release(process)

    def _wait_politely(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until a process that was told to end does, and kill it where that takes too long."""
        named = f"the {self._name} (process {process.pid})"
        try:
            process.wait(SILENT_S)
        except subprocess.TimeoutExpired:
            log.info("waiting for %s to finish what it is at, for at most %g s", named, POLITE_S)
            try:
                process.wait(POLITE_S - SILENT_S)
            except subprocess.TimeoutExpired:
                log.warning("%s does not end: it is killed, which loses nothing that was accepted", named)
                process.kill()
            process.wait()


def _release(process: "subprocess.Popen[bytes]") -> None:
    """Close our end of an ended process's pipe."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # what it was told and did not read
        process.stdin.close()


def end_with_stdin() -> None:
    """End this process as soon as its stdin does, whose other end the process that started it holds alone."""
    threading.Thread(target=_exit_at_end_of_stdin, daemon=True).start()


def _exit_at_end_of_stdin() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)  # as good as a kill, and as harmless


def supervised_worker(settings: Settings, collection: str) -> Supervised:
    """A worker of these settings, on this collection and no other."""
    command = [*REGARD, "worker", "--end-with-stdin", "--collection", collection]
    return Supervised("worker", command, process_environment(settings))


def process_environment(settings: Settings) -> dict[str, str]:
    """This process's environment, with the settings as variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    for name, value in settings.model_dump(mode="json", exclude={"role"}).items():
        if value is not None:
            text = ",".join(value) if isinstance(value, list) else str(value)
            environment[PREFIX + name.upper()] = text
    # -P keeps the current folder from being imported from; this one is where the program itself was found.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGES_FOLDER), os.environ.get("PYTHONPATH")]))
    return environment
