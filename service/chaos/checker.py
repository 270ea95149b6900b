"""The checks of a service under load: after kills, in a thread of their own."""

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from service.chaos.findings import Findings
from service.chaos.gate import Gate
from service.chaos.killer import Killer
from service.chaos.ledger import Ledgers
from service.chaos.looks import Interrupted, Look
from service.chaos.stored import confirmed_damage

MOST_INTERRUPTED = 2  # consecutive checks that kills may interrupt before they wait for one to end
MOST_UNSEEN = 4  # kills without a check before they wait for one: a busy machine starts a service slowly


@dataclass(kw_only=True)
class Checker:
    """Checks that all acknowledged changes are present, found by some model, and intact on disk.

    One thread checks at a time, and it alone counts; another one, which kills, asks whether it `must_wait`.
    """

    look: Look
    ledgers: Ledgers
    killer: Killer
    gate: Gate
    findings: Findings
    data_dir: Path
    say: Callable[[str], None]
    looks: int = 0
    """The number of checks that were completed."""
    _interrupted: int = 0  # consecutive checks
    _looked_at: int = 0  # the number of kills before the last check that was completed

    @property
    def must_wait(self) -> bool:
        """Whether to stop killing until a check has completed."""
        unseen = self.killer.strikes - self._looked_at
        return self._interrupted >= MOST_INTERRUPTED or unseen >= MOST_UNSEEN

    def look_after_kills(self, over: threading.Event, rng: random.Random, longest_pause_s: float) -> None:
        """Check the service whenever it is ready again after a kill, until the run is over."""
        while not over.wait(0.2):
            strikes = self.killer.strikes
            if strikes == self._looked_at or not self.look.is_ready():
                continue
            over.wait(rng.uniform(0, longest_pause_s))  # let the load continue for a while
            with self.gate.closed():
                try:
                    self.compare(lambda models: [rng.choice(models)])
                except Interrupted:
                    self._interrupted += 1
                    continue
                self.findings.add_all(confirmed_damage(self.data_dir))
            self._looked_at, self._interrupted = strikes, 0
            kills = ", ".join(f"{role} {count}" for role, count in sorted(self.killer.kills.items()))
            self.say(f"look {self.looks}: killed {kills}; {self.ledgers.acknowledged} changes acknowledged")

    def compare(self, chosen: Callable[[list[str]], Iterable[str]]) -> None:
        """Compare the service, once it has settled, with the ledgers, by those `chosen` of its models. Raises
        Interrupted where it is killed meanwhile."""
        self.look.require_settled()
        for model in chosen(self.look.models()):
            self.look.compare(self.ledgers.entries, model)
        self.looks += 1
