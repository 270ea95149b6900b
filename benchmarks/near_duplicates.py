"""The accuracy of perceptual hashes in telling copies of a photograph from other photographs.

python -m benchmarks.near_duplicates flickr8k/images --pictures 1500
"""

import argparse
import io
import json
import random
from itertools import combinations
from pathlib import Path

import PIL.Image
from rich.progress import track

from service.media.perceptual_hash import perceptual_hash
from service.search.near_duplicates import MOST_BITS


def half_size(picture: PIL.Image.Image) -> PIL.Image.Image:
    """A copy of half the width and height, as a JPEG of quality 70."""
    buffer = io.BytesIO()
    size = max(1, picture.width // 2), max(1, picture.height // 2)
    picture.resize(size, PIL.Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=70)
    return PIL.Image.open(buffer).convert("RGB")


def bits_between(one: bytes, other: bytes) -> int:
    """The number of bits in which two hashes differ."""
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=int, default=1500)
    args = parser.parse_args()
    files = sorted(args.folder.rglob("*.jpg"))
    hashes, copies = [], []
    for path in track(random.Random(1).sample(files, min(args.pictures, len(files))), description="Hashing"):
        with PIL.Image.open(path) as opened:
            picture = opened.convert("RGB")
        hashes.append(perceptual_hash(picture))
        copies.append(bits_between(hashes[-1], perceptual_hash(half_size(picture))) <= MOST_BITS)
    near = sum(bits_between(one, other) <= MOST_BITS for one, other in combinations(filter(None, hashes), 2))
    pairs = len(hashes) * (len(hashes) - 1) // 2
    share = 100 * sum(copies) / len(copies)
    print(json.dumps({"pictures": len(hashes), "near copies": share, "pairs": pairs, "near pairs": near}))


if __name__ == "__main__":
    main()
