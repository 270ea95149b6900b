"""A service in a process of its own, for a program that needs one, such as a benchmark or a notebook."""

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

    Ctrl-C in a terminal reaches only the program that started it; the service ends with that program, however that
    ends.
    """

    def __init__(self, settings: Settings, log: Path) -> None:
        """`log` is its log file."""
        self._resources = contextlib.ExitStack()
        port = self._resources.enter_context(held_port())
        self.settings = settings.model_copy(update={"host": LOOPBACK, "port": port, "rate_limit": 0.0})
        self.url = f"http://{LOOPBACK}:{self.settings.port}"
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    def __enter__(self) -> Self:
        """Start the process without waiting for it."""
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
        """Terminate the process, and kill it after a while."""
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
        self._resources.close()

    def seconds_until(self, path: str) -> float:
        """Seconds from the start until a GET of `path` returns 200. UserError where the service has ended or takes too
        long."""
        assert self._process is not None
        while time.perf_counter() - self._started < READY_WITHIN_S:
            if self._process.poll() is not None:
                raise UserError(f"the service ended: {self._last_lines()}")
            if self._answers(path):
                return time.perf_counter() - self._started
            time.sleep(0.01)
        raise UserError(f"the service did not answer {path} within {READY_WITHIN_S:g} s: {self._last_lines()}")

    def wait_for_web_processes(self) -> None:
        """Return once all web processes answer. UserError where they do not in time."""
        deadline = time.perf_counter() + READY_WITHIN_S
        while self._log.read_text(encoding="utf-8", errors="replace").count(BESIDE) < self.settings.web_processes - 1:
            if time.perf_counter() > deadline:
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
        """The id of the process."""
        assert self._process is not None
        return self._process.pid
