"""`regard doctor`: whether everything is there that Regard needs."""

import platform
import sys
from collections.abc import Callable
from typing import Any

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_table, show_progress
from service.cli.settings_options import with_settings
from service.errors import UserError
from service.settings import Settings

Check = Callable[[Settings], str]


@with_settings("role", "host", "port")
def doctor(settings: Settings, as_json: AsJson = False) -> None:
    """Check what Regard needs. Says of each part, as these settings have it, whether it works."""
    found = []
    with show_progress() as progress:
        task = progress.add_task("checking", len(CHECKS))
        for name, check in CHECKS.items():
            found.append(run_check(name, check, settings))
            task.advance()
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
    """The result of one check: what was found, or what is wrong."""
    try:
        return {"part": part, "ok": True, "found": check(settings)}
    except (UserError, ValueError, OSError, RuntimeError, ImportError) as fault:
        return {"part": part, "ok": False, "found": f"{fault}" or type(fault).__name__}


def _python(settings: Settings) -> str:
    return f"{platform.python_version()}, {sys.executable}"


def _torch(settings: Settings) -> str:
    import torch  # noqa: PLC0415 - seconds, which `--help` should not take
    import torchvision  # noqa: PLC0415

    return f"torch {torch.__version__}, torchvision {torchvision.__version__}, {torch.get_num_threads()} threads"


def _device(settings: Settings) -> str:
    import torch  # noqa: PLC0415

    from service.model_loading import device_of  # noqa: PLC0415

    device = device_of(settings.device)
    torch.zeros(1, device=device)
    return device


def _weights(settings: Settings) -> str:
    from service.model_loading import LoadedModels  # noqa: PLC0415

    loaded = LoadedModels.from_settings(settings)
    models = ", ".join(f"{name} {matcher.digest}" for name, matcher in loaded.matchers.items())
    return f"detector {loaded.extractor.digest}; {models}"


def _decoding(settings: Settings) -> str:
    import tempfile  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from PIL import Image  # noqa: PLC0415

    from service.media.decode_pool import DecodePool  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, DecodePool.from_settings(settings, workers=1) as pool:
        path = Path(folder) / "picture.png"
        Image.new("RGB", (8, 8)).save(path)
        pool.decode(path)
    return "a picture was decoded in a process of its own"


def _data_dir(settings: Settings) -> str:
    from index.lock import Locked, WriterLock  # noqa: PLC0415

    folder = settings.data_dir
    try:
        with WriterLock(folder):
            probe = folder / ".doctor"
            probe.write_bytes(b"")
            probe.unlink()
    except Locked as locked:
        return str(locked)
    return f"{folder.resolve()} can be written, no worker has it"


def _regions(settings: Settings) -> str:
    from contextlib import closing  # noqa: PLC0415

    from index.catalog import Catalog  # noqa: PLC0415
    from service.model_loading import device_of, extractor_of  # noqa: PLC0415
    from service.storage.data_dir import DataDir  # noqa: PLC0415
    from service.storage.extractor_identity import check_extractor  # noqa: PLC0415
    from service.storage.region_stores import migration_progress  # noqa: PLC0415

    path = DataDir(settings.data_dir).catalog
    if not path.is_file():
        return "none are stored"
    extractor = extractor_of(settings.detector, settings.data_dir, device_of(settings.device))
    with closing(Catalog(path)) as catalog:
        check_extractor(catalog, extractor)
        progress = migration_progress(catalog, extractor.digest)
        return f"{catalog.num_slots()} of {extractor.digest}" if progress is None else str(progress)


def _redis(settings: Settings) -> str:
    from service.api.cache import ping  # noqa: PLC0415

    if settings.redis_url is None:
        return "not used"
    ping(settings.redis_url)
    return f"{settings.redis_url} answers"


CHECKS: dict[str, Check] = {
    "python": _python,
    "torch": _torch,
    "device": _device,
    "weights": _weights,
    "decoding": _decoding,
    "data": _data_dir,
    "regions": _regions,
    "redis": _redis,
}
