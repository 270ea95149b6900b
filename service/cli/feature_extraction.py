"""The detector that commands load, and the extraction of region features with a progress bar."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from models.freed_memory import keep_freed_memory
from service.cli.out_folder import sole_writer
from service.cli.output import Progress, print_note
from service.errors import UserError, user_input

if TYPE_CHECKING:
    from models.extractors.base import Extractor


def load_detector(folder: Path | None, device: str) -> "Extractor":
    """The detector in a folder, the shipped one for None, on a device or on what `auto` means. UserError."""
    from service.model_loading import detector_of, device_of  # noqa: PLC0415 - PyTorch comes with it

    keep_freed_memory()
    with user_input(folder):
        return detector_of(folder, device_of(device))


def without_unreadable(photographs: Mapping[str, Path], progress: Progress) -> tuple[dict[str, Path], bool]:
    """The photographs (name -> file) that are whole pictures, and whether these are all; each other one is named.

    Looked at before the first regions are found, so that none ends a long run in its middle.
    """
    from models.datasets.photographs import why_unreadable  # noqa: PLC0415

    task = progress.add_task("checking pictures", len(photographs))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        reasons = dict[str, str | None]()
        for name, reason in zip(photographs, threads.map(why_unreadable, photographs.values()), strict=True):
            reasons[name] = reason
            task.advance(1)
    unreadable = {name: reason for name, reason in reasons.items() if reason is not None}
    for name, reason in unreadable.items():
        print_note(f"left out: {photographs[name]}: {reason}")
    return {name: path for name, path in photographs.items() if name not in unreadable}, not unreadable


def extract_with_progress(
    extractor: "Extractor", photographs: Mapping[str, Path], out: Path, progress: Progress
) -> None:
    """Write the features of photographs (name -> file) to `out`, or go on where an earlier run ended.

    UserError where `out` was begun with other pictures or another detector, and for a file that is no picture.
    """
    from models.datasets.feature_store import begin_folder, extract_features  # noqa: PLC0415

    with sole_writer(out):
        with user_input():
            begin_folder(extractor, tuple(photographs), out)
        task = progress.add_task("finding regions", len(photographs))
        for done in extract_features(extractor, photographs, out):
            task.update(done)


def extract_on_cluster(
    load: Callable[[], "Extractor"], photographs: Mapping[str, Path], out: Path, progress: Progress
) -> None:
    """Extract features by detectors on all nodes of this machine's cluster of Ray, each loaded by `load`.

    UserError as above, and where there is no Ray or no cluster.
    """
    try:
        from service.cluster.bulk_extraction import connected, extract_on_nodes  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as fault:
        raise UserError(
            f"{fault.name} is not installed: `uv pip sync requirements.lock requirements-cluster.lock` has Ray"
        ) from None
    with user_input(), connected(), sole_writer(out):
        task = progress.add_task("finding regions", len(photographs))
        for done in extract_on_nodes(load, photographs, out):
            task.update(done)


def check_has_pictures(photographs: Mapping[str, Path], folder: Path) -> None:
    """UserError where there is no picture to extract features of."""
    if not photographs:
        raise UserError(f"no pictures in {folder}")
