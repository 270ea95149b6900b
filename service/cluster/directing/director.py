"""The director of a cluster: knows which shards there are and where, and holds the writer of each.

What it must not forget lies below its data directory: the plan in `cluster.json`, and beside it who has every
acknowledged change of each shard.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from service.cluster.cluster_view import ClusterView, ShardView
from service.cluster.directing.members_file import MembersFile
from service.cluster.directing.movable_shards import MovableShards, StartedReplica
from service.cluster.directing.plan import ClusterPlan, read_plan, write_plan
from service.cluster.directing.rebalancing import Rebalancing
from service.cluster.directing.shard_writer import ShardWriter
from service.cluster.operations import BuildView, Operation
from service.cluster.placement import Placement
from service.cluster.shards.lists import ShardLists
from service.cluster.shards.replica import Files
from service.errors import NotReady, UserError
from service.storage.data_dir import DataDir

TEND_S = 1.0
NOTHING_PLANNED = "no collection runs on this Ray cluster: `regard cluster up` starts one"

log = logging.getLogger(__name__)


class Nodes(Protocol):
    """The machines of a cluster."""

    def choose(self, shard: int, count: int) -> Sequence[str]:
        """Names of `count` different nodes for the replicas of a shard. UserError where there are too few."""

    def names(self) -> Sequence[str]:
        """The nodes that are up."""

    def start(self, shard: int, number: int, node: str) -> StartedReplica:
        """Start a replica on a node, unless it runs, and reach it."""

    def stop(self, shard: int, number: int) -> None:
        """End a replica for good, if it runs."""


class Director:
    """Starts replicas, tends writers, moves pictures to shards that are added. Safe from many threads."""

    def __init__(
        self, data_dir: Path, nodes: Nodes, timeout_s: float = 60.0, grace_s: float = 20.0, tend_s: float = TEND_S
    ) -> None:
        """Read the plan, if there is one, and start what it says."""
        self._data_dir, self._nodes, self._timeout_s, self._grace_s = data_dir, nodes, timeout_s, grace_s
        self._tend_s, self._tending = tend_s, list[threading.Thread]()
        self._changing = threading.Lock()
        self._plan = read_plan(data_dir)
        placement = Placement(0) if self._plan is None else self._plan.placement
        self.shards = MovableShards(placement, timeout_s, self._end_move)
        self._rebalancing: Rebalancing | None = None
        self._stop = threading.Event()
        if self._plan is not None:
            self._start_shards(self._plan)
        self._tending.append(self._repeated(self._tend_once, "the cluster could not be tended"))

    def begin(self, num_shards: int, num_replicas: int, write_quorum: int) -> ClusterPlan:
        """Plan and start a new cluster; one that is planned already stays as it is."""
        with self._changing:
            if self._plan is None:
                shards = tuple(tuple(self._nodes.choose(shard, num_replicas)) for shard in range(num_shards))
                plan = ClusterPlan(shards, write_quorum)
                self._keep(plan)
                self._start_shards(plan)
                return plan
            return self._plan

    def plan(self) -> ClusterPlan | None:
        """The plan of the cluster; None before `begin`."""
        return self._plan

    def view(self) -> ClusterView:
        """The view of the cluster that routers work with."""
        plan, rebalancing = self._plan, self._rebalancing  # each of one moment: the move may end meanwhile
        shards = []
        for nodes, writer in zip(plan.shards if plan else (), self.shards.writers, strict=False):
            membership = writer.membership()
            shards.append(ShardView(membership.members, len(nodes), membership.position.sequence))
        keys = DataDir(self._data_dir).keys
        return ClusterView(
            shards=shards,
            moving_from=plan.moving_from if plan else None,
            adding=len(shards) if plan and plan.adding else None,
            stuck=rebalancing.num_stuck if rebalancing else 0,
            keys=keys.read_bytes() if keys.is_file() else None,
        )

    def write(
        self, shard: int, operation: Operation, files: Files | None = None, num_shards: int | None = None
    ) -> tuple[int, Any]:
        """Have a shard make a change; its number, and what it returned. NotReady, Moved and what the change raises.

        `num_shards` are those that the caller placed pictures among, None for a step of the move: others are refused.
        """
        if num_shards is None:
            return self.shards.write(shard, operation, files)
        with self.shards.gate.passing(shard, operation, num_shards):
            return self.shards.write(shard, operation, files)

    def add_shard(self) -> int:
        """Add a shard, and move its share of the pictures to it in the background; its number."""
        with self._changing:
            plan = self._planned()
            plan.check_still()
            number = len(plan.shards)
            adding = tuple(self._nodes.choose(number, len(plan.shards[0])))
            self._keep(replace(plan, adding=adding))
            with ExitStack() as undo:
                # Or they would be taken for those of the next shard, which may be meant for other nodes.
                undo.callback(self._keep, plan)
                for replica in range(len(adding)):
                    undo.callback(self._nodes.stop, number, replica)
                self._start_shard(number, adding, plan.write_quorum)
                undo.pop_all()
            return number

    def repair(self, shard: int, number: int) -> str:
        """Make a replica anew on another node, from its sibling; the node's name."""
        with self._changing:
            plan = self._planned()
            place = plan.new_place(shard, number, self._nodes.names())
            if not self.shards.writers[shard].membership().members - {number}:
                raise UserError(
                    f"no other replica of shard {shard} answers, and a new one is a copy of such a one: start its node"
                )
            self._nodes.stop(shard, number)
            self._keep(plan.with_replica(shard, number, place))
            self._nodes.start(shard, number, place)
            return place

    def close(self) -> None:
        """End its threads."""
        self._stop.set()
        for thread in self._tending:
            thread.join()
        self.shards.close()

    def _planned(self) -> ClusterPlan:
        """The plan. UserError where there is none."""
        if self._plan is None:
            raise UserError(NOTHING_PLANNED)
        return self._plan

    def _start_shards(self, plan: ClusterPlan) -> None:
        for shard, nodes in enumerate(plan.started):
            self._start_shard(shard, nodes, plan.write_quorum)

    def _start_shard(self, shard: int, nodes: Sequence[str], quorum: int) -> None:
        replicas = [self._nodes.start(shard, number, node) for number, node in enumerate(nodes)]
        members = MembersFile(self._data_dir / f"members-{shard}.json")
        writer = ShardWriter(shard, replicas, quorum, self._timeout_s, self._grace_s, members=members)
        self.shards.add(replicas, writer)
        # In a thread of its own: one that waits for a replica keeps no other shard waiting.
        self._tending.append(self._repeated(writer.tend, f"shard {shard} could not be tended"))

    def _end_move(self) -> bool:
        """Plan that the pictures are where they belong; False where one may have come back since the pass began."""
        with self._changing:
            assert self._plan is not None
            ended = replace(self._plan, moving_from=None)
            return self.shards.gate.finish(lambda: self._keep(ended))

    def _keep(self, plan: ClusterPlan) -> None:
        write_plan(self._data_dir, plan)
        self._plan = plan
        self.shards.gate.place(plan.placement)

    def _repeated(self, tend: Callable[[], None], complaint: str) -> threading.Thread:
        """A thread that tends something until the end."""

        def run() -> None:
            while not self._stop.wait(self._tend_s):
                try:
                    tend()
                except NotReady as fault:
                    log.warning("%s: %s", complaint, fault)
                except Exception:  # whatever it is, the next turn tries again
                    log.exception(complaint)

        thread = threading.Thread(target=run, name="director", daemon=True)
        thread.start()
        return thread

    def _tend_once(self) -> None:
        self._admit_shard()
        self._move_pictures()

    def _admit_shard(self) -> None:
        """Let pictures belong to a shard that is being added once all of its replicas are there."""
        with self._changing:
            plan = self._plan
            if plan is None or plan.adding is None:
                return
            number = len(plan.shards)
            if len(self.shards.writers[number].membership().members) == len(plan.adding):
                self._request_views(number)  # before its first picture comes, which they have to hold
                self._keep(plan.with_added())
                self._request_views(number)  # whatever was asked for meanwhile

    def _request_views(self, shard: int) -> None:
        """Have a shard build the views that were asked for of the first one. Raises ShardLost where one of the two does
        not answer, NotReady where the shard takes no change."""
        asked = self.shards.ask(0, ShardLists.requested_views) - self.shards.ask(shard, ShardLists.requested_views)
        for digest in sorted(asked):
            self.shards.write(shard, BuildView(digest=digest, now=time.time()))

    def _move_pictures(self) -> None:
        """One step of the move to the shard that was added last."""
        plan = self._plan
        if plan is None or plan.moving_from is None:
            return
        try:
            if self._rebalancing is None:
                self._rebalancing = Rebalancing(self.shards, plan.moving_from)
            if self._rebalancing.advance():
                self._rebalancing = None
        except Exception:  # whatever it is, the next turn tries again, and nothing is taken away before it is there
            log.exception("pictures could not be moved")
