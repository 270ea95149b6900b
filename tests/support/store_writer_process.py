"""A process that takes pictures in for ever, as the worker does, to be killed.

python -m tests.support.store_writer_process DATA
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from index.catalog.catalog import Catalog
from index.lock import WriterLock
from index.records import DetectedPicture, NewPicture
from index.views.slab import Slab
from index.views.view_writer import ViewWriter
from tests.support import small_views as views

REGIONS = {"label": ((), "<i8"), "features": ((40, 50), "<f2")}


def main(data_dir: Path) -> None:
    """Catch up with what is committed, then go on; a line of output for everything that must survive."""
    with WriterLock(data_dir):
        catalog = Catalog(data_dir / "catalog.sqlite")
        regions = Slab.open(data_dir / "regions", REGIONS, write=True)
        view = ViewWriter(data_dir / "view", **views.ABOUT)
        while True:
            catch_up(catalog, view)
            accepted = accept(catalog)
            print(f"accepted {accepted}", flush=True)
            work(catalog, regions)


def regions_of(numbers: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
    """The region records of these pictures."""
    features = np.array(numbers, np.float16).reshape(-1, 1, 1) * np.ones((40, 50), np.float16)
    return {"label": np.array(numbers, np.int64), "features": features}


def accept(catalog: Catalog) -> int:
    """Accept further pictures. Returns how many there are now."""
    start = sum(catalog.counts().values())
    stop = start + random.randint(1, 6)
    catalog.take_in([new_picture(number) for number in range(start, stop)], now=float(start))
    return stop


def new_picture(number: int) -> NewPicture:
    """With number % 3 captions."""
    captions = [f"{number} caption {place}" for place in range(number % 3)]
    return NewPicture(
        image_id=f"{number}", filename=f"{number}.jpg", extension="jpg", num_bytes=number, captions=captions
    )


def work(catalog: Catalog, regions: Slab) -> None:
    """Region records, then the commit; what was killed between the two is overwritten."""
    batch = catalog.queue.waiting(random.randint(1, 8))
    at = catalog.num_slots()
    regions.append(at, regions_of([int(picture.image_id) for picture in batch]))
    ready = [
        DetectedPicture(image_id=picture.image_id, slot=at + place, width=9, height=9, extractor="detector-1")
        for place, picture in enumerate(batch)
    ]
    catalog.commit(ready)
    print(f"committed {at + len(ready)}", flush=True)


def catch_up(catalog: Catalog, view: ViewWriter) -> None:
    """Rows of the view for every committed slot."""
    at, num_images, num_captions = view.counts(), catalog.num_slots(), catalog.num_caption_slots()
    view.add_images(at.images, *views.images(at.images, num_images))
    view.add_captions(at.captions, *views.captions(at.captions, num_captions))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
