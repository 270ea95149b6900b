"""Kills: at a fixed interval and with a given probability, processes of the service get SIGKILL and are restarted.

A restarted process may be armed with a fault point, or find its disk full for a while; while all are down, ends of
files are damaged; a second worker tries to write beside the first.
"""

import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from index.fault_points import VARIABLE
from service.chaos.fault_injection import LONGEST_RIVALRY_S, WITHOUT_ROOM, damage_tails, fault_place, wait_for_repair
from service.chaos.findings import Findings
from service.chaos.processes import Processes
from service.storage.data_dir import DataDir

LONGEST_PAUSE_S = 1.0  # from a kill to the restart
COMPACT = 0.25  # the probability of a compaction while the worker is down
LONGEST_COMPACTION_S = 3.0  # the longest time until a compaction is killed
COMPACTION_S = 300.0  # timeout of one that is not killed
FAULT = 0.35  # the probability that a restarted process is armed with a fault point
FULL = 0.1  # the probability that it finds its disk full
TURNS_WITHOUT_ROOM = 3  # turns of the killer for which the disk stays full
DAMAGE = 0.4  # the probability that ends of files are damaged after all processes were killed
RIVAL = 0.2  # the probability that a second worker is started before the first is killed


class Killer:
    """Chooses by a seed what to kill; `kills` counts kills by role, `mishaps` other faults by name."""

    def __init__(
        self,
        processes: Processes,
        rng: random.Random,
        chance: float,
        findings: Findings,
        copying: threading.Lock,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`copying` is held while the data directory is copied: a copy of damaged files would be damaged, too."""
        self._copying = copying
        self._processes, self._rng, self._chance, self._findings = processes, rng, chance, findings
        self._sleep, self._clock = sleep, clock
        roles = processes.roles
        self._victims = [*((role,) for role in roles), roles]
        self._armed: dict[str, str] = {}  # role -> its fault point
        self._without_room: dict[str, int] = {}  # role -> turns until its disk has room again
        self.kills: dict[str, int] = {}
        self.mishaps: dict[str, int] = {}
        self.strikes = 0

    @property
    def total(self) -> int:
        """Processes killed so far."""
        return sum(self.kills.values())

    def start_what_ended(self, may_harm: bool = True) -> None:
        """Restart processes that ended: at their fault point, which counts as a kill, or otherwise by themselves, which
        is a finding."""
        for role, status in self._processes.ended().items():
            place = self._armed.get(role)
            self._processes.kill(role)
            if place is not None and status == -signal.SIGKILL:
                self._count_kills(role, 1)
                self._note(place)
                self.strikes += 1
            else:
                self._findings.add("fault", role, f"it ended by itself with {status}; see {self._processes.logs}")
            self._start(role, may_harm)
        self._give_room_back()

    def maybe_strike(self) -> None:
        """Kill some processes, or none, at random."""
        if self._rng.random() < self._chance:
            self.strike(self._rng.choice(self._victims))

    def make_harmless(self) -> None:
        """Restart, without faults, the processes that are armed or have no room."""
        for role in sorted({*self._armed, *self._without_room}):
            self._kill(role, with_children=False)
            self._start(role, may_harm=False)

    def strike(self, roles: tuple[str, ...]) -> None:
        """Kill the processes of these roles, perhaps with a second worker beside the first, and restart them."""
        has_rival = "worker" in roles and self._rng.random() < RIVAL
        if has_rival:
            self._processes.start("rival")
            self._sleep(self._rng.uniform(0, LONGEST_RIVALRY_S))
        self._kill(*roles, with_children=self._rng.random() < 0.5)
        self.strikes += 1
        if has_rival:  # it may have become the writer, and is killed, too
            self._sleep(self._rng.uniform(0, LONGEST_RIVALRY_S))
            self._processes.kill("rival", with_children=True)
            self._note("second writer")
        if "worker" in roles and self._rng.random() < COMPACT:
            self._compact()
        self._sleep(self._rng.uniform(0, LONGEST_PAUSE_S))
        if roles == self._processes.roles and self._rng.random() < DAMAGE:
            self._start_after_damage()
        else:
            for role in reversed(roles):
                self._start(role)

    def _start(self, role: str, may_harm: bool = True) -> None:
        """Start a role, at random with a fault."""
        self._armed.pop(role, None)
        self._without_room.pop(role, None)
        drawn = self._rng.random() if may_harm and role != "redis" else 1.0
        if drawn < FAULT:
            variables = fault_place(role, self._rng)
            self._armed[role] = variables[VARIABLE].partition(":")[0]
            self._processes.start(role, variables)
        elif drawn < FAULT + FULL:
            self._without_room[role] = TURNS_WITHOUT_ROOM
            self._note("no room")
            self._processes.start(role, WITHOUT_ROOM)
        else:
            self._processes.start(role)

    def _give_room_back(self) -> None:
        for role in sorted(self._without_room):
            self._without_room[role] -= 1
            if not self._without_room[role]:
                self._kill(role, with_children=False)
                self._start(role, may_harm=False)

    def _start_after_damage(self) -> None:
        """Damage files while no process has them open; the worker repairs them before searches begin."""
        started_at = self._clock()
        data = DataDir(self._processes.settings.data_dir)
        with self._copying:
            for path in damage_tails(data, self._rng):
                self._note(f"damaged {path.relative_to(data.root).parts[0]}")
            for role in reversed([role for role in self._processes.roles if role != "api"]):
                self._start(role, may_harm=False)
            wait_for_repair(self._processes, started_at, self._sleep)
        self._start("api")

    def _kill(self, *roles: str, with_children: bool) -> None:
        for role in roles:  # one by one, since kills are counted by role; waiting for each is short
            self._count_kills(role, self._processes.kill(role, with_children=with_children))

    def _count_kills(self, role: str, count: int) -> None:
        self.kills[role] = self.kills.get(role, 0) + count

    def _note(self, mishap: str) -> None:
        self.mishaps[mishap] = self.mishaps.get(mishap, 0) + 1

    def _compact(self) -> None:
        """Compact while no worker runs; half of the compactions are killed, too."""
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
