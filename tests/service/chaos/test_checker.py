"""Kills wait for a check where they interrupted the last ones, or many came without one."""

import random
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.chaos import checker
from service.chaos.checker import MOST_INTERRUPTED, MOST_UNSEEN, Checker
from service.chaos.findings import Finding, Findings
from service.chaos.looks import Interrupted


class FakeLook:
    """A service with two models, whose first checks are interrupted."""

    def __init__(self) -> None:
        self.interruptions, self.compared = MOST_INTERRUPTED, list[str]()

    def is_ready(self) -> bool:
        return True

    def models(self) -> list[str]:
        return ["one", "other"]

    def require_settled(self) -> None:
        if self.interruptions:
            self.interruptions -= 1
            raise Interrupted

    def compare(self, entries: object, model: str) -> None:
        self.compared.append(model)


@pytest.fixture
def checks() -> Checker:
    parts: dict[str, Any] = {
        "look": FakeLook(),
        "ledgers": SimpleNamespace(entries=[], acknowledged=7),
        "killer": SimpleNamespace(strikes=1, kills={"api": 1}),
        "gate": SimpleNamespace(closed=nullcontext),
    }
    return Checker(findings=Findings(), data_dir=Path("nowhere"), say=print, **parts)


def test_kills_wait_once_they_interrupted_checks_until_one_is_completed(
    checks: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, over, waited, said = Finding("half", "a file", "cut"), threading.Event(), list[bool](), list[str]()

    def closed() -> nullcontext[None]:
        waited.append(checks.must_wait)
        return nullcontext()

    def say(line: str) -> None:
        said.append(line)
        over.set()

    checks.gate, checks.say = SimpleNamespace(closed=closed), say  # type: ignore[assignment]
    monkeypatch.setattr(checker, "confirmed_damage", lambda data_dir: [damage])
    checks.look_after_kills(over, random.Random(1), 0.0)
    assert waited == [*[False] * MOST_INTERRUPTED, True]
    assert not checks.must_wait
    assert said == ["look 1: killed api 1; 7 changes acknowledged"]
    assert checks.findings.all() == [damage]


def test_kills_without_a_check_wait_for_one(checks: Checker) -> None:
    checks.killer.strikes = MOST_UNSEEN - 1
    assert not checks.must_wait
    checks.killer.strikes = MOST_UNSEEN
    assert checks.must_wait
