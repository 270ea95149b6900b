"""Kills: at a fixed interval, with a given chance, some process of the service gets SIGKILL and is started again."""

import random
import subprocess
import threading
import time
from collections.abc import Callable

from service.chaos.findings import Findings
from service.chaos.processes import Processes

LONGEST_PAUSE_S = 1.0  # until what was killed is started again
COMPACT = 0.25  # the chance that a compaction takes the place of a dead worker for a while
LONGEST_COMPACTION_S = 3.0  # after which it is killed, where it is
COMPACTION_S = 300.0


class Killer:
    """Decides by a seed whom to kill; `kills` counts by role."""

    def __init__(
        self,
        processes: Processes,
        rng: random.Random,
        chance: float,
        findings: Findings,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._processes, self._rng, self._chance, self._findings = processes, rng, chance, findings
        self._sleep = sleep
        roles = processes.roles
        self._victims = [*((role,) for role in roles), roles]
        self.kills: dict[str, int] = {}
        self.strikes = 0
        self.struck = threading.Event()

    @property
    def total(self) -> int:
        """Processes killed so far."""
        return sum(self.kills.values())

    def start_what_ended(self) -> None:
        """Start again what ended by itself, which is a fault."""
        for role, status in self._processes.ended().items():
            self._findings.add("fault", role, f"it ended by itself with {status}; see {self._processes.logs}")
            self._processes.kill(role)
            self._processes.start(role)

    def maybe_strike(self) -> None:
        """Kill somebody, or nobody, as chance has it."""
        if self._rng.random() < self._chance:
            self._strike(self._rng.choice(self._victims))

    def _strike(self, roles: tuple[str, ...]) -> None:
        self._kill(*roles, with_children=self._rng.random() < 0.5)
        self.strikes += 1
        if "worker" in roles and self._rng.random() < COMPACT:
            self._compact()
        self._sleep(self._rng.uniform(0, LONGEST_PAUSE_S))
        for role in reversed(roles):
            self._processes.start(role)

    def _kill(self, *roles: str, with_children: bool) -> None:
        for role in roles:  # one by one, because each is counted; the first is not waited for long
            self.kills[role] = self.kills.get(role, 0) + self._processes.kill(role, with_children=with_children)

    def _compact(self) -> None:
        """Compact while no worker runs; half of the times it is killed too."""
        if not (self._processes.settings.data_dir / "catalog.sqlite").is_file():
            return
        process = self._processes.start("compact")
        if self._rng.random() < 0.5:
            self._sleep(self._rng.uniform(0, LONGEST_COMPACTION_S))
            self._kill("compact", with_children=True)
            return
        try:
            status = process.wait(COMPACTION_S)
        except subprocess.TimeoutExpired:
            status = -1
        if status:
            self._findings.add("fault", "compact", f"it ended with {status}; see {self._processes.logs}")
        self._processes.kill("compact")
