"""One ranking of what shards found: each picture or caption once, with a number and the shard that it is asked of."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic

import numpy as np

from service.cluster.messages import ItemName, RankedName, ShardRanking
from service.search.candidates import Candidates


class RowTable(Generic[ItemName]):
    """Row numbers of names, and which shard each lies in."""

    def __init__(self) -> None:
        self.names: list[ItemName] = []
        self.shards: list[int] = []
        self._rows: dict[ItemName, int] = {}
        self._further: dict[ItemName, list[int]] = defaultdict(list)

    def of(self, shard: int, name: ItemName) -> int:
        """The row of a name, a new one where it has none yet."""
        if name not in self._rows:
            self._rows[name] = len(self.names)
            self.names.append(name)
            self.shards.append(shard)
        return self._rows[name]

    def by_shard(self, rows: Iterable[int]) -> dict[int, list[int]]:
        """Shard -> its rows among these, in their order."""
        placed: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            placed[self.shards[row]].append(row)
        return dict(placed)

    def note(self, shard: int, name: ItemName) -> None:
        """Remember that a shard has the name, too."""
        self._further[name].append(shard)

    def elsewhere(self, names: Iterable[ItemName]) -> dict[int, list[ItemName]]:
        """Shard -> those of the names that it has besides the shard where they are asked for."""
        placed: dict[int, list[ItemName]] = defaultdict(list)
        for name in names:
            others = [shard for shard in self._further.get(name, ()) if shard != self.shards[self._rows[name]]]
            if others:
                placed[others[0]].append(name)
        return dict(placed)

    def move(self, name: ItemName, shard: int) -> None:
        """Ask for the name in that shard from now on."""
        self.shards[self._rows[name]] = shard


def merged_candidates(parts: Mapping[int, ShardRanking[ItemName]], k: int, rows: RowTable[ItemName]) -> Candidates:
    """The best k of all shards, as one machine's shortlist would have them: of equal products, what came first."""
    passing = _best_names(((shard, part.passing) for shard, part in parts.items()), k, rows)
    everything = _best_names(((shard, part.unfiltered) for shard, part in parts.items()), k, rows)
    return Candidates(
        rows=[rows.of(shard, one.name) for shard, one in passing],
        scores=np.array([one.product for _, one in passing], np.float32),
        gallery=sum(part.gallery for part in parts.values()),
        unfiltered=[rows.of(shard, one.name) for shard, one in everything],
        unfiltered_scores=np.array([one.product for _, one in everything], np.float32),
    )


def _best_names(
    parts: Iterable[tuple[int, Sequence[RankedName[ItemName]]]], k: int, rows: RowTable[ItemName]
) -> list[tuple[int, RankedName[ItemName]]]:
    """The k largest products of all shards, each with its shard."""
    found = [(shard, one) for shard, part in parts for one in part]
    # A picture that is just being moved is in two shards. It counts once, in the one that was added later: there it
    # stays, from the other one it may go before its record is read. Its products may differ by a rounding.
    last: dict[ItemName, int] = {}
    for shard, one in found:
        rows.note(shard, one.name)
        last[one.name] = max(shard, last.get(one.name, shard))
    found.sort(key=lambda one: (-one[1].product, one[1].added_at))
    once: dict[ItemName, tuple[int, RankedName[ItemName]]] = {}
    for _, one in found:
        once.setdefault(one.name, (last[one.name], one))
    return list(once.values())[:k]
