"""The director: plans once, remembers its plan, adds shards, and has lost replicas made anew, on nodes without Ray."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from service.cluster.cluster_view import ShardView
from service.cluster.directing import shard_writer
from service.cluster.directing.director import Director
from service.cluster.directing.plan import ClusterPlan, read_plan, split_place
from service.cluster.directing.rebalancing import Rebalancing
from service.cluster.messages import Behind
from service.cluster.operations import BuildView, Delete
from service.cluster.shards.lists import ShardLists
from service.errors import NotReady, UserError
from service.ingest.picture_store import FileOutcome
from tests.support.directories import NOW, Directory, take_in
from tests.support.processes import wait_until


class Machines:
    """Nodes whose replicas are data directories in this process."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder, self.up = folder, list(names)
        self.running: dict[tuple[int, int], Directory] = {}
        self.places: dict[tuple[int, int], str] = {}
        self.events: list[str] = []
        self.moves_held = False
        self._opened: list[Directory] = []

    def choose(self, shard: int, count: int) -> Sequence[str]:
        if len(self.up) < count:
            raise UserError(f"{count} replicas need {count} nodes")
        return self.up[:count]

    def names(self) -> Sequence[str]:
        return sorted(self.up)

    def start(self, shard: int, number: int, node: str) -> "Machines.Started":
        if (shard, number) not in self.running:
            folder = self.folder / f"{shard}-{number}-{node}"
            folder.mkdir(parents=True, exist_ok=True)
            self.running[shard, number] = Directory(folder, Siblings(self, shard))
            self._opened.append(self.running[shard, number])
            self.places[shard, number] = node
            self.events.append(f"start {shard}-{number} on {node}")
        return Machines.Started(self, shard, number)

    def stop(self, shard: int, number: int) -> None:
        if (shard, number) in self.running:
            self.running.pop((shard, number)).down = True
            self.events.append(f"stop {shard}-{number}")

    def lose(self, shard: int, number: int) -> None:
        self.running[shard, number].down = True

    def close(self) -> None:
        for directory in self._opened:
            directory.close()

    class Started:
        """A replica by its number: whichever directory it is on now."""

        def __init__(self, machines: "Machines", shard: int, number: int) -> None:
            self._machines, self._key = machines, (shard, number)
            self.name = f"replica-{shard}-{number}"

        def begin(self, method: str, *arguments: Any) -> "Future[Any]":
            return self._machines.running[self._key].begin(method, *arguments)

        def call(self, method: str, *arguments: Any) -> "Future[Any]":
            if self._machines.moves_held and "requested_views" not in (method, *arguments):
                raise ConnectionError("nobody is asked")
            return self._machines.running[self._key].call(method, *arguments)


class Siblings(list[Directory]):
    """The replicas of a shard as they are now, by number."""

    def __init__(self, machines: Machines, shard: int) -> None:
        super().__init__()
        self._machines, self._shard = machines, shard

    def __getitem__(self, number: Any) -> Any:
        return self._machines.running[self._shard, number]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with closing(Machines(tmp_path / "nodes", "a", "b", "c")) as made:
        yield made


@pytest.fixture
def opened(tmp_path: Path, machines: Machines) -> Iterator[Any]:
    """Starts directors on one data directory, each after the one before has ended."""
    with ExitStack() as stack:
        directors: list[Director] = []

        def start() -> Director:
            for former in directors:
                former.close()
            director = Director(tmp_path / "head", machines, timeout_s=30.0, grace_s=0.0, tend_s=0.02)
            directors[:] = [director]
            stack.callback(director.close)
            return director

        yield start


def members(director: Director) -> list[set[int]]:
    return [set(shard.members) for shard in director.view().shards]


def test_a_cluster_is_planned_once_and_remembered(opened: Any, machines: Machines, tmp_path: Path) -> None:
    director = opened()
    assert (director.plan(), director.view().shards) == (None, [])
    plan = director.begin(2, 2, 1)
    assert plan == ClusterPlan((("a", "b"), ("a", "b")), 1) == read_plan(tmp_path / "head")
    assert director.begin(5, 1, 1) == plan
    wait_until(lambda: members(director) == [{0, 1}, {0, 1}])
    operation, files = take_in("red")
    assert director.write(1, operation, files, 2) == (1, [FileOutcome(duplicate=False, restored=False)])
    assert director.view().shards == [ShardView(frozenset({0, 1}), 2, 0), ShardView(frozenset({0, 1}), 2, 1)]
    events = list(machines.events)
    again = opened()
    assert again.plan() == plan
    wait_until(lambda: [shard.sequence for shard in again.view().shards] == [0, 1])
    assert machines.events == events  # what runs is left alone


def test_too_few_nodes_plan_nothing(opened: Any, tmp_path: Path) -> None:
    director = opened()
    with pytest.raises(UserError, match="4 replicas need 4 nodes"):
        director.begin(1, 4, 1)
    assert director.plan() is None
    assert read_plan(tmp_path / "head") is None


def test_what_was_placed_among_other_shards_is_refused(opened: Any) -> None:
    director = opened()
    director.begin(2, 1, 1)
    with pytest.raises(NotReady, match="A shard was added just now"):
        director.write(0, Delete(image_id="a", now=NOW), None, 1)


def test_routers_are_told_of_the_key_file(opened: Any, tmp_path: Path) -> None:
    director = opened()
    assert director.view().keys is None
    (tmp_path / "head").mkdir()
    (tmp_path / "head" / "keys.json").write_bytes(b"{}")
    assert director.view().keys == b"{}"


def test_a_replica_that_is_lost_for_good_is_made_anew_elsewhere(
    opened: Any, machines: Machines, tmp_path: Path
) -> None:
    director = opened()
    director.begin(1, 2, 1)
    wait_until(lambda: members(director) == [{0, 1}])
    operation, files = take_in("red", "blue")
    director.write(0, operation, files)
    machines.lose(0, 0)
    director.write(0, Delete(image_id=next(iter(files)), now=NOW))
    assert director.repair(0, 0) == "c@1"
    assert machines.events[-2:] == ["stop 0-0", "start 0-0 on c@1"]
    assert read_plan(tmp_path / "head") == ClusterPlan((("c@1", "b"),), 1)
    wait_until(lambda: members(director) == [{0, 1}])
    one, other = machines.running[0, 0], machines.running[0, 1]
    assert one.state() == other.state()
    assert one.settles  # searches wait until it has found the regions
    machines.up.remove("c")
    machines.up.remove("b")
    assert director.repair(0, 0) == "a@2"
    machines.up.remove("a")
    machines.up.append("b")
    with pytest.raises(UserError, match="no node is there that has no other replica of this shard"):
        director.repair(0, 0)
    assert opened().plan() == ClusterPlan((("a@2", "b"),), 1)


def test_pictures_are_found_once_every_member_says_so(
    opened: Any, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    director = opened()
    director.begin(1, 2, 1)
    wait_until(lambda: members(director) == [{0, 1}])
    operation, files = take_in("red", job_id="move")
    director.write(0, operation, files)
    assert not director.shards.job_is_done(0, "move")
    machines.running[0, 0].detect()
    assert not director.shards.job_is_done(0, "move")
    machines.running[0, 1].detect()
    assert director.shards.job_is_done(0, "move")
    settling: Future[Any] = Future()
    settling.set_exception(Behind("it will answer soon, and does not find the pictures then"))
    monkeypatch.setattr(machines.running[0, 1], "call", lambda *arguments: settling)
    assert not director.shards.job_is_done(0, "move")


@pytest.mark.parametrize(("shard", "number"), [(1, 0), (0, 2), (-1, 0), (0, -1)])
def test_a_replica_that_is_not_there_is_not_made_anew(opened: Any, machines: Machines, shard: int, number: int) -> None:
    director = opened()
    with pytest.raises(UserError, match="no collection runs"):
        director.repair(shard, number)
    director.begin(1, 2, 1)
    events = list(machines.events)
    with pytest.raises(UserError, match=f"there is no replica {number} of shard {shard}: `regard cluster status`"):
        director.repair(shard, number)
    assert machines.events == events


def test_a_shard_is_added_once_all_of_its_replicas_are_there(
    opened: Any, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    director = opened()
    with pytest.raises(UserError, match="no collection runs"):
        director.add_shard()
    director.begin(1, 2, 1)
    wait_until(lambda: members(director) == [{0, 1}])
    director.write(0, BuildView(digest="a model besides", now=NOW), None, 1)
    machines.moves_held = True
    assert director.add_shard() == 1
    with pytest.raises(UserError, match="still moving to the last shard"):
        director.add_shard()
    wait_until(lambda: director.view().num_shards == 2)
    assert director.shards.ask(1, ShardLists.requested_views) == {"a model besides"}
    assert director.plan() == ClusterPlan((("a", "b"), ("a", "b")), 1, moving_from=1)
    assert director.view().moving_from == 1
    again = opened()
    assert again.plan().moving_from == 1  # the move goes on after a restart
    machines.moves_held = False
    monkeypatch.setattr("service.cluster.directing.director.Rebalancing", partial(Rebalancing, linger_s=0.0))
    wait_until(lambda: again.plan().moving_from is None)
    assert again.view().moving_from is None


def test_a_shard_that_is_being_added_is_remembered(opened: Any, machines: Machines, tmp_path: Path) -> None:
    director = opened()
    director.begin(1, 2, 1)
    wait_until(lambda: members(director) == [{0, 1}])
    director.close()  # it looks at nothing any more
    assert director.add_shard() == 1
    assert director.view().adding == 1
    machines.moves_held = True
    again = opened()
    with pytest.raises(UserError, match="still moving to the last shard"):
        again.add_shard()
    wait_until(lambda: again.view().num_shards == 2)
    assert again.plan() == ClusterPlan((("a", "b"), ("a", "b")), 1, moving_from=1)
    assert again.view().adding is None


def test_a_shard_that_cannot_be_started_is_not_being_added(
    opened: Any, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    director, start = opened(), machines.start
    plan = director.begin(1, 2, 1)
    with monkeypatch.context() as broken:
        broken.setattr(machines, "start", lambda shard, number, node: start(shard, number // (1 - number), node))
        with pytest.raises(ZeroDivisionError):
            director.add_shard()
    assert director.plan() == plan
    assert machines.events[-2:] == ["start 1-0 on a", "stop 1-0"]
    assert director.add_shard() == 1


def test_plans_of_earlier_releases_are_read(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"shards": [["a", "b"]], "write_quorum": 1, "moving_from": null}')
    assert read_plan(tmp_path) == ClusterPlan((("a", "b"),), 1)


def test_a_replica_that_hangs_keeps_no_other_shard_from_being_looked_after(
    opened: Any, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    director = opened()
    director.begin(2, 1, 1)
    wait_until(lambda: members(director) == [{0}, {0}])
    hung, released, is_asked = machines.running[0, 0], Future[Any](), Event()
    monkeypatch.setattr(shard_writer, "POSITION_S", 120.0)

    def hang(*_: object) -> Future[Any]:
        is_asked.set()
        return released

    monkeypatch.setattr(hung, "begin", hang)
    is_asked.wait()
    other = machines.running[1, 0]
    other.close()
    other.open()
    began = time.monotonic()
    wait_until(lambda: other.joined)
    assert time.monotonic() - began < 60.0  # and not the 120 s that the other replica has
    released.set_result(None)


def test_places_are_read_as_they_are_written() -> None:
    assert split_place("node:10.0.0.1") == ("node:10.0.0.1", 0)
    assert split_place("regard-node=a@12") == ("regard-node=a", 12)
