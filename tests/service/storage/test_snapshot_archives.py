"""Snapshots as archives: one writer at a time, whole or not there, also where a disk has no locks."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.errors import UserError
from service.storage.snapshots.files import TarSink
from service.storage.snapshots.restoration import restore_snapshot
from service.storage.snapshots.snapshot import take_snapshot
from tests.support.pictures import encoded
from tests.support.worker_store import COLOURS, Store, noise


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "data")
    for seed in range(3):
        made.accept(encoded(noise(seed), "PNG"), captions=[COLOURS[seed]])
    made.drain()
    yield made
    made.catalog.close()


def test_two_snapshots_to_one_archive_leave_the_first(store: Store, tmp_path: Path) -> None:
    archive = tmp_path / "copy.tar"
    (tmp_path / "copy.tar.partial").write_bytes(b"what a killed writer left" * 10**6)
    refused = list[str]()

    def again() -> None:
        if not refused:
            with pytest.raises(UserError) as told:
                take_snapshot(store.folder, archive)
            refused.append(str(told.value))

    content = take_snapshot(store.folder, archive, each=again)
    assert refused == [f"another snapshot is being written to {archive}: name another place"]
    assert sum(restore_snapshot(archive, tmp_path / "restored").values()) == content.pictures + content.deleted
    assert not (tmp_path / "copy.tar.partial").exists()


def test_an_archive_is_written_where_the_disk_has_no_locks(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    taken = TarSink.__init__

    def without_locks(sink: TarSink, path: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", refuse)
            taken(sink, path)

    monkeypatch.setattr(TarSink, "__init__", without_locks)
    content = take_snapshot(store.folder, tmp_path / "copy.tar")
    assert (
        sum(restore_snapshot(tmp_path / "copy.tar", tmp_path / "restored").values())
        == content.pictures + content.deleted
    )


def test_an_archive_that_was_ended_meanwhile_is_left_alone(tmp_path: Path) -> None:
    archive = tmp_path / "copy.tar"
    archive.write_bytes(b"whole")
    with pytest.raises(UserError, match="is there already"):
        TarSink(archive)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("copy.tar", b"whole")]
