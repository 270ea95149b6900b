"""Near duplicates among the results of a search: shots of one moment, copies in other sizes, are shown as one."""

from collections.abc import Sequence
from dataclasses import replace

from service.search.results import NearDuplicate, RankedPicture

MOST_BITS = 4  # of 64 in which hashes of near duplicates differ


def grouped(hits: Sequence[RankedPicture], k: int) -> list[RankedPicture]:
    """The first k hits that are no near duplicates of a better one of them; each names those that are its own.

    A picture joins the best result that it is near to. One without a hash stays alone.
    """
    shown: list[RankedPicture] = []
    hashes: list[int | None] = []
    duplicates: list[list[NearDuplicate]] = []
    for hit in hits:
        own = int.from_bytes(hit.perceptual_hash) if hit.perceptual_hash else None
        for place, other in enumerate(hashes):
            if own is not None and other is not None and (bits := (own ^ other).bit_count()) <= MOST_BITS:
                duplicates[place].append(NearDuplicate(image=hit, bits=bits))
                break
        else:
            if len(shown) < k:
                shown.append(hit)
                hashes.append(own)
                duplicates.append([])
    return [replace(hit, near_duplicates=own) for hit, own in zip(shown, duplicates, strict=True)]
