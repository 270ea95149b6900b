"""Pictures that were decoded ahead, and erased before their turn, are kept in no memory."""

import gc
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from service.media.decode_pool import DecodePool
from tests.service.worker.test_migration import filled
from tests.support.fakes import WideExtractor, WideMatcher
from tests.support.worker_store import NOW, Store


def test_a_picture_that_is_erased_while_regions_are_found_anew_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    ids, begun, submit = list(filled(store, 7)), dict[str, weakref.ref[Future[Any]]](), DecodePool.submit

    def noted(self: DecodePool, original: Path, *files: Any, **options: Any) -> Future[Any]:
        future = submit(self, original, *files, **options)
        begun[original.stem] = weakref.ref(future)
        return future

    monkeypatch.setattr(DecodePool, "submit", noted)
    with store.worker(WideExtractor(), [WideMatcher()]) as (worker, _):
        worker.run_once()
        store.catalog.delete(ids[4], NOW - 1e13)
        store.catalog.erasures.erase_deleted(NOW, NOW, 10)
        while worker.run_once():
            pass
        gc.collect()
        assert ids[4] in begun
        assert [image_id for image_id, future in begun.items() if future() is not None] == []
    store.catalog.close()
