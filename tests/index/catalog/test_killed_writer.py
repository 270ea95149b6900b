"""A writer killed at any moment, again and again: what it said is there, and nothing is there by half."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from index.catalog.catalog import Catalog
from index.lock import WriterLock
from index.views.slab import Slab
from index.views.view import View
from index.views.view_writer import ViewWriter
from tests.support import small_views as views
from tests.support.store_writer_process import REGIONS, catch_up, regions_of

KILLS = 12


def killed_writer(data_dir: Path, words: int, seconds: float) -> dict[str, int]:
    """Let a writer work for so long after so many words, kill it; the last number of each thing it said."""
    command = [sys.executable, "-m", "tests.support.store_writer_process", str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = [writer.stdout.readline() for _ in range(words)]
        time.sleep(seconds)
        assert writer.poll() is None, "it should write until it is killed"
        writer.kill()
        # The last line may be torn; then what it says was not heard by anybody.
        lines = [*first, *writer.stdout.read().splitlines(keepends=True)]
    return {line.split()[0]: int(line.split()[1]) for line in lines if line.endswith("\n")}


def check(data_dir: Path, reader: Catalog, view: View | None, said: dict[str, int]) -> None:
    """Everything said is there, once and whole; a reader that was open all the time sees it too."""
    accepted, committed = sum(reader.counts().values()), reader.num_slots()
    assert accepted >= said["accepted"]
    assert committed >= said.get("committed", 0)
    images = reader.images_at(range(committed))
    numbers = [int(image.image_id) for image in images if image]
    assert numbers == list(range(committed)), "in the order of their coming, none twice"
    for image in images:
        assert image is not None
        assert image.captions == tuple(f"{image.image_id} caption {n}" for n in range(int(image.image_id) % 3))
    heard = [caption.image_id for caption in reader.captions_at(range(reader.num_caption_slots()))]
    assert heard == [str(number) for number in numbers for _ in range(number % 3)]

    regions = Slab.open(data_dir / "regions", REGIONS, write=False)
    for row in range(committed):
        regions.check(row)
    np.testing.assert_array_equal(regions.read(range(committed))["label"], numbers)
    np.testing.assert_array_equal(regions.read(range(committed))["features"], regions_of(numbers)["features"])
    if view is not None:
        view.refresh()
        snapshot = view.snapshot()
        assert snapshot.counts.images <= committed
        assert snapshot.counts.captions <= len(heard)
        views.check(snapshot, *snapshot.counts)


@pytest.mark.slow
def test_a_writer_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    reader, view = Catalog(tmp_path / "catalog.sqlite"), None
    said: dict[str, int] = {}
    for _ in range(KILLS):
        # Each second word is of a commit: however slow the disk is, there are some.
        said |= killed_writer(tmp_path, words=rng.randrange(1, 6), seconds=rng.random() * 0.15)
        view = view or View(tmp_path / "view")
        check(tmp_path, reader, view, said)
    with WriterLock(tmp_path):
        writer = ViewWriter(tmp_path / "view", **views.ABOUT)
        catch_up(reader, writer)
    assert view is not None
    view.refresh()
    views.check(view.snapshot(), reader.num_slots(), reader.num_caption_slots())
    assert reader.num_slots() > KILLS
    reader.close()
