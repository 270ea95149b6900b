"""Which shard a picture belongs to: rendezvous hashing (Thaler and Ravishankar 1998) of its id over the shards.

Every shard draws a number for the picture from a hash of both names, and the largest wins. One shard more takes its
share of the pictures from all others, and no picture moves between these.
"""

from collections import defaultdict
from collections.abc import Iterable
from hashlib import blake2b


def shard_of(image_id: str, num_shards: int) -> int:
    """The shard, from 0, of a picture among so many."""
    return max(range(num_shards), key=lambda shard: _draw(image_id, shard))


def by_shard(image_ids: Iterable[str], num_shards: int) -> dict[int, list[str]]:
    """Shard -> its pictures among these, in their order; shards without any are left out."""
    placed: dict[int, list[str]] = defaultdict(list)
    for image_id in image_ids:
        placed[shard_of(image_id, num_shards)].append(image_id)
    return dict(placed)


def _draw(image_id: str, shard: int) -> bytes:
    return blake2b(f"{shard}:{image_id}".encode(), digest_size=8).digest()
