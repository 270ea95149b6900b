"""A run: a service under load whose processes are killed again and again, and the faults found in it."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from service.chaos.checker import Checker
from service.chaos.findings import Findings
from service.chaos.gate import Gate
from service.chaos.killer import Killer
from service.chaos.ledger import Ledger, Ledgers
from service.chaos.load import LoadClient, copy_and_look
from service.chaos.looks import Interrupted, Look
from service.chaos.pictures import draw
from service.chaos.processes import Processes
from service.chaos.rebuild import Ranking, answers, compare_with_fresh
from service.chaos.stored import stored_findings
from service.errors import UserError
from service.settings import Settings

NUM_CLIENTS = 3
GRACE_S = 30.0  # short, so that deletions become final during the run
POLITE_STATUSES = (0, -15, 143)


@dataclass(frozen=True, kw_only=True)
class ChaosPlan:
    """The plan of a run: its duration, its random seed, and how often it kills."""

    minutes: float
    seed: int
    chance: float = 0.3
    every_s: float = 5.0
    with_redis: bool = False
    num_pictures: int = 150


@dataclass(frozen=True, kw_only=True)
class ChaosResult:
    """The result of a run."""

    kills: int
    acknowledged: int
    looks: int
    findings: Findings
    seed: int

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not self.findings.all()

    def __str__(self) -> str:
        """The last line of the command."""
        lost, half, duplicated = (self.findings.count(kind) for kind in ("lost", "half", "duplicated"))
        return (
            f"kills {self.kills}, acknowledged {self.acknowledged}, lost {lost}, half {half},"
            f" duplicated {duplicated}, seed {self.seed}"
        )


class ChaosRun:
    """One run in an empty folder. `say` gets progress lines."""

    def __init__(self, settings: Settings, folder: Path, plan: ChaosPlan, say: Callable[[str], None]) -> None:
        self._folder, self._plan, self._say, self._settings = folder, plan, say, settings
        self._findings, self._gate, self._over = Findings(say), Gate(), threading.Event()
        self._processes = Processes(settings, folder, plan.with_redis, GRACE_S)
        self._data_dir = self._processes.settings.data_dir
        pictures = [(number, draw(plan.seed, number)) for number in range(plan.num_pictures)]
        self._ledgers = Ledgers([Ledger(pictures[part::NUM_CLIENTS]) for part in range(NUM_CLIENTS)])
        self._copying = threading.Lock()
        self._killer = Killer(self._processes, self._rng("kills"), plan.chance, self._findings, self._copying)
        self._look = Look(self._processes.url, self._findings)
        self._checker = Checker(
            look=self._look,
            ledgers=self._ledgers,
            killer=self._killer,
            gate=self._gate,
            findings=self._findings,
            data_dir=self._data_dir,
            say=say,
        )

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self._plan.seed} {purpose}")

    def run(self) -> ChaosResult:
        """Execute the run. UserError where the service does not even start undisturbed."""
        final_answers: dict[str, Ranking] = {}
        with self._processes, closing(self._look):
            self._look.require_ready(self._processes)
            with self._load(), ThreadPoolExecutor(1) as pool:
                looking = pool.submit(
                    self._checker.look_after_kills, self._over, self._rng("looks"), self._plan.every_s
                )
                self._kill_until(time.monotonic() + 60 * self._plan.minutes, looking)
            with self._reported():
                final_answers = self._look_last()
            self._stop()
        with self._reported():
            self._say("ingesting everything into a fresh service, to compare the answers")
            fresh = Processes(self._settings, self._folder / "fresh", False, GRACE_S)
            compare_with_fresh(fresh, self._ledgers.entries, final_answers, self._plan.seed, self._findings)
        self._say(f"besides kills: {', '.join(f'{name} {n}' for name, n in sorted(self._killer.mishaps.items()))}")
        return ChaosResult(
            kills=self._killer.total,
            acknowledged=self._ledgers.acknowledged,
            looks=self._checker.looks,
            findings=self._findings,
            seed=self._plan.seed,
        )

    @contextmanager
    def _load(self) -> Iterator[None]:
        """Run the clients while the block runs; their exceptions are raised after it."""
        clients = [
            LoadClient(
                self._processes.url,
                ledger,
                self._rng(f"client {number}"),
                self._gate,
                self._findings,
                GRACE_S,
                self._copy if number == 0 else None,
            )
            for number, ledger in enumerate(self._ledgers.each)
        ]
        with ThreadPoolExecutor(len(clients)) as pool:
            working = [pool.submit(client.run, self._over) for client in clients]
            try:
                yield
            finally:
                self._over.set()
            for future in working:
                future.result()

    def _copy(self) -> None:
        with TemporaryDirectory(prefix="copy-", dir=self._folder) as out:
            try:
                with self._copying:
                    copy_and_look(self._data_dir, Path(out), self._findings)
            except UserError as fault:
                self._findings.add("fault", "snapshot", str(fault))

    def _kill_until(self, deadline: float, looking: "Future[None]") -> None:
        """Kill until the deadline, and then end the load in any case."""
        try:
            while (seconds_left := deadline - time.monotonic()) > 0 and not looking.done():
                time.sleep(min(self._plan.every_s, seconds_left))
                must_wait = self._checker.must_wait
                self._killer.start_what_ended(may_harm=not must_wait)
                if not must_wait:
                    self._killer.maybe_strike()
        finally:
            self._over.set()
            self._killer.make_harmless()
        looking.result()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """A block in which a service that fails to start or answer, without a kill, becomes a finding."""
        try:
            yield
        except Interrupted:
            self._findings.add("fault", "the service", "it did not answer, although it had not been killed")
        except UserError as fault:
            self._findings.add("fault", "the service", str(fault))

    def _look_last(self) -> dict[str, Ranking]:
        """Check once more, with every model and without kills. Returns the answers to the questions."""
        self._look.require_ready(self._processes)
        self._checker.compare(lambda models: models)
        return answers(self._look, self._ledgers.entries, self._plan.seed)

    def _stop(self) -> None:
        """Terminate the service and check what it leaves: files, and tracebacks in its logs."""
        for role in self._processes.roles:
            if (status := self._processes.stop(role)) not in POLITE_STATUSES:
                self._findings.add("fault", role, f"after SIGTERM it ended with {status}")
        self._findings.add_all(stored_findings(self._data_dir))
        for log in sorted(self._processes.logs.iterdir()):
            if "Traceback" in log.read_text(encoding="utf-8", errors="replace"):
                self._findings.add("fault", str(log), "it holds a traceback")
