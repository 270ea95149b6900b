"""A realistic folder: photographs of many formats in albums, and other files among them.

python -m tests.support.mixed_folder OUT --photographs DIR --count 200 writes one and prints what becomes of its files.
"""

import argparse
import importlib.util
import io
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import PIL.Image

from service.chaos.pictures import draw
from service.cli.picture_files import RAW_PHOTOGRAPHS
from tests.support.pictures import encoded, heic_corners
from tests.support.raw_pictures import dng

ALBUMS = ("2023/beach", "2023/birthday", "2024", "phone/DCIM 100")
RAW_SIZE = (1200, 900)  # of the picture that a RAW photograph holds: smaller ones are turned away
NUM_HEIC, NUM_RAW, NUM_DRAWN, NUM_AVIF, NUM_COPIES = 8, 3, 12, 3, 3
NO_PICTURES = {
    "films": [f"MVI_{number}.MP4" for number in range(5)] + ["clip.mov"],
    ".pdf files": ["invoice.pdf", "2024/ticket.pdf"],
    "archives": ["old.zip"],
    "sounds": ["voice.m4a"],
    "hidden files": [".DS_Store", "2024/.picasa.jpg"],
    "files without an extension": ["README"],
}
BROKEN = {"letter.jpg": b"Dear Anna,\nhere are the photographs.\n", "empty.jpg": b""}


@dataclass
class MixedFolder:
    """The expected numbers of files that are accepted, stored already, rejected, and skipped by kind."""

    taken_in: int = 0
    there_already: int = 0
    turned_away: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def num_files(self) -> int:
        """All of them."""
        return self.taken_in + self.there_already + self.turned_away + self.skipped.total()

    def table_rows(self) -> list[str]:
        """The rows of the table with which an ingestion ends, without the space between their cells."""
        rows = {"taken in": self.taken_in, "there already": self.there_already, "turned away": self.turned_away}
        rows |= {f"skipped: {kind}": count for kind, count in self.skipped.items()}
        return [f"{name} {count}" for name, count in rows.items() if count]


def least_count() -> int:
    """The files that every such folder has."""
    other = sum(map(len, NO_PICTURES.values())) + len(BROKEN)
    return NUM_HEIC + NUM_RAW + NUM_DRAWN + NUM_AVIF + NUM_COPIES + other


def write_mixed_folder(out: Path, count: int, photographs: list[Path], seed: int = 1) -> MixedFolder:
    """Write `count` files, of which photographs of the list, in the order of the seed, are those beyond `least_count`.

    ValueError where there are too few of them.
    """
    rng = random.Random(seed)
    missing = count - least_count()
    if not 0 <= missing <= len(photographs):
        raise ValueError(f"{count} files are {least_count()} and {missing} photographs, of which there are none or few")
    folder = MixedFolder()
    pictures = [*_made_pictures(seed)]
    pictures += [(path.name, path.read_bytes()) for path in rng.sample(photographs, missing)]
    for number, (name, content) in enumerate(pictures):
        _write(out / ALBUMS[number % len(ALBUMS)] / name, content)
    for name, content in pictures[:NUM_COPIES]:
        _write(out / "copies" / f"copy of {name}", content)
    folder.taken_in, folder.there_already = len(pictures), NUM_COPIES
    _write_raw(out / "camera", folder)
    for kind, names in NO_PICTURES.items():
        for name in names:
            _write(out / name, b"\0\0\0\x18ftypmp42" + bytes(64))
        folder.skipped[kind] = len(names)
    for name, content in BROKEN.items():
        _write(out / name, content)
    folder.turned_away = len(BROKEN)
    return folder


def _made_pictures(seed: int) -> Iterator[tuple[str, bytes]]:
    for number in range(NUM_DRAWN):
        drawn = draw(seed, number)
        yield drawn.name, drawn.content
    for number in range(NUM_AVIF):
        with PIL.Image.open(io.BytesIO(draw(seed, 100 + number).content)) as opened:
            yield f"IMG_{number}.avif", encoded(opened.convert("RGB"), "AVIF")
    for orientation in range(1, NUM_HEIC + 1):
        yield f"IMG_04{orientation}.HEIC", heic_corners(orientation)


def _write_raw(out: Path, folder: MixedFolder) -> None:
    """Write RAW photographs, which are accepted if the extra that reads them is installed."""
    for number in range(NUM_RAW):
        with PIL.Image.open(io.BytesIO(draw(7, number).content)) as opened:
            preview = opened.convert("RGB").resize(RAW_SIZE)
        _write(out / f"DSC_{number}.dng", dng(encoded(preview, "JPEG"), *RAW_SIZE))
    if importlib.util.find_spec("rawpy"):
        folder.taken_in += NUM_RAW
    else:
        folder.skipped[RAW_PHOTOGRAPHS] = NUM_RAW


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main() -> None:
    """Write the folder and print what becomes of its files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--photographs", type=Path, required=True, help="a folder of JPEG files")
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    folder = write_mixed_folder(given.out, given.count, sorted(given.photographs.rglob("*.jpg")))
    print(json.dumps(vars(folder)))


if __name__ == "__main__":
    main()
