"""A service in a process of its own, for a program that needs one: a benchmark, a notebook."""

import contextlib
import http.client
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from service.errors import UserError
from service.processes.supervisor import REGARD, process_environment
from service.processes.web_processes import BESIDE
from service.settings import Settings
from service.this_machine import LOOPBACK, held_port

READY_WITHIN_S = 300.0
LEAVES_WITHIN_S = 30.0
LAST_LINES = 5


class ServiceProcess:
    """`regard serve` with these settings on a free port of this machine, until the block ends.

    Ctrl-C in a terminal is for the program that started it alone, and it does not outlive that program, whatever ends
    this.
    """

    def __init__(self, settings: Settings, log: Path) -> None:
        """`log` is the file that it logs to."""
        self._own = contextlib.ExitStack()
        port = self._own.enter_context(held_port())
        self.settings = settings.model_copy(update={"host": LOOPBACK, "port": port, "rate_limit": 0.0})
        self.url = f"http://{LOOPBACK}:{self.settings.port}"
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    def __enter__(self) -> Self:
        """Start, without waiting for anything."""
        command = [*REGARD, "serve", "--role", self.settings.role, "--end-with-stdin"]
        with self._log.open("wb") as log:
            self._started = time.perf_counter()
            self._process = subprocess.Popen(
                command,
                env=process_environment(self.settings),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask it to end, insist after a while."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.terminate()
        try:
            process.wait(LEAVES_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdin.close()
        self._own.close()

    def seconds_until(self, path: str) -> float:
        """Seconds from the start until a GET of `path` is answered with 200. UserError where the service has ended."""
        assert self._process is not None
        while time.perf_counter() - self._started < READY_WITHIN_S:
            if self._process.poll() is not None:
                raise UserError(f"the service ended: {self._last_lines()}")
            if self._answers(path):
                return time.perf_counter() - self._started
            time.sleep(0.01)
        raise UserError(f"the service did not answer {path} within {READY_WITHIN_S:g} s: {self._last_lines()}")

    def wait_for_web_processes(self) -> None:
        """Return once all web processes answer. UserError where they do not."""
        end = time.perf_counter() + READY_WITHIN_S
        while self._log.read_text(encoding="utf-8", errors="replace").count(BESIDE) < self.settings.web_processes - 1:
            if time.perf_counter() > end:
                raise UserError(f"a web process did not start within {READY_WITHIN_S:g} s; its log is {self._log}")
            time.sleep(0.05)

    def _answers(self, path: str) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self.settings.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _last_lines(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        reasons = [line for line in lines if line.startswith("regard: ")]
        return "; ".join(reasons or lines[-LAST_LINES:])

    @property
    def pid(self) -> int:
        """The process that answers."""
        assert self._process is not None
        return self._process.pid
