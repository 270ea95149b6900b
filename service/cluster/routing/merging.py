"""Merged rankings of shards: each picture or caption once, with a row number and the shard to ask about it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic

import numpy as np

from service.cluster.messages import ItemName, RankedName, ShardRanking
from service.search.candidates import Candidates


class RowTable(Generic[ItemName]):
    """Row numbers of names, and the shard that is asked about each."""

    def __init__(self) -> None:
        self.names: list[ItemName] = []
        self.shards: list[int] = []
        self._rows: dict[ItemName, int] = {}
        self._further: dict[ItemName, list[int]] = defaultdict(list)

    def of(self, shard: int, name: ItemName) -> int:
        """The row of a name, which is a new one for a new name."""
        if name not in self._rows:
            self._rows[name] = len(self.names)
            self.names.append(name)
            self.shards.append(shard)
        return self._rows[name]

    def of_rows(self, rows: Iterable[int]) -> list[ItemName]:
        """The names of rows."""
        return [self.names[row] for row in rows]

    def by_shard(self, rows: Iterable[int]) -> dict[int, list[ItemName]]:
        """Shard -> its names among those of the rows, in their order."""
        placed: dict[int, list[ItemName]] = defaultdict(list)
        for row in rows:
            placed[self.shards[row]].append(self.names[row])
        return dict(placed)

    def note(self, shard: int, name: ItemName) -> None:
        """Note that a shard has the name, too."""
        self._further[name].append(shard)

    def elsewhere(self, names: Iterable[ItemName]) -> dict[int, list[ItemName]]:
        """Shard -> those of the names that it has although another shard is asked about them."""
        placed: dict[int, list[ItemName]] = defaultdict(list)
        for name in names:
            others = [shard for shard in self._further.get(name, ()) if shard != self.shards[self._rows[name]]]
            if others:
                placed[others[0]].append(name)
        return dict(placed)

    def move_all(self, names: Mapping[int, Iterable[ItemName]]) -> None:
        """Ask each shard about its names from now on."""
        for shard, moved in names.items():
            for name in moved:
                self.shards[self._rows[name]] = shard


def merged_candidates(parts: Mapping[int, ShardRanking[ItemName]], k: int, rows: RowTable[ItemName]) -> Candidates:
    """The best k of all shards in the order of a single machine's shortlist: of equal products, the oldest first."""
    passing = _best_names(((shard, part.passing) for shard, part in parts.items()), k, rows)
    unfiltered = _best_names(((shard, part.unfiltered) for shard, part in parts.items()), k, rows)
    return Candidates(
        rows=[rows.of(shard, item.name) for shard, item in passing],
        scores=np.array([item.product for _, item in passing], np.float32),
        gallery=sum(part.gallery for part in parts.values()),
        unfiltered=[rows.of(shard, item.name) for shard, item in unfiltered],
        unfiltered_scores=np.array([item.product for _, item in unfiltered], np.float32),
    )


def _best_names(
    parts: Iterable[tuple[int, Sequence[RankedName[ItemName]]]], k: int, rows: RowTable[ItemName]
) -> list[tuple[int, RankedName[ItemName]]]:
    """The k items with the largest products in all shards, each with its shard."""
    items = [(shard, item) for shard, part in parts for item in part]
    # A picture that is being moved is in two shards. It counts once, in the newer shard, where it stays; the other one
    # may release it before its record is read. Its products may differ by rounding.
    newest: dict[ItemName, int] = {}
    for shard, item in items:
        rows.note(shard, item.name)
        newest[item.name] = max(shard, newest.get(item.name, shard))
    items.sort(key=lambda placed: (-placed[1].product, placed[1].added_at))
    best: dict[ItemName, tuple[int, RankedName[ItemName]]] = {}
    for _, item in items:
        best.setdefault(item.name, (newest[item.name], item))
    return list(best.values())[:k]
