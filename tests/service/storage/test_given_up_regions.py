"""Regions of a detector that is not used any more are removed, whatever lies beside them."""

import logging
from pathlib import Path

import pytest

from index.records import RegionStoreEntry
from service.storage.data_dir import DataDir
from service.storage.regions.folders import remove_given_up

GIVEN_UP = RegionStoreEntry(extractor="abc", folder="regions/abc", state="removed", records=0)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / GIVEN_UP.folder
    folder.mkdir(parents=True)
    for name in ("header.json", "records.bin", "config.json", "config.json.0a1b2c3d.tmp"):  # the last of a kill
        (folder / name).write_bytes(b"{}")
    return folder


def test_nothing_of_them_is_left(store: Path, tmp_path: Path) -> None:
    remove_given_up(DataDir(tmp_path), [GIVEN_UP])
    assert not store.exists()
    remove_given_up(DataDir(tmp_path), [GIVEN_UP])


def test_what_somebody_put_there_stays_and_is_in_nobodys_way(
    store: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (store / "notes.txt").write_text("somebody's")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            remove_given_up(DataDir(tmp_path), [GIVEN_UP])
    assert [path.name for path in store.iterdir()] == ["notes.txt"]
    assert "is not needed any more and stays" in caplog.text
