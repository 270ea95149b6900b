"""The parts of the web side, closed together."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.library import Library
from tests.support.web_app import Api


def test_every_part_is_closed_whatever_another_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Library(tmp_path))
    services, closed = api.services, list[str]()

    def watch(name: str, part: Any) -> None:
        close = part.close

        def noted() -> None:
            close()
            closed.append(name)
            if name in ("pool", "accelerator"):
                raise RuntimeError(f"{name} could not be closed")

        monkeypatch.setattr(type(part), "close", lambda self: noted())

    parts = {
        "accelerator": services.capacity.accelerator,
        "refresher": services.refresher,
        "pool": services.pool,
        "keys": services.keys,
        "models": services.models,
        "regions": services.storage.regions,
        "catalog": services.storage.catalog,
    }
    for name, part in parts.items():
        watch(name, part)
    with pytest.raises(RuntimeError, match="could not be closed"):
        api.close()
    assert closed == list(parts)


def test_what_was_opened_is_closed_where_the_rest_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, closed = Library(tmp_path), list[str]()
    parts = ["service.auth.key_ring.KeyRing", "index.catalog.catalog.Catalog"]
    for part in parts:
        monkeypatch.setattr(f"{part}.close", lambda _, part=part: closed.append(part))
    monkeypatch.setattr("service.api.tracing.Tracing.from_settings", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Api(library)
    assert closed == parts
