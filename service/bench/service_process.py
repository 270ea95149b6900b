"""A service started for a benchmark: how long it takes to answer, what its processes hold in memory."""

import http.client
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from service.errors import UserError
from service.settings import Settings
from service.supervisor import REGARD, process_environment
from service.this_machine import LOOPBACK, free_port, processes_under
from service.web_processes import BESIDE

READY_WITHIN_S = 300.0
LEAVES_WITHIN_S = 30.0
LAST_LINES = 5
KB_PER_MB = 1024


class ServiceProcess:
    """`regard serve` with these settings on a free port of this machine, until the block ends."""

    def __init__(self, settings: Settings, log: Path) -> None:
        """`log` is the file that it logs to."""
        self.settings = settings.model_copy(update={"host": LOOPBACK, "port": free_port(), "rate_limit": 0.0})
        self.url = f"http://{LOOPBACK}:{self.settings.port}"
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    def __enter__(self) -> Self:
        """Start, without waiting for anything."""
        command = [*REGARD, "serve", "--role", self.settings.role]
        with self._log.open("wb") as log:
            self._started = time.perf_counter()
            self._process = subprocess.Popen(
                command, env=process_environment(self.settings), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask it to end, insist after a while."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(LEAVES_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def seconds_until(self, path: str) -> float:
        """Seconds from the start until a GET of `path` is answered with 200. UserError where the service has ended."""
        assert self._process is not None
        while time.perf_counter() - self._started < READY_WITHIN_S:
            if self._process.poll() is not None:
                lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
                raise UserError("the service ended: " + "; ".join(lines[-LAST_LINES:]))
            if self._answers(path):
                return time.perf_counter() - self._started
            time.sleep(0.01)
        raise UserError(f"the service did not answer {path} within {READY_WITHIN_S:g} s; its log is {self._log}")

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

    def memory_mb(self) -> float | None:
        """Megabytes that all its processes hold, what they share counted once (PSS); None where that is not known."""
        assert self._process is not None
        found = [proportional_memory(process) for process in processes_under(self._process.pid)]
        return None if None in found else sum(one for one in found if one is not None)


def proportional_memory(process: int) -> float | None:
    """Megabytes (2**20 bytes) of a process by PSS: a page that n processes share counts as an n-th for each.

    None where the system does not say; 0 for a process that has ended.
    """
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0 if Path("/proc/self/smaps_rollup").exists() else None
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / KB_PER_MB
