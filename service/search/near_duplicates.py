"""Near duplicates among the results of a search: shots of one moment, copies in other sizes, are shown as one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from service.search.results import NearDuplicate, RankedPicture

MOST_BITS = 4  # of 64 in which hashes of near duplicates differ


def grouped(hits: Sequence[RankedPicture], k: int) -> list[RankedPicture]:
    """The first k hits that are no near duplicates of a better one of them; each names those that are its own.

    A picture joins the best result that it is near to. One without a hash stays alone.
    """
    shown: list[RankedPicture] = []
    duplicates: list[list[NearDuplicate]] = []
    hashes, places = np.zeros(k, np.uint64), list[int]()  # of those with a hash, and which they are of those shown
    for hit in hits:
        own = int.from_bytes(hit.perceptual_hash) if hit.perceptual_hash else None
        bits = np.bitwise_count(hashes[: len(places)] ^ np.uint64(own)) if own is not None else np.zeros(0, np.uint8)
        if (near := np.flatnonzero(bits <= MOST_BITS)).size:
            duplicates[places[near[0]]].append(NearDuplicate(image=hit, bits=int(bits[near[0]])))
        elif len(shown) < k:
            if own is not None:
                hashes[len(places)] = own
                places.append(len(shown))
            shown.append(hit)
            duplicates.append([])
    return [replace(hit, near_duplicates=own) for hit, own in zip(shown, duplicates, strict=True)]
