"""What is damaged at random is made whole again; a kill at a fault point is told from a process that ends by itself."""

import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from index.fault_points import VARIABLE, FaultPoint, arm
from service.chaos.fault_injection import MOST_PASSES, PLACES, WITHOUT_ROOM, damage_tails, fault_place, wait_for_repair
from service.chaos.findings import Finding, Findings
from service.chaos.killer import DAMAGE, FAULT, FULL, RIVAL, TURNS_WITHOUT_ROOM, Killer
from service.chaos.stored import stored_findings
from service.settings import PREFIX, Settings
from service.storage.data_dir import DataDir
from tests.support.pictures import encoded
from tests.support.processes import wait_until
from tests.support.worker_store import COLOURS, Store, noise


@pytest.fixture
def disarmed() -> Iterator[None]:
    yield
    arm(None)


@pytest.mark.usefixtures("disarmed")
def test_every_fault_point_is_drawn_for_some_role_and_is_one() -> None:
    assert {place for places in PLACES.values() for place in places} == set(FaultPoint)
    rng = random.Random(1)
    for role in PLACES:
        drawn = {fault_place(role, rng)[VARIABLE] for _ in range(2000)}
        assert drawn == {f"{place}:{passes}" for place in PLACES[role] for passes in range(1, MOST_PASSES + 1)}
        for place in drawn:
            arm(place)


def test_a_reserve_that_no_disk_has_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    ((name, value),) = WITHOUT_ROOM.items()
    monkeypatch.setenv(name, value)
    assert Settings().disk_reserve_bytes == int(value)
    assert name == f"{PREFIX}DISK_RESERVE_BYTES"


@pytest.mark.parametrize("seed", range(6))
def test_a_worker_makes_damaged_tails_whole_again(tmp_path: Path, seed: int) -> None:
    store = Store(tmp_path)
    ids = [store.accept(encoded(noise(number), "PNG"), captions=[COLOURS[number]]) for number in range(4)]
    store.drain()
    rng = random.Random(seed)
    for _ in range(3):
        assert damage_tails(DataDir(tmp_path), rng)
        store.drain()
        assert [str(finding) for finding in stored_findings(tmp_path)] == []
    store.check({image_id: noise(number) for number, image_id in enumerate(ids)})
    store.catalog.close()


def test_where_nothing_is_stored_nothing_is_damaged(tmp_path: Path) -> None:
    assert damage_tails(DataDir(tmp_path), random.Random(1)) == []


class FakeProcesses:
    """Processes that run until they are killed, or told to have ended."""

    def __init__(self, folder: Path) -> None:
        self.roles = ("api", "worker")
        self.settings = SimpleNamespace(data_dir=folder)
        self.logs = folder
        self.running: dict[str, Mapping[str, str]] = {role: {} for role in self.roles}
        self.statuses: dict[str, int] = {}
        self.started: list[tuple[str, Mapping[str, str]]] = []
        self.repair: Callable[[], None] = lambda: None
        """The work of a worker that starts."""

    def start(self, role: str, variables: Mapping[str, str] | None = None) -> SimpleNamespace:
        assert role not in self.running
        self.running[role] = variables or {}
        self.started.append((role, variables or {}))
        if role == "worker":
            self.repair()
        return SimpleNamespace(wait=lambda seconds: 0)

    def kill(self, *roles: str, with_children: bool = False) -> int:
        ended = [role for role in roles if self.running.pop(role, None) is not None]
        return len([role for role in ended if self.statuses.pop(role, None) is None])

    def ended(self) -> dict[str, int]:
        return dict(self.statuses)


class Repair:
    """Notes what is damaged in a data directory, and makes its files as they were at first."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.found = folder, list[Finding]()
        self.whole = {path: path.read_bytes() for path in folder.rglob("*.bin")}

    def __call__(self) -> None:
        self.found += stored_findings(self.folder)
        for path, content in self.whole.items():
            path.write_bytes(content)


class Draws(random.Random):
    """Gives the numbers it is told, in their order, then such as bring nothing about. Choices do not use them up."""

    def __init__(self, *numbers: float) -> None:
        super().__init__(1)
        self._numbers = list(numbers)

    def random(self) -> float:
        return self._numbers.pop(0) if self._numbers else 0.99

    def getrandbits(self, k: int) -> int:
        return super().getrandbits(k)


class Scene:
    """A killer among fake processes, who draws what it is told."""

    def __init__(self, folder: Path) -> None:
        self.processes, self.findings, self.copying = FakeProcesses(folder), Findings(), threading.Lock()

    def killer(self, *numbers: float) -> Killer:
        draws = Draws(*numbers)
        return Killer(self.processes, draws, 1.0, self.findings, self.copying, sleep=lambda s: None)  # type: ignore[arg-type]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def store(scene: Scene) -> Iterator[Store]:
    """The scene's data directory, with a picture and a worker that is heard from."""
    store = Store(scene.processes.settings.data_dir)
    store.accept(encoded(noise(1), "PNG"))
    store.drain()
    store.catalog.processes.heartbeat("worker", 1e12)
    yield store
    store.catalog.close()


def test_a_process_that_died_at_its_fault_point_was_killed_and_one_that_ended_was_not(scene: Scene) -> None:
    killer = scene.killer(FAULT - 0.01)
    scene.processes.statuses["api"] = -signal.SIGKILL
    killer.start_what_ended()
    assert [finding.subject for finding in scene.findings.all()] == ["api"]
    assert killer.total == 0
    ((role, variables),) = scene.processes.started
    assert (role, list(variables)) == ("api", [VARIABLE])
    scene.processes.statuses["api"] = -signal.SIGKILL
    killer.start_what_ended()
    assert len(scene.findings.all()) == 1
    assert (killer.kills, killer.strikes) == ({"api": 1}, 1)
    assert killer.mishaps == {variables[VARIABLE].partition(":")[0]: 1}
    assert scene.processes.running == {"api": {}, "worker": {}}


def test_an_armed_process_that_ends_otherwise_is_a_finding(scene: Scene) -> None:
    killer = scene.killer(0.0)
    scene.processes.statuses["worker"] = 1
    killer.start_what_ended()
    scene.processes.statuses["worker"] = 1
    killer.start_what_ended()
    assert killer.total == 0
    assert [str(finding) for finding in scene.findings.all()] == [
        f"fault: worker: it ended by itself with 1; see {scene.processes.logs}"
    ]


def test_room_comes_back_after_a_while(scene: Scene) -> None:
    killer = scene.killer(FAULT + FULL - 0.01)
    scene.processes.statuses["worker"] = 1
    killer.start_what_ended()
    for _ in range(TURNS_WITHOUT_ROOM - 1):
        assert scene.processes.running["worker"] == WITHOUT_ROOM
        killer.start_what_ended()
    assert scene.processes.running["worker"] == {}
    assert killer.kills == {"worker": 1}


def test_at_the_end_nothing_is_armed_or_without_room(scene: Scene) -> None:
    killer = scene.killer(0.0, FAULT)
    scene.processes.statuses = {"api": 1, "worker": 1}
    killer.start_what_ended()
    assert all(scene.processes.running.values())
    killer.make_harmless()
    assert scene.processes.running == {"api": {}, "worker": {}}
    assert killer.kills == {"api": 1, "worker": 1}


def test_a_second_writer_ends_with_the_strike_that_began_it(scene: Scene) -> None:
    killer = scene.killer(RIVAL - 0.01)
    killer.strike(("worker",))
    assert [role for role, _ in scene.processes.started] == ["rival", "worker"]
    assert set(scene.processes.running) == {"api", "worker"}
    assert killer.mishaps == {"second writer": 1}


def test_tails_are_damaged_while_nobody_runs_and_a_worker_is_the_first_to_come_again(
    scene: Scene, store: Store
) -> None:
    scene.processes.repair = repair = Repair(store.folder)
    killer = scene.killer(*[0.99] * 4, DAMAGE - 0.01)
    killer.strike(("api", "worker"))
    assert [role for role, _ in scene.processes.started] == ["worker", "api"]
    assert repair.found != []
    assert set(killer.mishaps) <= {"damaged regions", "damaged views"}


def test_nothing_is_damaged_while_a_copy_is_made(scene: Scene, store: Store) -> None:
    scene.processes.repair = repair = Repair(store.folder)
    killer = scene.killer(*[0.99] * 4, DAMAGE - 0.01)
    scene.copying.acquire()
    striking = threading.Thread(target=killer.strike, args=(("api", "worker"),))
    striking.start()
    wait_until(lambda: not scene.processes.running)
    striking.join(0.2)
    assert striking.is_alive()
    assert list(stored_findings(store.folder)) == []
    scene.copying.release()
    striking.join()
    assert repair.found != []
    assert not scene.copying.locked()


def test_a_worker_that_ended_is_not_waited_for(scene: Scene) -> None:
    store = Store(scene.processes.settings.data_dir)
    scene.processes.statuses["worker"] = 1
    assert not wait_for_repair(scene.processes, 0.0)  # type: ignore[arg-type]
    scene.processes.statuses.clear()
    store.catalog.processes.heartbeat("worker", 2.0)
    assert wait_for_repair(scene.processes, 1.0)  # type: ignore[arg-type]
    store.catalog.close()


def test_a_worker_is_waited_for_until_all_is_whole_again(scene: Scene, store: Store) -> None:
    (records,) = (store.folder / "regions").rglob("*.bin")
    whole, looks = records.read_bytes(), 0
    records.write_bytes(whole[:-64])

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            records.write_bytes(whole)

    assert wait_for_repair(scene.processes, 1.0, sleep)  # type: ignore[arg-type]
    assert looks == 3
