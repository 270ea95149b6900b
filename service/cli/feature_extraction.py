"""The detector that commands load, and the extraction of region features with a progress bar."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from models.freed_memory import keep_freed_memory
from service.cli.out_folder import sole_writer
from service.cli.settings_options import read_cluster_settings
from service.cli.terminal.output import Progress, print_note, visible
from service.errors import UserError, user_input
from service.storage.picture_names import RAW_EXTENSIONS

if TYPE_CHECKING:
    from models.extractors.base import Extractor


def load_detector(folder: Path | None, device: str) -> "Extractor":
    """The detector in a folder, None for the shipped one, on a device, which may be `auto`. Raises UserError where it
    cannot be loaded.

    As a side effect, the process, which may be on another node, can read pictures of every format.
    """
    from service.media.formats import register_formats
    from service.model_loading import detector_of, device_of

    register_formats()
    keep_freed_memory()
    with user_input(folder):
        return detector_of(folder, device_of(device))


def without_unreadable(photographs: Mapping[str, Path], progress: Progress) -> tuple[dict[str, Path], bool]:
    """The photographs (name -> file) that are whole pictures, and whether these are all. The others are printed.

    Checked before the extraction, so that an unreadable file does not end a long run halfway.
    """
    from service.media.formats import register_formats

    register_formats()
    task = progress.add_task("checking pictures", len(photographs))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        reasons = dict[str, str | None]()
        for name, reason in zip(
            photographs, threads.map(_why_left_out, photographs, photographs.values()), strict=True
        ):
            reasons[name] = reason
            task.advance(1)
    unreadable = {name: reason for name, reason in reasons.items() if reason is not None}
    for name, reason in unreadable.items():
        print_note(f"left out: {visible(str(photographs[name]))}: {reason}")
    return {name: path for name, path in photographs.items() if name not in unreadable}, not unreadable


def _why_left_out(name: str, path: Path) -> str | None:
    if "\n" in name or "\r" in name:
        return "has a line break in its name, which lists of names cannot hold: rename it"
    if path.suffix.lower() in RAW_EXTENSIONS:
        return "is a camera's RAW file, which is not supported here: convert it to JPEG first"
    from models.datasets.photographs import why_unreadable

    return why_unreadable(path)


def extract_with_progress(
    extractor: "Extractor", photographs: Mapping[str, Path], out: Path, progress: Progress, is_kept: bool = True
) -> None:
    """Write the features of photographs (name -> file) to `out`, continuing an earlier run.

    `is_kept`: whether `out` outlives the command. UserError where it holds other pictures, or was begun with another
    detector, and for a picture that can no longer be read.
    """
    from models.datasets.feature_store import (
        begin_folder,
        extract_features,
        in_stored_order,
        pictures_at_once,
    )
    from models.datasets.photographs import UnreadablePhotograph

    with sole_writer(out, goes_on=is_kept):
        with user_input():
            num_done = begin_folder(extractor, in_stored_order(photographs, out), out)
        if num_done == len(photographs):
            print_note(f"{out} already holds all {num_done} pictures")
            return
        task = progress.add_task("finding regions", len(photographs))
        task.update(num_done)
        try:
            for done in extract_features(extractor, photographs, out, pictures_at_once(extractor)):
                task.update(done)
        except UnreadablePhotograph as fault:
            advice = f": the same command leaves it out, and resumes with what {out} holds" if is_kept else ""
            raise UserError(f"{fault}{advice}") from fault


def extract_on_cluster(
    load: Callable[[], "Extractor"], photographs: Mapping[str, Path], out: Path, progress: Progress
) -> None:
    """Extract features by detectors on all nodes of this machine's Ray cluster, each loaded by `load`.

    UserError as `extract_with_progress`, and without Ray or a cluster.
    """
    try:
        from service.cluster.bulk.extraction import extract_on_nodes
        from service.cluster.on_ray.director import connect_to_ray
    except ModuleNotFoundError as fault:
        raise UserError(
            f"{fault.name} is not installed: `uv pip sync requirements.lock requirements-cluster.lock` has Ray"
        ) from None
    connect_to_ray(read_cluster_settings({}))
    with user_input(), sole_writer(out):
        task = progress.add_task("finding regions", len(photographs))
        for done in extract_on_nodes(load, photographs, out):
            task.update(done)


def check_has_pictures(photographs: Mapping[str, Path], folder: Path) -> None:
    """UserError where there is no picture."""
    if not photographs:
        raise UserError(f"no pictures in {folder}")
