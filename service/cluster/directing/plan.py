"""The plan of a cluster: which shards there are, where their replicas run, and how a change of it is checked."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from index.files import make_folder, replace_file
from service.cluster.placement import Placement
from service.errors import UserError
from service.storage.data_dir import DataDir


@dataclass(frozen=True)
class ClusterPlan:
    """The nodes that replicas run on, and the rule by which changes are acknowledged. Kept in a file."""

    shards: tuple[tuple[str, ...], ...]
    """Of each shard, the node of each replica, by a name that it keeps."""
    write_quorum: int
    moving_from: int | None = None
    adding: tuple[str, ...] | None = None
    """The nodes of a shard that does not answer yet, and that no picture belongs to."""

    @property
    def placement(self) -> Placement:
        """The places of pictures."""
        return Placement(len(self.shards), self.moving_from)

    @property
    def started(self) -> tuple[tuple[str, ...], ...]:
        """The nodes of each shard that runs, also of one that is being added."""
        return self.shards if self.adding is None else (*self.shards, self.adding)

    def check_still(self) -> None:
        """UserError while a shard is being added, or pictures move to one."""
        if self.moving_from is not None or self.adding is not None:
            raise UserError(
                "pictures are still moving to the last shard that was added: `regard cluster rebalance` waits for the"
                " end of it"
            )

    def new_place(self, shard: int, number: int, nodes: Sequence[str]) -> str:
        """The place for a replica made anew: one of the nodes without another replica of its shard, a different one if
        there is one. UserError where there is no such replica, or no node for it."""
        if not (0 <= shard < len(self.shards) and 0 <= number < len(self.shards[shard])):
            raise UserError(f"there is no replica {number} of shard {shard}: `regard cluster status` lists all of them")
        places = [split_place(place) for place in self.shards[shard]]
        was, generation = places.pop(number)
        others = {node for node, _ in places}
        free = [node for node in nodes if node not in others]
        if not free:
            raise UserError("no node is there that has no other replica of this shard: start one with `ray start`")
        # In a folder of its own: the one that is given up may hold changes that nobody else made.
        return f"{next((node for node in free if node != was), was)}@{generation + 1}"

    def with_replica(self, shard: int, number: int, place: str) -> Self:
        """The plan with a replica at another place."""
        nodes, shards = list(self.shards[shard]), list(self.shards)
        nodes[number] = place
        shards[shard] = tuple(nodes)
        return replace(self, shards=tuple(shards))

    def with_added(self) -> Self:
        """The plan once the shard that is being added answers: pictures move to it."""
        return replace(self, shards=self.started, moving_from=len(self.shards), adding=None)


def split_place(place: str) -> tuple[str, int]:
    """The node of a replica, and how often the replica was made anew: NODE, or NODE@2."""
    node, _, generation = place.partition("@")
    return node, int(generation or 0)


def read_plan(data_dir: Path) -> ClusterPlan | None:
    """The plan that was written down; None where there is none."""
    path = DataDir(data_dir).cluster_plan
    if not path.is_file():
        return None
    content = json.loads(path.read_bytes())
    return ClusterPlan(
        shards=tuple(tuple(nodes) for nodes in content["shards"]),
        write_quorum=content["write_quorum"],
        moving_from=content["moving_from"],
        adding=tuple(adding) if (adding := content.get("adding")) else None,  # earlier releases forgot it
    )


def write_plan(data_dir: Path, plan: ClusterPlan) -> None:
    """Write a plan down, durably."""
    make_folder(data_dir, private=True)
    replace_file(DataDir(data_dir).cluster_plan, json.dumps(asdict(plan), indent=2).encode())
