"""The parts of the web side, closed together."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.library import Library
from tests.support.web_app import Api


def test_every_part_is_closed_whatever_another_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(Library(tmp_path))
    services, closed = api.services, list[str]()

    def watch(name: str) -> None:
        part: Any = getattr(services, name)
        close = part.close

        def noted() -> None:
            close()
            closed.append(name)
            if name in ("pool", "accelerator"):
                raise RuntimeError(f"{name} could not be closed")

        monkeypatch.setattr(type(part), "close", lambda self: noted())

    order = ["accelerator", "refresher", "pool", "keys", "models", "regions", "catalog"]
    for name in order:
        watch(name)
    with pytest.raises(RuntimeError, match="could not be closed"):
        api.close()
    assert closed == order
