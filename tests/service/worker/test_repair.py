"""Region records lost from the disk are made again."""

import shutil
from typing import Any

import numpy as np
import pytest

from models.matching.lazy_matcher import LazyMatcher, MatcherHeader
from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.worker import process
from tests.support.fakes import FakeMatcher
from tests.support.kill_points import DecodeHere
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


@pytest.mark.parametrize("is_record_damaged", [False, True])
def test_a_restored_original_is_found_again_in_every_view(store: Store, is_record_damaged: bool) -> None:
    asked_for = FakeMatcher("other", "other-matcher")

    def drain() -> None:
        store.drain(on_request=[LazyMatcher(MatcherHeader.of(asked_for), lambda: asked_for)])

    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(3)}
    store.catalog.processes.request_view(asked_for.digest, 0.0)
    drain()
    original = store.originals.path(list(pictures)[-1], "png")
    content = original.read_bytes()
    original.unlink()
    for name in ("regions", "views"):
        shutil.rmtree(store.folder / name)
    drain()
    assert len(store.catalog.failures.page()) == 1
    original.write_bytes(content)
    if is_record_damaged:
        records = store.folder / "regions" / "records.bin"
        before = records.read_bytes()
        records.write_bytes(before[: len(before) // 3 * 2] + bytes(len(before) // 3))
    drain()
    assert store.catalog.failures.page() == []
    store.check(pictures)
    store.check(pictures, asked_for)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_lost_picture_that_is_sent_again_is_found_without_a_restart(store: Store, is_deleted: bool) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG")): noise(seed) for seed in range(3)}
    store.drain()
    lost = list(pictures)[1]
    store.originals.path(lost, "png").unlink()
    shutil.rmtree(store.folder / "regions")
    with store.worker() as (worker, _):
        while worker.run_once():
            pass
        assert [one.image_id for one in store.catalog.failures.page()] == [lost]
        if is_deleted:
            store.catalog.delete(lost, NOW)
        store.accept(encoded(pictures[lost], "PNG"))
        while worker.run_once():
            pass
    assert store.catalog.failures.page() == []
    store.check(pictures)


@pytest.mark.parametrize(("faults", "is_lost"), [(2, False), (6, True)])
def test_a_fault_that_passes_takes_no_picture_from_the_search(
    store: Store, monkeypatch: pytest.MonkeyPatch, faults: int, is_lost: bool
) -> None:
    image_id = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    left = [DecodeFailed("Decoding the picture failed: its process ended with signal 9.", final=False)] * faults

    class Unsteady(DecodeHere):
        """Its process dies a few times."""

        def decode(self, *given: Any, **named: Any) -> DecodedPicture:
            if left:
                raise left.pop()
            return super().decode(*given, **named)

    monkeypatch.setattr(process, "DecodePool", Unsteady)
    shutil.rmtree(store.folder / "regions")
    store.drain()
    assert left == []
    failures = store.catalog.failures.page()
    assert [one.image_id for one in failures] == [image_id] * is_lost
    assert all("Decoding the picture failed" in one.reason for one in failures)
