"""The shard that a picture belongs to: rendezvous hashing (Thaler and Ravishankar 1998) of its id over the shards.

Every shard gets a hash of its own number and the picture's id, and the largest wins. An added shard takes its share of
the pictures from all others, and no picture moves between those.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b


def shard_of(image_id: str, num_shards: int) -> int:
    """The shard of a picture, one of the numbers below `num_shards`."""
    return max(range(num_shards), key=lambda shard: _draw(image_id, shard))


def _draw(image_id: str, shard: int) -> bytes:
    return blake2b(f"{shard}:{image_id}".encode(), digest_size=8).digest()


@dataclass(frozen=True)
class Placement:
    """The number of shards with pictures; while pictures move to an added one, `moving_from` is the number before."""

    num_shards: int
    moving_from: int | None = None

    def places(self, image_id: str) -> Sequence[int]:
        """The shards that may have a picture, the one that it belongs to first."""
        counts = [self.num_shards] if self.moving_from is None else [self.num_shards, self.moving_from]
        return list(dict.fromkeys(shard_of(image_id, count) for count in counts))

    def moving(self, image_ids: Iterable[str]) -> Mapping[int, Sequence[str]]:
        """Shard -> those of the pictures that are moved from it, or already were."""
        moving = defaultdict[int, list[str]](list)
        for image_id in image_ids:
            for shard in self.places(image_id)[1:]:
                moving[shard].append(image_id)
        return moving

    def home(self, image_id: str, held: Collection[str]) -> int:
        """The home shard of a picture; one among `held` is still in its old shard."""
        return self.places(image_id)[-1 if image_id in held else 0]
