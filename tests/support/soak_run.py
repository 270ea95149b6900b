"""A service in steady use for a long while: whether its memory, threads and handles stay what they are.

python -m tests.support.soak_run --minutes 60 --models bfan-equal prints a table with a row for each of the samples.
Pictures are taken in, searched for, edited, deleted and restored as in the kill loop (service/chaos/load.py), but
nobody kills anything. Any wrong answer is printed, and the status is 1 then.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from service.chaos.findings import Findings
from service.chaos.gate import Gate
from service.chaos.ledger import Ledger
from service.chaos.load import LoadClient
from service.chaos.looks import Look
from service.chaos.pictures import draw
from service.chaos.processes import Processes
from service.settings import Settings
from service.this_machine import children_of
from tests.support.processes import wait_until

ROLES = ("api", "worker")
GRACE_S = 30.0
SETTLING_S = 300.0
MB = 2**20
HEAD = "| minute | changes | " + " | ".join(f"{role}: memory | threads | handles" for role in ROLES) + " |"


@dataclass(frozen=True)
class ProcessSample:
    """Resources of a process at a moment; memory includes its children."""

    memory_bytes: int
    """Proportional set size: pages that are shared count in shares."""
    threads: int
    handles: int

    def __str__(self) -> str:
        """Three cells of the table."""
        return f"{self.memory_bytes / MB:.0f} MB | {self.threads} | {self.handles}"


def sample_of(pid: int) -> ProcessSample:
    """The sample of a process that runs."""
    family = [pid, *children_of(pid)]
    return ProcessSample(
        memory_bytes=sum(proportional_bytes(one) for one in family),
        threads=len(list(Path(f"/proc/{pid}/task").iterdir())),
        handles=len(list(Path(f"/proc/{pid}/fd").iterdir())),
    )


def proportional_bytes(pid: int) -> int:
    """Proportional set size of a process; none of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def soak(settings: Settings, folder: Path, minutes: float, every_s: float, seed: int) -> Sequence[str]:
    """Use a service for some minutes, and print samples at intervals. Returns the faults."""
    findings, gate, over = Findings(print), Gate(), threading.Event()
    ledger = Ledger([(number, draw(seed, number)) for number in range(num_pictures(minutes))])
    with Processes(settings, folder, False, GRACE_S) as processes, closing(Look(processes.url, findings)) as look:
        wait_until(look.is_ready)
        client = LoadClient(processes.url, ledger, random.Random(seed), gate, findings, GRACE_S)
        with ThreadPoolExecutor(1) as pool:
            working = pool.submit(client.run, over)
            begin = time.monotonic()
            while (passed := time.monotonic() - begin) < 60 * minutes and not working.done():
                time.sleep(every_s)
                with gate.closed():
                    cells = " | ".join(str(sample_of(processes.pid(role))) for role in ROLES)
                print(f"| {(passed + every_s) / 60:.0f} | {ledger.acknowledged} | {cells} |", flush=True)
            over.set()
            working.result()
        look.settle(SETTLING_S)
        look.compare(ledger.entries, look.get("/models")["models"][0]["name"])
    return [str(finding) for finding in findings.all()]


def num_pictures(minutes: float) -> int:
    """How many pictures there are: so few that all have been deleted and taken in again several times in the end."""
    return max(10, round(2 * minutes))


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=240, help="seconds between two samples")
    parser.add_argument("--models", default="bfan-equal")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(models=tuple(chosen.models.split(",")), threads=1)
        wrong = soak(settings, Path(folder), chosen.minutes, chosen.every, chosen.seed)
    print(*wrong, f"wrong: {len(wrong)}", sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
