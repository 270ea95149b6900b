"""`regard cluster`: what each command does and says, with a collection that stands in for one on Ray."""

import json
import pickle
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import ray

from service.cluster.cluster_view import ClusterView, ShardView
from service.cluster.directing.director import NOTHING_PLANNED
from service.cluster.directing.plan import ClusterPlan
from service.cluster.on_ray import bring_up, director
from service.cluster.on_ray.bring_up import outcome_of
from service.cluster.on_ray.remote import value_of
from service.cluster.shards.journal import Position
from service.cluster.shards.node import ReplicaStatus
from service.errors import UserError
from service.settings import ClusterSettings, Settings
from tests.support.cli_runner import Regard

COMMANDS = [["up"], ["status"], ["add-shard"], ["rebalance"], ["repair", "0", "1"], ["down"]]
NO_SUCH_REPLICA = "there is no replica 7 of shard 0: `regard cluster status` lists all of them"
STATUS = ReplicaStatus(Position(12, "c"), {"ready": 5, "queued": 1, "failed": 0, "deleted": 2}, True, 3_000_000_000)


class StandIn:
    """A collection of one shard with two replicas, the second of which does not answer."""

    def __init__(self) -> None:
        self.looks_until_balanced = 0
        self.num_shards, self.stuck, self.forgets = 1, 0, False
        self.repaired: list[tuple[int, int]] = []

    def plan(self) -> ClusterPlan:
        return ClusterPlan((("regard-node=a", "regard-node=b"),), 1)

    def view(self) -> ClusterView:
        self.looks_until_balanced -= 1
        shards = [ShardView(frozenset({0}), 2, 12)] * self.num_shards
        return ClusterView(shards, moving_from=1 if self.looks_until_balanced > 0 else None, stuck=self.stuck)

    def status(self, shard: int, number: int) -> "Future[Any]":
        answer: Future[Any] = Future()
        if number == 0:
            answer.set_result(STATUS)
        else:
            answer.set_exception(ConnectionError("gone"))
        return answer

    def add_shard(self) -> int:
        self.looks_until_balanced = 3
        self.num_shards += not self.forgets
        return 1

    def repair(self, shard: int, number: int) -> str:
        if number > 1:
            raise UserError(NO_SUCH_REPLICA)
        self.repaired.append((shard, number))
        return "regard-node=c@1"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn()
    monkeypatch.setattr(director, "running_cluster", lambda chosen: made)
    monkeypatch.setattr("service.cli.commands.cluster.SECONDS_BETWEEN", 0.0)
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_without_ray_every_command_says_how_it_is_installed(
    regard: Regard, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    status, _, error = regard("cluster", *command)
    assert status == 1
    assert "Ray is not installed: run `uv pip sync requirements.lock requirements-cluster.lock`" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_where_no_ray_runs_every_command_says_how_it_is_started(
    regard: Regard, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    def refuse(**_: Any) -> None:
        raise ConnectionError("nobody there")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    status, _, error = regard("cluster", *command, "--ray-address", "10.9.8.7:6379")
    assert status == 1
    assert "no Ray cluster at 10.9.8.7:6379 that lets this process in: start one with `ray start --head`" in error


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_where_no_collection_runs_every_command_says_so(
    regard: Regard, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    def unknown(*_: Any) -> None:
        raise ValueError("no such actor")

    monkeypatch.setattr(director, "connect_to_ray", lambda chosen: None)
    monkeypatch.setattr(ray, "get_actor", unknown)
    status, _, error = regard("cluster", *command)
    assert status == 1
    assert NOTHING_PLANNED in error


def test_up_hands_over_what_was_asked_for(regard: Regard, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Settings, ClusterSettings]] = []

    def start(settings: Settings, cluster: ClusterSettings) -> ClusterPlan:
        given.append((settings, cluster))
        return ClusterPlan((("a", "b"), ("b", "c")), 2)

    monkeypatch.setattr(bring_up, "bring_up", start)
    monkeypatch.setenv("REGARD_SEARCH_DEADLINE_S", "3")
    status, shown, notes = regard("cluster", "up", "--shards", 2, "--write-quorum", 2, "--port", 8123)
    assert (status, shown) == (0, "search at http://127.0.0.1:8123\n")
    assert "2 shards with 2 replicas each: `regard cluster status`" in notes
    ((settings, cluster),) = given
    assert settings.port == 8123
    assert (cluster.shards, cluster.replicas, cluster.write_quorum, cluster.search_deadline_s) == (2, 2, 2, 3.0)


@pytest.mark.parametrize(("mode", "is_told"), [(0o644, True), (0o640, True), (0o600, False)])
def test_a_token_that_others_can_read_is_told_of(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_told: bool
) -> None:
    (token := tmp_path / "token").write_text("secret")
    token.chmod(mode)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    monkeypatch.setattr(bring_up, "bring_up", lambda *_: ClusterPlan((("a", "b"),), 1))
    status, _, notes = regard("cluster", "up")
    assert (status, f"chmod 600 {token}" in notes) == (0, is_told)


def test_a_quorum_that_cannot_be_reached_is_refused(regard: Regard) -> None:
    status, _, error = regard("cluster", "up", "--replicas", 2, "--write-quorum", 3)
    assert status == 2
    assert "write_quorum is 3, and there are 2 replicas" in error
    status, _, error = regard("cluster", "up", "--shards", 0)
    assert status == 2
    assert "--shards (REGARD_SHARDS): must be at least 1" in error


def test_status_is_a_table_for_people_and_json_for_programs(regard: Regard, stand_in: StandIn) -> None:
    status, shown, _ = regard("cluster", "status")
    assert status == 0
    head, *rows = [line.split() for line in shown.splitlines() if line.strip()]
    assert head[:4] == ["shard", "replica", "node", "state"]
    assert ["0", "0", "regard-node=a", "answers", "12", "5", "1", "0", "3.0"] in rows
    assert ["0", "1", "regard-node=b", "away"] in rows
    stand_in.looks_until_balanced, stand_in.stuck = 5, 2
    assert "2 pictures stay where they are" in regard("cluster", "status")[2]
    status, shown, _ = regard("cluster", "status", "--json")
    told = json.loads(shown)
    assert (told["is_growing"], told["stuck"]) == (True, 2)
    assert [(one["state"], one["free_gb"]) for one in told["replicas"]] == [("answers", 3.0), ("away", None)]


def test_add_shard_waits_for_the_pictures_unless_told_not_to(regard: Regard, stand_in: StandIn) -> None:
    status, _, notes = regard("cluster", "add-shard")
    assert status == 0
    assert stand_in.looks_until_balanced == 0
    assert "Shard 1 is there" in notes
    assert "Every picture is in its shard." in notes
    status, _, notes = regard("cluster", "add-shard", "--no-wait")
    assert (status, stand_in.looks_until_balanced) == (0, 3)
    assert "Every picture" not in notes


def test_rebalance_waits(regard: Regard, stand_in: StandIn) -> None:
    stand_in.looks_until_balanced = 4
    status, _, notes = regard("cluster", "rebalance")
    assert (status, stand_in.looks_until_balanced) == (0, 0)
    assert "Every picture is in its shard." in notes


def test_a_shard_that_was_not_added_in_the_end_is_no_success(regard: Regard, stand_in: StandIn) -> None:
    stand_in.forgets = True
    status, _, notes = regard("cluster", "add-shard")
    assert status == 1
    assert "adding shard 1 failed" in notes
    assert "Every picture" not in notes


def test_pictures_that_keep_a_move_from_ending_are_said_once(regard: Regard, stand_in: StandIn) -> None:
    stand_in.looks_until_balanced, stand_in.stuck = 4, 2
    status, _, notes = regard("cluster", "rebalance")
    assert status == 0
    assert notes.count("2 pictures stay where they are, since their originals are missing or unreadable") == 1


def test_repair_says_where_the_replica_is_made_anew(regard: Regard, stand_in: StandIn) -> None:
    status, _, notes = regard("cluster", "repair", 0, 1)
    assert (status, stand_in.repaired) == (0, [(0, 1)])
    assert "Replica 1 of shard 0 is being rebuilt on regard-node=c@1" in notes


def test_a_replica_that_does_not_exist_is_one_line(regard: Regard, stand_in: StandIn) -> None:
    status, _, error = regard("cluster", "repair", 0, 7)
    assert status == 1
    assert NO_SUCH_REPLICA in error
    assert "Traceback" not in error
    assert stand_in.repaired == []


def test_down_ends_what_runs(regard: Regard, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(bring_up, "take_down", lambda chosen: ended.append(chosen.ray_address))
    assert regard("cluster", "down", "--ray-address", "head:6379")[0] == 0
    assert ended == ["head:6379"]


def test_a_mistake_comes_back_from_the_director_as_it_was() -> None:
    outcome = pickle.loads(pickle.dumps(outcome_of(StandIn().repair, 0, 7)))
    with pytest.raises(UserError) as mistake:
        value_of(outcome)
    assert str(mistake.value) == NO_SUCH_REPLICA
    assert value_of(outcome_of(StandIn().repair, 0, 1)) == "regard-node=c@1"
    with pytest.raises(ZeroDivisionError):
        outcome_of(lambda: 1 // 0)


def test_no_cluster_begins_beside_the_pictures_of_one_machine(
    regard: Regard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bring_up, "bring_up", lambda *_: pytest.fail("it began"))
    (tmp_path / "catalog.sqlite").touch()
    status, _, errors = regard("cluster", "up", "--data-dir", tmp_path)
    assert (status, "name another --data-dir" in errors) == (1, True)
