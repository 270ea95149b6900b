"""Pictures taken in: their bytes are on disk before they are known, and announced before they are stored."""

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from index.catalog.changes.arrivals import Arrival
from index.records import AcceptedJob, NewPicture
from service.ingest.picture_store import LocalPictureStore, ReceivedPicture
from service.storage.originals import Originals, image_id_of
from service.worker.maintenance.orphans import Orphans
from tests.support.power_cut import Disk

NOW = 1_700_000_000.0
CONTENTS = (b"one", b"two", b"three")


class WatchedCatalog(Catalog):
    """A catalog that lets somebody look around before it comes to know of pictures."""

    look: Callable[[], None] | None = None

    def take_in(
        self,
        pictures: Sequence[NewPicture],
        now: float,
        kept_since: float = 0.0,
        job_id: str = "",
        bounded: bool = True,
    ) -> AcceptedJob:
        """Take the pictures in after the look."""
        if self.look is not None:
            self.look()
        return super().take_in(pictures, now, kept_since, job_id, bounded)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[WatchedCatalog]:
    with closing(WatchedCatalog(tmp_path / "catalog.sqlite")) as made:
        yield made


def received(originals: Originals) -> list[ReceivedPicture]:
    """CONTENTS, complete in the folder where uploads are received, and nothing of them durable."""
    pictures = []
    for content in CONTENTS:
        sha256 = hashlib.sha256(content).hexdigest()
        path = originals.incoming / sha256
        path.write_bytes(content)
        image_id, name = image_id_of(sha256), f"{content.decode()}.png"
        picture = NewPicture(image_id=image_id, filename=name, extension="png", num_bytes=len(content))
        pictures.append(ReceivedPicture(path, picture))
    return pictures


def test_a_picture_is_known_only_when_a_power_cut_would_leave_its_bytes(
    catalog: WatchedCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path / "disk", monkeypatch)
    originals, lefts = Originals(disk.folder), list[Path]()
    pictures = received(originals)
    catalog.look = lambda: lefts.append(disk.left(tmp_path / "left"))
    LocalPictureStore(catalog, originals).take_in(pictures, NOW, 0.0)
    ids = [one.picture.image_id for one in pictures]
    assert [one.image_id for one in catalog.queue.waiting(10)] == ids
    (left,) = lefts
    assert [Originals(left, write=False).path(one, "png").read_bytes() for one in ids] == list(CONTENTS)


def test_what_a_failed_upload_stored_is_announced_and_removed(
    catalog: WatchedCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    originals, replace, moved = Originals(tmp_path / "data"), Path.replace, list[Path]()

    def fail_at_the_second(path: Path, target: Path) -> Path:
        if moved:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        moved.append(target)
        return replace(path, target)

    pictures = received(originals)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail_at_the_second)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            LocalPictureStore(catalog, originals).take_in(pictures, NOW, 0.0)
    assert [path.read_bytes() for path in moved] == [CONTENTS[0]]
    announced = {(Arrival(one.picture.image_id, "png"), False) for one in pictures}
    assert set(catalog.arrivals.open()) == announced
    Orphans(catalog, originals).advance()
    assert not moved[0].exists()
    assert catalog.arrivals.open() == []


def test_no_file_may_be_removed_before_the_catalog_knows_its_picture(catalog: WatchedCatalog, tmp_path: Path) -> None:
    originals, removable = Originals(tmp_path / "data"), list[bool]()

    def look() -> None:
        with originals.removing() as free:
            removable.append(free)

    catalog.look = look
    LocalPictureStore(catalog, originals).take_in(received(originals), NOW, 0.0)
    look()
    assert removable == [False, True]


def test_of_requests_that_send_one_picture_at_once_one_is_the_first(tmp_path: Path) -> None:
    originals, starts = Originals(tmp_path), threading.Barrier(8)
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog, ThreadPoolExecutor(8) as threads:

        def send(number: int) -> bool:
            picture = received(originals)[0].picture
            path = originals.incoming / f"{number}"
            path.write_bytes(CONTENTS[0])
            starts.wait()
            store = LocalPictureStore(catalog, originals)
            return store.take_in([ReceivedPicture(path, picture)], NOW, 0.0).outcomes[0].duplicate

        assert sorted(threads.map(send, range(8))) == [False] + [True] * 7
