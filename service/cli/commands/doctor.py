"""`regard doctor`: checks of everything that Regard needs."""

import platform
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from index.catalog.database.faults import DamagedCatalog, ReadOnlyCatalog, UnknownSchema
from service.cli.options import AsJson
from service.cli.settings_options import with_settings
from service.cli.terminal.output import Progress, print_json, print_table, show_progress
from service.cli.user_errors import one_line, sqlite_advice
from service.errors import UserError
from service.settings import Settings

Verify = Annotated[
    bool, typer.Option("--verify", help="Also read everything that is stored, and compare it with its checksums.")
]
Check = Callable[[Settings], str]
UPGRADED = "upgraded at the next start of `regard serve` or `regard worker`"
OLD_CATALOG = f"the catalog is of an older version, and is {UPGRADED}"
FAULTS = (
    UserError,
    ValueError,
    OSError,
    RuntimeError,
    ImportError,
    DamagedCatalog,
    ReadOnlyCatalog,
    UnknownSchema,
    sqlite3.OperationalError,
)


@with_settings("role", "host", "port")
def doctor(settings: Settings, verify: Verify = False, as_json: AsJson = False) -> None:
    """Check what Regard needs. Reports for each part whether it works with these settings."""
    found = []
    with show_progress() as progress:
        task = progress.add_task("checking", len(CHECKS))
        for name, check in CHECKS.items():
            found.append(run_check(name, check, settings))
            task.advance()
        if verify:
            found += _verified(settings, progress)
    if as_json:
        print_json({"healthy": all(one["ok"] for one in found), "checks": found})
    else:
        print_table(
            "",
            "part",
            "found",
            rows=[["ok" if one["ok"] else "WRONG", one["part"], one["found"]] for one in found],
        )
    if not all(one["ok"] for one in found):
        raise typer.Exit(1)


def run_check(part: str, check: Check, settings: Settings) -> dict[str, Any]:
    """The result of one check: the finding, or the fault."""
    try:
        return {"part": part, "ok": True, "found": check(settings)}
    except FAULTS as fault:
        return {"part": part, "ok": False, "found": fault_text(fault)}


def fault_text(fault: Exception) -> str:
    """The message of a fault, with any advice on it."""
    return one_line(fault) if sqlite_advice(fault) else str(fault) or type(fault).__name__


def _verified(settings: Settings, progress: Progress) -> list[dict[str, Any]]:
    """The results of verifying stored data: one if all is well, otherwise one for each damage."""
    from index.catalog.catalog import Catalog
    from index.catalog.database.check import check_schema
    from service.storage.data_dir import DataDir
    from service.storage.left_behind import left_behind
    from service.storage.verification import find_damage

    try:
        if (path := catalog_of(settings)) is None:
            return [_nothing_stored(settings)]
        if check_schema(path).is_old:
            return [{"part": "stored", "ok": False, "found": f"not compared yet: {OLD_CATALOG}; ask again then"}]
    except FAULTS as fault:
        return [{"part": "stored", "ok": False, "found": fault_text(fault)}]
    task = progress.add_task("verifying stored data", None)
    try:
        with closing(Catalog(path)) as catalog:
            damage = [left] if (left := left_behind(DataDir(settings.data_dir), catalog)) is not None else []
        damage += find_damage(settings.data_dir, lambda: task.advance(1))
    except FAULTS as fault:
        damage = [fault_text(fault)]
    return [{"part": "stored", "ok": False, "found": one} for one in damage] or [
        {"part": "stored", "ok": True, "found": "everything matches its checksum"}
    ]


def _nothing_stored(settings: Settings) -> dict[str, Any]:
    """The result of verifying a data directory without a catalog. It is a fault except in a cluster, whose replicas
    store: who asks expects pictures, and misspelt the folder or did not mount its disk."""
    found = f"nothing is stored in {settings.data_dir.resolve()}"
    if is_cluster(settings):
        return {"part": "stored", "ok": True, "found": found}
    return {"part": "stored", "ok": False, "found": f"{found}: is it the right --data-dir, and its disk mounted?"}


def _python(settings: Settings) -> str:
    return f"{platform.python_version()}, {sys.executable}"


def _torch(settings: Settings) -> str:
    import torch
    import torchvision

    return f"torch {torch.__version__}, torchvision {torchvision.__version__}, {torch.get_num_threads()} threads"


def _device(settings: Settings) -> str:
    import torch

    from service.model_loading import device_of

    device = device_of(settings.device)
    torch.zeros(1, device=device)
    return device


def _kernels(settings: Settings) -> str:
    from models.kernels.library import NoKernels, load_library

    if not settings.kernels:
        return "turned off by REGARD_KERNELS: PyTorch computes the scores"
    try:
        return f"built for {load_library().target}"
    except NoKernels as fault:
        return f"PyTorch computes the scores: {fault}"


def _weights(settings: Settings) -> str:
    from index.catalog.database.check import check_schema
    from service.model_loading import LoadedModels

    path = catalog_of(settings)
    is_old = path is not None and check_schema(path).is_old  # reading its extractor would upgrade it
    loaded = LoadedModels.from_settings(settings, stored=not is_old)
    models = ", ".join(f"{name} {matcher.digest}" for name, matcher in loaded.matchers.items())
    return f"detector {loaded.extractor.digest}; {models}"


def _decoding(settings: Settings) -> str:
    import tempfile

    from PIL import Image

    from service.media.decode_pool import DecodePool

    with tempfile.TemporaryDirectory() as folder, DecodePool.from_settings(settings, workers=1) as pool:
        path = Path(folder) / "picture.png"
        Image.new("RGB", (8, 8)).save(path)
        pool.decode(path)
        missing = [f"without {name}: {why}" for name, why in pool.protection().items() if why != "on"]
    return "; ".join(["a picture was decoded in a process of its own", *missing])


def _raw(settings: Settings) -> str:
    from service.cli.picture_files import can_read_raw

    taken = "taken in by their embedded pictures"
    return taken if can_read_raw() else f"skipped; {taken} once the extra `raw` is installed: pip install rawpy"


def _data_dir(settings: Settings) -> str:
    from index.lock import Locked
    from service.storage.ballast import has_room
    from service.storage.data_dir import DataDir
    from service.storage.data_dir_lock import lock_data_dir, require_enterable
    from service.storage.disk import FreeSpace
    from service.storage.forbidden import forbidden_to_worker
    from service.storage.misplaced_files import refuse_misplaced_files

    folder = settings.data_dir
    require_enterable(folder)
    if not folder.exists():
        return f"there is no {folder.resolve()} yet: the first start creates it"
    if not has_room(folder):  # does not free the reserve, as a start would
        raise UserError(f"the disk of {folder.resolve()} is full: make room there, a megabyte or more")
    if (shortage := FreeSpace(folder, settings.disk_reserve_bytes).shortage()) is not None:
        raise UserError(f"{shortage}; uploads are refused until then")
    refuse_misplaced_files(DataDir(folder))
    if is_cluster(settings):
        of = "head" if DataDir(folder).cluster_plan.exists() else "node"
        return f"{folder.resolve()} belongs to a cluster's {of}: `regard cluster status` lists its replicas"
    if forbidden := forbidden_to_worker(DataDir(folder)):
        others = f" (and {len(forbidden) - 1} other places)" if len(forbidden) > 1 else ""
        raise UserError(f"{forbidden[0]}{others}")
    try:
        with lock_data_dir(folder):
            probe = folder / ".doctor"
            probe.write_bytes(b"")
            probe.unlink()
    except Locked as locked:
        return f"{folder.resolve()} is writable, and a worker uses it: {locked.holder}"
    is_open = folder.stat().st_mode & stat.S_IROTH
    open_to_all = f"; every user of this machine can read it: chmod o= {folder} forbids that" if is_open else ""
    return f"{folder.resolve()} is writable, no worker uses it{open_to_all}"


def catalog_of(settings: Settings) -> Path | None:
    """The file of the catalog; None if there is none. Misconfigured if the folder may not be entered."""
    from service.storage.data_dir import DataDir
    from service.storage.data_dir_lock import require_enterable

    require_enterable(settings.data_dir)
    path = DataDir(settings.data_dir).catalog
    return path if path.is_file() else None


def is_cluster(settings: Settings) -> bool:
    """Whether the data directory belongs to a cluster's head or node, whose pictures are stored elsewhere."""
    from service.storage.data_dir import DataDir

    data = DataDir(settings.data_dir)
    return data.is_cluster_node or data.cluster_plan.exists()


def _catalog(settings: Settings) -> str:
    from index.catalog.database.check import check_catalog

    path = catalog_of(settings)
    if path is None:
        return "each replica of the cluster has its own" if is_cluster(settings) else "there is none yet"
    state = check_catalog(path)
    upgraded = f", {UPGRADED}" if state.is_old else ""
    return f"schema {state.version}{upgraded}, {state.pictures} pictures, every page can be read"


def _regions(settings: Settings) -> str:
    from index.catalog.catalog import Catalog
    from index.catalog.database.check import check_schema
    from index.views.slab import stored_layout
    from models.extractors.config import CONFIG_FILE
    from service.model_loading import device_of, extractor_of
    from service.storage.regions.entries import answering_folders
    from service.storage.regions.extractor_identity import check_extractor
    from service.storage.regions.folders import described_extractor
    from service.storage.regions.migration_progress import migration_progress
    from service.storage.verification import BAD_DESCRIPTION

    path = catalog_of(settings)
    if path is None:
        return "none are stored"
    if check_schema(path).is_old:  # opening it would upgrade it
        return f"checked once the catalog is {UPGRADED}"
    extractor = extractor_of(settings.detector, settings.data_dir, device_of(settings.device))
    with closing(Catalog(path)) as catalog:
        check_extractor(catalog, extractor)
        for name in (name for name, count in answering_folders(catalog).items() if count):
            try:
                stored_layout(settings.data_dir / name)
                if (settings.data_dir / name / CONFIG_FILE).exists():  # not every release wrote one
                    described_extractor(settings.data_dir / name, extractor.digest)
            except UserError:  # already names the file
                raise
            except BAD_DESCRIPTION as fault:
                raise UserError(f"{settings.data_dir / name} cannot be read: {fault}") from fault
        progress = migration_progress(catalog, extractor.digest)
        return f"{catalog.num_slots()} of {extractor.digest}" if progress is None else str(progress)


def _keys(settings: Settings) -> str:
    import time

    from service.auth.key_file import read_keys
    from service.storage.data_dir import DataDir
    from service.storage.data_dir_lock import require_enterable

    require_enterable(settings.data_dir)
    keys = read_keys(DataDir(settings.data_dir).keys)
    if not keys:
        return f"there are none: {_who_is_answered(settings)}"
    usable = sum(key.unusable(time.time()) is None for key in keys)
    if not usable:
        raise UserError(f"none of {len(keys)} can be used, so all requests are refused; `regard keys create` makes one")
    return f"{usable} of {len(keys)} can be used"


def _who_is_answered(settings: Settings) -> str:
    from service.auth.exposure import is_loopback

    if is_loopback(settings.host):
        return "it listens to this machine alone, and answers everybody there"
    if settings.insecure:
        return f"everybody who reaches {settings.host} port {settings.port} may read, add and delete pictures"
    return f"`regard serve` will not listen on {settings.host}, which others can reach: `regard keys create` makes one"


def _redis(settings: Settings) -> str:
    from service.api.redis_cache import ping
    from service.redis_url import without_password

    if settings.redis_url is None:
        return "not used"
    ping(settings.redis_url)
    return f"{without_password(settings.redis_url)} answers"


CHECKS: dict[str, Check] = {
    "python": _python,
    "torch": _torch,
    "device": _device,
    "kernels": _kernels,
    "catalog": _catalog,
    "weights": _weights,
    "decoding": _decoding,
    "RAW": _raw,
    "data": _data_dir,
    "regions": _regions,
    "keys": _keys,
    "redis": _redis,
}
