"""While regions are found anew, a picture that cannot be decoded for the moment is tried again."""

from pathlib import Path

import pytest

from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.worker import process
from tests.support.fakes import WideExtractor, WideMatcher
from tests.support.kill_points import DecodeHere, decode_here
from tests.support.pictures import encoded
from tests.support.worker_store import Store, noise


def test_a_picture_that_fails_twice_for_the_moment_has_its_regions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, attempts = Store(tmp_path), list[str]()

    class Unsteady(DecodeHere):
        """Its process dies at the first two attempts."""

        def decode(
            self,
            path: Path,
            thumbnail: Path | None = None,
            stripped: Path | None = None,
            with_coordinates: bool = False,
        ) -> DecodedPicture:
            attempts.append(path.stem)
            if len(attempts) < 3:
                raise DecodeFailed("Decoding the picture failed: its process ended with signal 9.", final=False)
            return super().decode(path, thumbnail, stripped, with_coordinates)

    image_id = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    monkeypatch.setattr(process, "DecodePool", Unsteady)
    store.drain(WideExtractor(), [WideMatcher()])
    assert attempts == [image_id] * 3
    assert store.catalog.region_stores.blank_slots("wide-extractor") == []
    assert store.catalog.failures.page() == []
    store.catalog.close()


def test_a_picture_that_is_sent_again_is_read_again_by_the_worker_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode_here(monkeypatch)
    store = Store(tmp_path)
    content = encoded(noise(1), "PNG")
    lost, _ = store.accept(content), store.accept(encoded(noise(2), "PNG"))
    store.drain()
    path = store.originals.path(lost, "png")
    path.unlink()
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        while worker.run_once():
            pass
        assert [one.image_id for one in store.catalog.failures.page()] == [lost]
        store.accept(content)
        while worker.run_once():
            pass
    assert store.catalog.failures.page() == []
    assert store.catalog.region_stores.blank_slots("wide-extractor") == []
    store.catalog.close()


@pytest.mark.parametrize("content", [b"", b"whole"])
def test_a_thumbnail_that_is_empty_is_made_anew_with_the_regions(
    store: Store, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    asked = list[Path | None]()

    class Noting(DecodeHere):
        def decode(
            self,
            path: Path,
            thumbnail: Path | None = None,
            stripped: Path | None = None,
            with_coordinates: bool = False,
        ) -> DecodedPicture:
            asked.append(thumbnail)
            return super().decode(path, thumbnail, stripped, with_coordinates)

    image_id = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    thumbnail = store.originals.thumbnail(image_id)
    thumbnail.write_bytes(content)
    monkeypatch.setattr(process, "DecodePool", Noting)
    store.drain(WideExtractor(), [WideMatcher()])
    assert asked == [None if content else thumbnail]
