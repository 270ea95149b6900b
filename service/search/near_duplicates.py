"""Near duplicates among the results of a search, such as shots of one moment or resized copies, shown as one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from service.search.results import NearDuplicate, RankedPicture

MOST_BITS = 4  # of 64, in which the hashes of near duplicates may differ


def grouped(hits: Sequence[RankedPicture], k: int) -> list[RankedPicture]:
    """The first k hits that are not near duplicates of a better one, each with its near duplicates.

    A near duplicate joins the best result that it resembles. A picture without a hash stays alone.
    """
    shown: list[RankedPicture] = []
    duplicates: list[list[NearDuplicate]] = []
    hashes, places = np.zeros(k, np.uint64), list[int]()  # hashes of pictures shown, and their indexes in `shown`
    for hit in hits:
        bits, hit_hash = np.zeros(0, np.uint8), None
        if hit.perceptual_hash:
            hit_hash = np.uint64(int.from_bytes(hit.perceptual_hash))
            bits = np.bitwise_count(hashes[: len(places)] ^ hit_hash)
        if (near := np.flatnonzero(bits <= MOST_BITS)).size:
            duplicates[places[near[0]]].append(NearDuplicate(image=hit, bits=int(bits[near[0]])))
        elif len(shown) < k:
            if hit_hash is not None:
                hashes[len(places)] = hit_hash
                places.append(len(shown))
            shown.append(hit)
            duplicates.append([])
    return [replace(hit, near_duplicates=group) for hit, group in zip(shown, duplicates, strict=True)]
