"""Region records lost from the disk are made again."""

import shutil

import numpy as np
import pytest

from tests.support.pictures import encoded
from tests.support.worker_store import NOW, Store, noise


@pytest.mark.parametrize("lost", [1, 3, 7])
def test_regions_lost_from_the_disk_are_found_again(store: Store, lost: int) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(7)}
    store.drain()
    before = store.slab().read(range(7))
    records = store.folder / "regions" / "records.bin"
    content = records.read_bytes()
    size = len(content) // 7
    records.write_bytes(content[: -lost * size] + bytes(lost * size))
    store.drain()
    store.check(pictures)
    after = store.slab().read(range(7))
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_all_regions_lost_are_found_again_but_those_of_erased_pictures(store: Store) -> None:
    ids = [store.accept(encoded(noise(seed), "PNG")) for seed in range(4)]
    store.drain()
    before = store.slab().read(range(4))
    store.catalog.delete(ids[1], NOW)
    store.catalog.erasures.erase_deleted(NOW + 1, NOW + 1, 10)
    store.catalog.delete(ids[2], NOW + 1)  # which may be undone
    shutil.rmtree(store.folder / "regions")
    store.drain()
    after = store.slab().read(range(4))
    np.testing.assert_array_equal(after["mask"][1], False)
    for slot in (0, 2, 3):
        np.testing.assert_array_equal(after["features"][slot], before["features"][slot])
