"""A run: a service under load whose processes are killed again and again, and the faults found in it."""

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from service.chaos.findings import Findings
from service.chaos.gate import Gate
from service.chaos.killer import Killer
from service.chaos.ledger import Ledger, LedgerEntry
from service.chaos.load import LoadClient, copy_and_look
from service.chaos.looks import Interrupted, Look
from service.chaos.pictures import draw
from service.chaos.processes import Processes
from service.chaos.rebuild import Ranking, answers, compare_answers, questions, take_in
from service.chaos.stored import confirmed_damage, stored_findings
from service.errors import UserError
from service.settings import Settings

NUM_CLIENTS = 3
GRACE_S = 30.0  # short, so that deletions become final during the run
SETTLING_PATIENCE_S = 900.0  # generous, since the machine may be busy with other work
MOST_INTERRUPTED = 2  # consecutive checks that kills may interrupt before they wait for one to end
MOST_UNSEEN = 4  # kills without a check before they wait for one: a busy machine starts a service slowly
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
        self._ledgers = [Ledger(pictures[part::NUM_CLIENTS]) for part in range(NUM_CLIENTS)]
        self._copying = threading.Lock()
        self._killer = Killer(self._processes, self._rng("kills"), plan.chance, self._findings, self._copying)
        self._look = Look(self._processes.url, self._findings)
        self._looks = self._interrupted = self._copies = self._looked_at = 0

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self._plan.seed} {purpose}")

    @property
    def _entries(self) -> list[LedgerEntry]:
        return sorted((entry for ledger in self._ledgers for entry in ledger.entries), key=lambda entry: entry.number)

    def run(self) -> ChaosResult:
        """Execute the run. UserError where the service does not even start undisturbed."""
        final_answers: dict[str, Ranking] = {}
        with self._processes, closing(self._look):
            self._wait_ready(self._look, self._processes)
            with self._load(), ThreadPoolExecutor(1) as pool:
                looking = pool.submit(self._look_after_kills)
                self._kill_until(time.monotonic() + 60 * self._plan.minutes, looking)
            with self._reported():
                final_answers = self._look_last()
            self._stop()
        with self._reported():
            self._compare_with_fresh(final_answers)
        acknowledged = sum(ledger.acknowledged for ledger in self._ledgers)
        self._say(f"besides kills: {', '.join(f'{name} {n}' for name, n in sorted(self._killer.mishaps.items()))}")
        return ChaosResult(
            kills=self._killer.total,
            acknowledged=acknowledged,
            looks=self._looks,
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
            for number, ledger in enumerate(self._ledgers)
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
        self._copies += 1
        out = self._folder / "copies" / str(self._copies)
        out.mkdir(parents=True)
        try:
            with self._copying:
                copy_and_look(self._data_dir, out, self._findings)
        except UserError as fault:
            self._findings.add("fault", "snapshot", str(fault))
        finally:
            shutil.rmtree(out)

    def _kill_until(self, deadline: float, looking: "Future[None]") -> None:
        """Kill until the deadline, and then end the load in any case."""
        try:
            while (seconds_left := deadline - time.monotonic()) > 0 and not looking.done():
                time.sleep(min(self._plan.every_s, seconds_left))
                must_wait = self._must_wait()
                self._killer.start_what_ended(may_harm=not must_wait)
                if not must_wait:
                    self._killer.maybe_strike()
        finally:
            self._over.set()
            self._killer.make_harmless()
        looking.result()

    def _must_wait(self) -> bool:
        """Whether to stop killing until a check has completed."""
        unseen = self._killer.strikes - self._looked_at
        return self._interrupted >= MOST_INTERRUPTED or unseen >= MOST_UNSEEN

    def _look_after_kills(self) -> None:
        """Check the service whenever it is ready again after a kill, until the run is over."""
        rng = self._rng("looks")
        while not self._over.wait(0.2):
            strikes = self._killer.strikes
            if strikes == self._looked_at or not self._look.is_ready():
                continue
            self._over.wait(rng.uniform(0, self._plan.every_s))  # let the load continue for a while
            with self._gate.closed():
                try:
                    self._look_at_all(rng)
                except Interrupted:
                    self._interrupted += 1
                    continue
            self._looked_at, self._interrupted = strikes, 0
            kills = ", ".join(f"{role} {count}" for role, count in sorted(self._killer.kills.items()))
            acknowledged = sum(ledger.acknowledged for ledger in self._ledgers)
            self._say(f"look {self._looks}: killed {kills}; {acknowledged} changes acknowledged")

    def _look_at_all(self, rng: random.Random) -> None:
        """Check that all acknowledged changes are present, found by some model, and intact on disk."""
        self._settle(self._look)
        models = [model["name"] for model in self._look.get("/models")["models"]]
        self._look.compare(self._entries, rng.choice(models))
        self._note_damage()
        self._looks += 1

    def _note_damage(self) -> None:
        for finding in confirmed_damage(self._data_dir):
            self._findings.add(finding.kind, finding.subject, finding.message)

    def _settle(self, look: Look) -> None:
        if not look.settle(SETTLING_PATIENCE_S):
            self._findings.add("fault", "settling", f"pictures were still waiting after {SETTLING_PATIENCE_S:g} s")

    def _wait_ready(self, look: Look, processes: Processes) -> None:
        deadline = time.monotonic() + SETTLING_PATIENCE_S
        while not look.is_ready():
            if (ended := processes.ended()) or time.monotonic() > deadline:
                raise UserError(f"the service does not start ({ended or 'not in time'}): see {processes.logs}")
            time.sleep(0.2)

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
        self._wait_ready(self._look, self._processes)
        self._settle(self._look)
        for model in [model["name"] for model in self._look.get("/models")["models"]]:
            self._look.compare(self._entries, model)
        self._looks += 1
        return answers(self._look, questions(self._entries, self._plan.seed))

    def _stop(self) -> None:
        """Terminate the service and check what it leaves: files, and tracebacks in its logs."""
        for role in self._processes.roles:
            if (status := self._processes.stop(role)) not in POLITE_STATUSES:
                self._findings.add("fault", role, f"after SIGTERM it ended with {status}")
        for finding in stored_findings(self._data_dir):
            self._findings.add(finding.kind, finding.subject, finding.message)
        for log in sorted(self._processes.logs.iterdir()):
            if "Traceback" in log.read_text(encoding="utf-8", errors="replace"):
                self._findings.add("fault", str(log), "it holds a traceback")

    def _compare_with_fresh(self, final_answers: dict[str, Ranking]) -> None:
        """Compare the answers with those of a service that ingests the same pictures undisturbed."""
        self._say("ingesting everything into a fresh service, to compare the answers")
        with (
            Processes(self._settings, self._folder / "fresh", False, GRACE_S) as processes,
            closing(Look(processes.url, self._findings)) as look,
        ):
            self._wait_ready(look, processes)
            take_in(look, self._entries, self._findings)
            self._settle(look)
            compare_answers(final_answers, answers(look, questions(self._entries, self._plan.seed)), self._findings)
