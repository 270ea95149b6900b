"""A data directory whose files really may not be written is searched and shown, and stays as it is."""

import os
from pathlib import Path

import pytest

from tests.support.pictures import encoded
from tests.support.read_only_service import answers_without_writing
from tests.support.worker_store import Store, noise


def content(folder: Path) -> dict[str, bytes]:
    """Every file, by its path."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
def test_it_is_searched_and_shown_and_nothing_in_it_changes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    store = Store(data)
    image_id = store.accept(encoded(noise(1), "PNG"), captions=["red"])
    store.drain()
    store.catalog.close()
    before = content(data)
    answered = answers_without_writing(data)
    assert "cannot be written" in answered.pop("worker")
    assert answered == {
        "found": [image_id],
        "shown": 200,
        "thumbnail": 200,
        "upload": "urn:regard:problem:read-only",
        "edit": "urn:regard:problem:read-only",
        "deletion": "urn:regard:problem:read-only",
    }
    assert content(data) == before
    assert os.access(data, os.W_OK)
