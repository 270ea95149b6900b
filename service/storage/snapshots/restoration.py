"""Restoration of a data directory from a snapshot, in which no name and no number is trusted."""

import hashlib
import json
import os
import stat
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, NamedTuple

from index.catalog.catalog import Catalog
from index.catalog.database.copies import check_foreign_catalog
from index.catalog.database.faults import DamagedCatalog, UnknownSchema
from index.files import make_folder
from index.views.slab import RECORDS, Corrupt, record_dtype, stored_layout
from service.errors import UserError
from service.storage.data_dir import DataDir
from service.storage.kept_images import kept_images
from service.storage.originals import Originals, image_id_of
from service.storage.regions.entries import answering_folders
from service.storage.snapshots.files import ABOUT, CATALOG, SNAPSHOT_FILE, SNAPSHOT_FORMAT, empty_folder

COPIED_AT_ONCE = 1 << 20
NAMED_AT_MOST = 20  # pictures in one message
LEAVE_OUT = "restore everything else with --skip-damaged"


class Member(NamedTuple):
    """A file of a snapshot."""

    name: str
    content: IO[bytes] | BufferedIOBase


def restore_snapshot(
    source: Path,
    data_dir: Path,
    each: Callable[[], None] = lambda: None,
    now: Callable[[], float] = time.time,
    tell: Callable[[str], None] = lambda _: None,
    skip_damaged: bool = False,
) -> Mapping[str, int]:
    """Create a data directory from the snapshot, with a new collection id; returns the numbers of pictures by state.

    Pictures whose deletion could still be undone keep that chance, with the full grace period from now. `each` is
    called for each file, `tell` with a message on missing regions or thumbnails. With `skip_damaged`, originals that
    are damaged or missing are left out, with a message. UserError where the folder is not empty, or the snapshot is
    incomplete, damaged, or has files that no snapshot has; everything written is then removed.
    """
    existed = data_dir.exists()
    if not existed and data_dir.is_symlink():
        raise UserError(f"{data_dir} is a link to {data_dir.readlink()}, which is not there: make that folder first")
    if existed and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise UserError(f"{data_dir} is not empty: name a new folder")
    make_folder(data_dir, private=True)
    try:
        return _restore(source, data_dir, each, now, tell, skip_damaged)
    except BaseException:
        empty_folder(data_dir)
        if not existed:
            data_dir.rmdir()
        raise


def _restore(
    source: Path,
    data_dir: Path,
    each: Callable[[], None],
    now: Callable[[], float],
    tell: Callable[[str], None],
    skip_damaged: bool,
) -> Mapping[str, int]:
    """`restore_snapshot` into an empty folder."""
    names: set[str] = set()
    catalog_digest = ""
    about: dict[str, Any] | None = None
    with _members(source) as members:
        for name, content in members:
            if SNAPSHOT_FILE.fullmatch(name) is None:
                raise UserError(f"{source} holds {name!r}, which no snapshot does: nothing of it is used")
            if name in names:
                raise UserError(f"{source} holds {name!r} twice: nothing of it is used")
            names.add(name)
            if name == ABOUT:
                about = _read_about(source, content.read(COPIED_AT_ONCE))
            else:
                digest = _write(source, name, content, data_dir, tell if skip_damaged else None)
                catalog_digest = digest if name == CATALOG else catalog_digest
            each()
    if about is None or CATALOG not in names:
        raise UserError(f"{source} is not a whole snapshot: `regard snapshot` did not come to its end")
    if about.get("catalog_sha256", catalog_digest) != catalog_digest:
        raise UserError(f"the catalog of {source} is damaged: it is not the one that was copied; copy it anew")
    unchecked = DataDir(data_dir).unchecked_catalog
    try:
        check_foreign_catalog(unchecked)
    except (DamagedCatalog, UnknownSchema) as fault:
        raise UserError(f"the catalog of {source} cannot be used: {fault}") from fault
    with closing(Catalog(unchecked)) as catalog:
        catalog.renew_collection()
        catalog.delete_anew(now())
        counts = catalog.counts()
        _check_originals(source, catalog, Originals(data_dir, write=False), about["missing"], skip_damaged, tell)
        for lacking in _lacking_parts(data_dir, catalog):
            tell(lacking)
    os.sync()
    unchecked.replace(DataDir(data_dir).catalog)
    os.sync()
    return counts


def _check_originals(
    source: Path,
    catalog: Catalog,
    originals: Originals,
    missing: int,
    skip_damaged: bool,
    tell: Callable[[str], None],
) -> None:
    """Raise UserError where more originals are missing than when the snapshot was taken; with `skip_damaged`, tell
    how many are."""
    pictured = (image for image in kept_images(catalog) if image.pictured)
    without_file = [image for image in pictured if not originals.path(image.image_id, image.extension).is_file()]
    if skip_damaged and without_file:
        names = ", ".join(repr(image.filename) for image in without_file[:NAMED_AT_MOST])
        others = f" and {len(without_file) - NAMED_AT_MOST} others" * (len(without_file) > NAMED_AT_MOST)
        tell(f"{len(without_file)} pictures have no original: send their files again ({names}{others})")
    elif len(without_file) > missing:
        raise UserError(
            f"{source} is not whole: of its {len(without_file)} pictures without a file only {missing} had none when it"
            f" was taken, and {without_file[0].filename!r} is among them. Copy it anew, or {LEAVE_OUT}"
        )


def _lacking_parts(data_dir: Path, catalog: Catalog) -> Iterator[str]:
    """Messages on missing regions and thumbnails, starting with regions that cannot be recomputed."""
    originals, stores = Originals(data_dir, write=False), answering_folders(catalog)
    present = {name: min(count, _count_records(data_dir / name)) for name, count in stores.items()}
    found_anew = dict.fromkeys(stores, 0)
    num_lost = without_thumbnail = ready = 0
    for image in kept_images(catalog):
        if image.slot is not None and not image.pictured:
            num_lost += image.slot >= max(present.values(), default=0)
            continue
        if image.slot is not None:
            for name, count in stores.items():
                found_anew[name] += present[name] <= image.slot < count
        if image.state == "ready":
            ready += 1
            without_thumbnail += originals.find_thumbnail(image.image_id) is None
    if num_lost:
        yield (
            f"LOST: {num_lost} of these are known by features alone, which the snapshot lacks and nothing makes again:"
            " look for a snapshot that is whole, or take the features in again"
        )
    for name, count in stores.items():
        if lacking := found_anew[name]:
            place = f" in {name}" if len(stores) > 1 else ""
            yield f"regions of {lacking} of {count} are missing{place} and are found anew while it runs"
    if without_thumbnail:
        yield f"thumbnails of {without_thumbnail} of {ready} are missing and are made anew while it runs"


def _count_records(folder: Path) -> int:
    try:
        return (folder / RECORDS).stat().st_size // record_dtype(stored_layout(folder)).itemsize
    except (Corrupt, ValueError, LookupError, OSError):  # missing or unreadable
        return 0


def _read_about(source: Path, content: bytes) -> dict[str, Any]:
    try:
        about = json.loads(content)
        if about["format"] == SNAPSHOT_FORMAT and isinstance(about["missing"], int):
            return dict(about)
    except (ValueError, LookupError, TypeError):
        pass
    raise UserError(f"{source} is a snapshot of a form that this version of Regard does not read")


def _write(
    source: Path,
    name: str,
    content: IO[bytes] | BufferedIOBase,
    data_dir: Path,
    tell_damaged: Callable[[str], None] | None,
) -> str:
    """Write one file below the data directory; returns its SHA-256.

    An original that cannot be read, or does not match its name, is left out and told, or is a UserError without
    `tell_damaged`.
    """
    path = DataDir(data_dir).unchecked_catalog if name == CATALOG else data_dir / name
    make_folder(path.parent)
    digest = hashlib.sha256()
    with path.open("xb") as file:
        problem = _copy(content, file, digest)
    is_original = name.startswith("originals/")
    if problem is None and is_original and image_id_of(digest.hexdigest()) != path.stem:
        problem = "it is not the picture that was taken in"
    if problem is not None:
        damaged = f"{name} in {source} is damaged: {problem}"
        if not is_original:
            raise UserError(f"{damaged}. Use another copy of the snapshot")
        if tell_damaged is None:
            raise UserError(f"{damaged}. Use another copy of the snapshot, or {LEAVE_OUT}")
        path.unlink()
        tell_damaged(f"left out: {damaged}")
    return digest.hexdigest()


def _copy(content: IO[bytes] | BufferedIOBase, file: IO[bytes], digest: "hashlib._Hash") -> str | None:
    """Copy the content and update the digest; returns why it cannot be read to its end, None where it can."""
    while True:
        try:
            chunk = content.read(COPIED_AT_ONCE)
        except OSError as fault:  # of a failing disk; those of writing are the caller's
            return f"it cannot be read ({fault.strerror or fault})"
        if not chunk:
            return None
        digest.update(chunk)
        file.write(chunk)


@contextmanager
def _members(source: Path) -> Iterator[Iterator[Member]]:
    """The files of a snapshot, one open at a time; UserError for anything but regular files."""
    if source.is_dir():
        yield _files_below(source)
        return
    try:
        with tarfile.open(source, "r:") as archive:
            yield _files_of(source, archive)
    except tarfile.TarError as fault:
        raise UserError(f"{source} is no snapshot, or was cut: {fault}") from fault


def _files_below(source: Path) -> Iterator[Member]:
    for folder, folders, names in os.walk(source):
        for name in [*folders, *names]:
            path = Path(folder) / name
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise UserError(f"{path} is no plain file: nothing of {source} is used")
            with path.open("rb") as file:
                yield Member(path.relative_to(source).as_posix(), file)


def _files_of(source: Path, archive: tarfile.TarFile) -> Iterator[Member]:
    for member in archive:
        if not member.isreg():
            raise UserError(f"{member.name!r} in {source} is no plain file: nothing of it is used")
        file = archive.extractfile(member)
        assert file is not None  # since it is a regular file
        with file:
            yield Member(member.name, file)
