"""Another detector finds the regions of all pictures anew, and no library is lost by it."""

import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from index.views.slab import Slab
from index.views.view import View
from index.views.view_manifest import NoView
from models.batches import Regions
from models.extractors.base import Detections
from service.errors import Misconfigured
from service.storage.regions.migration_progress import migration_progress
from service.storage.regions.records import RecordLayout
from service.worker import view_builder
from tests.support.fakes import FakeExtractor, FakeMatcher, WideExtractor, WideMatcher
from tests.support.feature_layouts import take_in, theirs
from tests.support.kill_points import Killed, KillPoints, decode_here
from tests.support.pictures import encoded
from tests.support.small_views import embedding_of
from tests.support.worker_store import NOW, Store, noise

WIDE = "wide-extractor"
Pictures = dict[str, PIL.Image.Image]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    decode_here(monkeypatch)
    made = Store(tmp_path / "data")
    yield made
    made.catalog.close()


def filled(store: Store, count: int = 7, start: int = 0) -> Pictures:
    """Pictures that a worker took in with the former detector."""
    captions = ["red", "blue and green"]
    pictures = {
        store.accept(encoded(noise(seed), "PNG"), captions=captions[: seed % 3]): noise(seed)
        for seed in range(start, start + count)
    }
    store.drain()
    return pictures


def migrate(store: Store, extractor: FakeExtractor | None = None, matcher: FakeMatcher | None = None) -> None:
    """Work with another detector until nothing is left to do."""
    store.drain(extractor or WideExtractor(), [matcher or WideMatcher()])


def regions_of(store: Store, extractor: FakeExtractor, folder: str) -> Slab:
    return RecordLayout.of(extractor).open(store.folder / folder, write=False)


def check(store: Store, pictures: Pictures, blank: Sequence[str] = ()) -> None:
    """Each picture has in its slot what WideExtractor finds in it, in the view too; nothing is left of the former."""
    catalog, extractor, matcher = store.catalog, WideExtractor(), WideMatcher()
    states = {entry.extractor: entry.state for entry in catalog.region_stores.entries()}
    assert states == {WIDE: "current", "fake-extractor": "removed"}
    assert not (store.folder / "regions" / "records.bin").exists()
    assert [path.name for path in (store.folder / "views").iterdir()] == [matcher.digest]
    assert catalog.region_stores.num_records(WIDE) == catalog.num_slots() == len(pictures)
    with (
        closing(regions_of(store, extractor, f"regions/{WIDE}")) as slab,
        closing(View(store.folder / "views" / matcher.digest)) as view,
    ):
        assert view.snapshot().counts == (catalog.num_slots(), catalog.num_caption_slots())
        for image_id, picture in pictures.items():
            slot = store.image(image_id).slot
            assert slot is not None
            slab.check(slot)
            record = {name: rows[0] for name, rows in slab.read([slot]).items()}
            if image_id in blank:
                assert not record["mask"].any()
                continue
            assert store.image(image_id).extractor == WIDE
            alone = extractor.extract([picture])
            np.testing.assert_array_equal(record["features"], alone.features[0].half().numpy())
            regions = Regions(torch.from_numpy(record["features"]).float()[None], alone.mask)
            rows, embedding = matcher.encode_regions(regions)
            kept = view.snapshot().read_images([slot])
            np.testing.assert_array_equal(kept["vectors"][0], rows.tensors()["vectors"][0].half().numpy())
            np.testing.assert_allclose(embedding_of(view.snapshot(), slot), embedding[0].numpy(), atol=1e-6)


def num_in_view(store: Store) -> int:
    try:
        with closing(View(store.folder / "views" / "wide-matcher")) as view:
            return view.snapshot().counts.images
    except NoView:
        return 0


def test_pictures_can_be_searched_batch_by_batch_and_keep_their_slots(store: Store) -> None:
    pictures = filled(store)
    slots = {image_id: store.image(image_id).slot for image_id in pictures}
    former = (store.folder / "regions" / "records.bin").read_bytes()
    seen = []
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        while worker.run_once():
            seen.append((store.catalog.region_stores.num_records(WIDE), num_in_view(store)))
            if len(seen) == 2:
                assert (store.folder / "regions" / "records.bin").read_bytes() == former
                assert (store.folder / "views" / "fake-matcher").is_dir()
    assert seen[:3] == [(3, 3), (6, 6), (7, 7)]
    check(store, pictures)
    assert {image_id: store.image(image_id).slot for image_id in pictures} == slots
    more = filled_with(store, WideExtractor(), WideMatcher(), 100)
    check(store, pictures | more)


def test_the_former_regions_stay_until_every_view_holds_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)
    monkeypatch.setattr(view_builder, "ROWS_AT_ONCE", 1)
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        while worker.run_once():
            if num_in_view(store) < 7:
                assert (store.folder / "regions" / "records.bin").exists()
                progress = migration_progress(store.catalog, WIDE)
                assert progress is not None
                assert progress.former == ("fake-extractor",)
    assert not (store.folder / "regions" / "records.bin").exists()


def filled_with(store: Store, extractor: FakeExtractor, matcher: FakeMatcher, seed: int) -> Pictures:
    """One more picture, taken in with this detector."""
    added = {store.accept(encoded(noise(seed), "PNG")): noise(seed)}
    store.drain(extractor, [matcher])
    return added


def test_new_pictures_are_ready_at_once_and_get_their_regions_in_their_turn(store: Store) -> None:
    pictures = filled(store)
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        worker.run_once()
        added = store.accept(encoded(noise(50), "PNG"), captions=["white"])
        worker.run_once()
        image = store.image(added)
        assert (image.state, image.slot, image.extractor, image.width) == ("ready", 7, None, 24)
        assert store.catalog.region_stores.num_records(WIDE) == 6
        while worker.run_once():
            pass
    check(store, pictures | {added: noise(50)})


def test_a_new_picture_that_cannot_be_read_is_set_aside_without_a_slot(store: Store) -> None:
    pictures = filled(store)
    bad = store.accept(b"no picture")
    migrate(store)
    assert store.image(bad).state == "failed"
    check(store, pictures)


def test_a_picture_that_cannot_be_read_any_more_leaves_a_blank_record_and_is_said(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = filled(store)
    lost, other = list(pictures)[2:4]
    path = store.originals.path(lost, "png")
    content = path.read_bytes()
    path.unlink()
    migrate(store)
    check(store, pictures, blank=[lost])
    (failure,) = store.catalog.failures.page()
    assert failure.image_id == lost
    assert failure.reason == "The file is damaged."
    assert f"picture {lost} has no regions any more" in caplog.text
    assert store.image(lost).state == "ready"
    migrate(store)
    assert len(store.catalog.failures.page()) == 1
    path.write_bytes(content)  # as sending the file again does
    monkeypatch.setattr(view_builder, "ROWS_AT_ONCE", 1)
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        while worker.run_once():
            assert num_in_view(store) == 7  # no other picture is out of sight meanwhile
    check(store, pictures)
    assert store.catalog.failures.page() == []
    assert store.image(other).slot == 3


def test_a_deleted_picture_has_regions_when_it_comes_back(store: Store) -> None:
    pictures = filled(store)
    gone = list(pictures)[1]
    store.catalog.delete(gone, NOW)
    migrate(store)
    store.accept(store.originals.path(gone, "png").read_bytes())
    assert store.image(gone).state == "ready"
    check(store, pictures)


class Picky(WideExtractor):
    """Fails on whatever batch holds a red picture."""

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        if any(picture.getpixel((0, 0)) == (255, 0, 0) for picture in pictures):
            raise RuntimeError("the detector does not like this")
        return super().extract(pictures)


def test_a_picture_that_the_new_detector_fails_on_costs_no_other_one(store: Store) -> None:
    red = store.accept(encoded(PIL.Image.new("RGB", (20, 20), "red"), "PNG"))
    pictures = {red: PIL.Image.new("RGB", (20, 20), "red")} | filled(store, 4)
    migrate(store, Picky())
    check(store, pictures, blank=[red])
    (failure,) = store.catalog.failures.page()
    assert failure.image_id == red
    assert "does not like this" in failure.reason


@pytest.mark.slow
def test_killed_before_any_step_it_goes_on_where_it_was(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = filled(store, 4)
    pictures |= {store.accept(encoded(noise(60), "PNG"), captions=["new"]): noise(60)}
    store.catalog.close()
    points = KillPoints(monkeypatch)

    def copied(name: str) -> Store:
        shutil.copytree(store.folder, tmp_path / name)
        return Store(tmp_path / name)

    whole = copied("whole")
    points.arm(None)
    migrate(whole)
    num_steps = points.steps
    check(whole, pictures)
    whole.catalog.close()
    assert num_steps > 50
    for deadly in range(1, num_steps + 1):
        killed = copied(f"killed-{deadly}")
        points.arm(deadly)
        with pytest.raises(Killed):
            migrate(killed)
        points.arm(None)
        check_half_done(killed)
        migrate(killed)
        check(killed, pictures)
        killed.catalog.close()
        shutil.rmtree(killed.folder)


def check_half_done(store: Store) -> None:
    """Counted records are whole, and the former regions and views are there as long as they are not given up."""
    catalog = store.catalog
    states = {entry.extractor: entry.state for entry in catalog.region_stores.entries()}
    if states.get("fake-extractor", "former") == "former":
        with (
            closing(regions_of(store, FakeExtractor(), "regions")) as slab,
            closing(View(store.folder / "views" / "fake-matcher")) as view,
        ):
            for slot in range(4):
                slab.check(slot)
            assert view.snapshot().counts.images == 4
    if WIDE in states and (count := catalog.region_stores.num_records(WIDE)):
        with closing(regions_of(store, WideExtractor(), f"regions/{WIDE}")) as slab:
            for slot in range(count):
                slab.check(slot)
    assert num_in_view(store) <= (catalog.region_stores.num_records(WIDE) if WIDE in states else 0)


def test_going_back_to_the_former_detector_keeps_what_it_found(store: Store) -> None:
    pictures = filled(store)
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        worker.run_once()
        pictures |= {store.accept(encoded(noise(70), "PNG")): noise(70)}
        worker.run_once()
    with store.worker() as (worker, _):  # eight pictures, of which it knows seven
        assert store.catalog.region_stores.num_records("fake-extractor") == 7
        while worker.run_once():
            pass
    store.check(pictures)
    assert not (store.folder / "regions" / WIDE).exists()
    assert not (store.folder / "views" / "wide-matcher").exists()
    migrate(store)
    check(store, pictures)


def test_a_third_detector_follows_the_second(store: Store) -> None:
    pictures = filled(store)
    migrate(store)
    third = WideExtractor("third-extractor")
    migrate(store, third, WideMatcher("third", "third-matcher", "third-extractor"))
    assert [path.name for path in sorted((store.folder / "regions").iterdir())] == ["third-extractor"]
    assert [path.name for path in (store.folder / "views").iterdir()] == ["third-matcher"]
    with closing(regions_of(store, third, "regions/third-extractor")) as slab:
        for slot, picture in enumerate(pictures.values()):
            alone = third.extract([picture]).features[0].half().numpy()
            np.testing.assert_array_equal(slab.read([slot])["features"][0], alone)


def test_records_that_a_disk_lost_half_way_are_made_again(store: Store) -> None:
    pictures = filled(store)
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        worker.run_once()
        worker.run_once()
    records = store.folder / "regions" / WIDE / "records.bin"
    records.write_bytes(records.read_bytes()[: records.stat().st_size // 3])
    migrate(store)
    check(store, pictures)


def test_an_empty_data_directory_is_laid_out_anew(store: Store) -> None:
    store.drain()  # with another layout, and without a picture
    picture = store.accept(encoded(noise(1), "PNG"))
    migrate(store)
    assert store.catalog.region_stores.entries() == []
    with closing(regions_of(store, WideExtractor(), "regions")) as slab:
        np.testing.assert_array_equal(
            slab.read([0])["features"][0], WideExtractor().extract([noise(1)]).features[0].half().numpy()
        )
    assert store.image(picture).slot == 0


def test_features_without_pictures_stay_with_the_extractor_that_made_them(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alone = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    ours = replace(
        theirs(tmp_path), extractor="fake-extractor", num_regions=4, feature_dim=16, labels=FakeExtractor.labels
    )
    take_in(ours, store.folder)
    store.drain()
    migrate(store)
    states = {entry.extractor: entry.state for entry in store.catalog.region_stores.entries()}
    assert states == {WIDE: "current", "fake-extractor": "kept"}
    assert store.catalog.region_stores.blank_slots(WIDE) == [1, 2, 3, 4, 5]
    assert store.catalog.failures.page() == []
    assert "known by features of fake-extractor alone: name models for these in REGARD_MODELS" in caplog.text
    with closing(regions_of(store, FakeExtractor(), "regions")) as slab:
        assert slab.valid_prefix(6) == 6
    assert (store.folder / "views" / "fake-matcher").is_dir()
    assert store.image(alone).extractor == WIDE
    for image in store.catalog.list_images(None, 10)[1:]:
        assert image.extractor == "fake-extractor"
        store.catalog.delete(image.image_id, NOW)
    store.catalog.erasures.erase_deleted(NOW + 1, NOW + 1, 10)
    third = WideExtractor("third-extractor")  # nothing depends on what is kept any more
    migrate(store, third, WideMatcher("third", "third-matcher", "third-extractor"))
    assert not (store.folder / "regions" / "records.bin").exists()


def test_features_alone_are_never_found_anew(store: Store, tmp_path: Path) -> None:
    take_in(theirs(tmp_path), store.folder)
    with (
        pytest.raises(Misconfigured, match=r"holds features of their-features without pictures.*Unset REGARD_DETECTOR"),
        store.worker(WideExtractor(), [WideMatcher()]),
    ):
        pass


def test_features_are_not_taken_in_while_regions_are_found_anew(store: Store, tmp_path: Path) -> None:
    filled(store)
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        worker.run_once()
    wide = replace(theirs(tmp_path), extractor=WIDE, num_regions=5, feature_dim=18)
    with pytest.raises(Misconfigured, match=r"finding the regions in .* anew: start `regard serve`"):
        take_in(wide, store.folder)


def test_the_store_notes_what_its_labels_are_called(store: Store) -> None:
    filled(store, 1)
    said = json.loads((store.folder / "regions" / "config.json").read_text())
    assert (said["digest"], said["labels"]) == ("fake-extractor", list(FakeExtractor.labels))


def test_progress_says_how_long_it_will_take(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    filled(store)
    assert migration_progress(store.catalog, "fake-extractor") is None
    before = migration_progress(store.catalog, WIDE)  # as a web process sees it that started before the worker
    assert before is not None
    assert (before.done, before.total, before.seconds_left, before.former) == (0, 7, None, ("fake-extractor",))
    assert str(before) == "finding regions anew: 0 of 7 pictures"
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        worker.run_once()
        during = migration_progress(store.catalog, WIDE)
        assert during is not None
        assert (during.done, during.total) == (3, 7)
        assert during.seconds_left is not None
        assert str(during).endswith(" left")
        while worker.run_once():
            pass
    assert migration_progress(store.catalog, WIDE) is None
    assert "another detector, wide-extractor, replaces fake-extractor: finding regions anew: 0 of 7" in caplog.text
    assert "searches use the regions of wide-extractor alone" in caplog.text
