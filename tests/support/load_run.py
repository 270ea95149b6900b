"""Many clients of a service with a slow model at once: what they are answered, and what that leaves in the service.

python -m tests.support.load_run --requests 2000 --clients 50 --rounds 4 prints a table with a row for each round.
"""

import argparse
import contextlib
import itertools
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.fakes import COLOURS
from tests.support.processes import wait_until
from tests.support.project_files import ROOT
from tests.support.slow_service import QUEUE_COST

TIMEOUT_S = 120.0
END_S = 120.0  # after which a service is taken to hang
MB = 2**20
HEAD = "| round | 200 | 503 | others | 503 without Retry-After | queue | memory | threads | handles: catalog, others |"
CATALOG = "catalog.sqlite"
WORDS = 5  # of a query, of which there are 8^5


@dataclass(frozen=True, kw_only=True)
class LoadRound:
    """The results of one round; memory, threads and handles are those of the idle service afterwards."""

    statuses: Counter[int]
    without_retry: int
    """Answers 503 that did not say when to come back."""
    highest_cost: float
    resident_bytes: int
    threads: int
    catalog_handles: int
    """Two for every thread that has read the catalog, and one for all."""
    other_handles: int


class SlowService:
    """The service process, with what can be measured from outside."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self._pid = url, pid
        self._queries = itertools.product(COLOURS, repeat=WORDS)
        self._drawing = threading.Lock()

    def load(self, requests: int, clients: int) -> LoadRound:
        """Send this many different searches with this many concurrent clients."""
        highest, over = [0.0], threading.Event()
        watching = threading.Thread(target=self._watch, args=(highest, over))
        watching.start()
        try:
            with ThreadPoolExecutor(clients) as pool:
                shares = [len(range(number, requests, clients)) for number in range(clients)]
                answers = [one for part in pool.map(self._client, shares) for one in part]
        finally:
            over.set()
            watching.join()
        with httpx.Client(base_url=self.url, timeout=TIMEOUT_S) as http:
            wait_until(lambda: metric(http, "regard_queue_cost") == 0)
        handles = self._handles()
        return LoadRound(
            statuses=Counter(status for status, _ in answers),
            without_retry=sum(status == 503 and not retry for status, retry in answers),
            highest_cost=highest[0],
            resident_bytes=self._resident(),
            threads=len(list(Path(f"/proc/{self._pid}/task").iterdir())),
            catalog_handles=len([name for name in handles if CATALOG in name]),
            other_handles=len([name for name in handles if CATALOG not in name]),
        )

    def _client(self, requests: int) -> Sequence[tuple[int, bool]]:
        """The statuses of one client's searches, and whether each says when to come back."""
        found = []
        with httpx.Client(base_url=self.url, timeout=TIMEOUT_S) as http:
            for _ in range(requests):
                with self._drawing:
                    query = " ".join(next(self._queries))
                answer = http.post("/search/text", json={"query": query, "match": "pictures"})
                found.append((answer.status_code, int(answer.headers.get("Retry-After", "0")) >= 1))
        return found

    def _watch(self, highest: list[float], over: threading.Event) -> None:
        with httpx.Client(base_url=self.url, timeout=TIMEOUT_S) as http:
            while not over.wait(0.02):
                highest[0] = max(highest[0], metric(http, "regard_queue_cost"))

    def _resident(self) -> int:
        pages = Path(f"/proc/{self._pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * 4096

    def _handles(self) -> list[str]:
        """The targets of the service's open file handles."""
        found = []
        for handle in Path(f"/proc/{self._pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed while we looked
                found.append(str(handle.readlink()))
        return found


def metric(http: httpx.Client, name: str) -> float:
    """A gauge of the service."""
    lines = http.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@contextmanager
def slow_service(folder: Path) -> Iterator[SlowService]:
    """The service, until the block ends."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.support.slow_service", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield SlowService(process.stdout.readline().strip(), process.pid)
        finally:
            process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # faulthandler tells where every thread hangs
                raise


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, slow_service(Path(folder)) as service:
        print(HEAD)
        for number in range(1, chosen.rounds + 1):
            found = service.load(chosen.requests, chosen.clients)
            others = found.statuses.total() - found.statuses[200] - found.statuses[503]
            cells = (number, found.statuses[200], found.statuses[503], others, found.without_retry)
            cost, memory = f"{found.highest_cost:.0f} of {QUEUE_COST}", f"{found.resident_bytes / MB:.1f} MB"
            handles = f"{found.catalog_handles}, {found.other_handles}"
            print("|", *(f"{cell} |" for cell in (*cells, cost, memory, found.threads, handles)), flush=True)


if __name__ == "__main__":
    main()
