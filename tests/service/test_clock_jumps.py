"""A clock that jumps by years, forward and back, loses nothing, hides nothing, and brings nothing back."""

import random
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from service.chaos.findings import Findings
from service.chaos.ledger import deleted, edited, restored, uploaded
from tests.support.library import NOW
from tests.support.whole_service import WholeService, drawn_ledger, whole_service, wrong_on_disk

YEAR = 365 * 86_400.0


class JumpingClock:
    """Tells the time it was set to, which anybody may change."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def one_machine(data: Path, clock: JumpingClock, **settings: Any) -> AbstractContextManager[WholeService]:
    """A service whose web side and worker read this clock."""
    return whole_service(data, clock, clock, **settings)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_when_it_jumps_between_any_two_steps(tmp_path: Path, seed: int) -> None:
    rng, clock = random.Random(seed), JumpingClock()
    ledger, findings = drawn_ledger(5), Findings()
    first, second, third, *others = ledger.entries
    data = tmp_path / "data"
    with one_machine(data, clock, delete_grace_s=10 * YEAR) as service:
        for name, entries, change in (
            ("upload", [first, second], uploaded),
            ("upload", [third], uploaded),
            ("edit", [first], edited),
            ("delete", [second], deleted(0.0)),
            ("delete", [third], deleted(0.0)),
            ("restore", [third], restored),
            ("upload", others, uploaded),
        ):
            clock.now = NOW + rng.choice((-1, 0, 1)) * rng.random() * YEAR
            service.change(name, entries, change)
            if rng.random() < 0.7:
                service.work()
        service.work()
        service.compare(ledger, findings)
        newest = service.http.get("/images", params={"limit": 1}).json()
        pages = [newest["images"][0]["image_id"]]
        while newest["next"] is not None:
            newest = service.http.get("/images", params={"limit": 1, "after": newest["next"]}).json()
            pages += [image["image_id"] for image in newest["images"]]
        assert sorted(pages) == sorted(entry.picture.image_id for entry in (first, third, *others))
    assert [str(finding) for finding in findings.all()] == []
    assert wrong_on_disk(data) == []


def test_a_clock_set_back_makes_no_deletion_final_and_one_set_on_ends_its_grace(tmp_path: Path) -> None:
    clock = JumpingClock()
    (entry,) = drawn_ledger(1).entries
    with one_machine(tmp_path, clock, delete_grace_s=YEAR) as service:
        service.change("upload", [entry], uploaded)
        service.work()
        service.change("delete", [entry], deleted(0.0))
        clock.now = NOW - 5 * YEAR
        service.work()
        service.change("restore", [entry], restored)
        clock.now = NOW
        service.change("delete", [entry], deleted(0.0))
        clock.now = NOW + 2 * YEAR
        service.work()
        assert service.send("restore", [entry]).status_code == 404


def test_readiness_follows_a_clock_that_was_set(tmp_path: Path) -> None:
    clock = JumpingClock()
    with one_machine(tmp_path, clock) as service:
        for jump in (0.0, YEAR, -YEAR):
            clock.now = NOW + jump
            service.work()
            assert service.http.get("/readyz").status_code == 200, service.http.get("/readyz").text
