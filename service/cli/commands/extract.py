"""`regard extract`: region features of a folder of pictures."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from service.cli.feature_extraction import (
    check_has_pictures,
    extract_on_cluster,
    extract_with_progress,
    load_detector,
    without_unreadable,
)
from service.cli.options import DetectorFolder, Device, OutFolder
from service.cli.picture_files import LINKS_ELSEWHERE, FoundFiles, find_files
from service.cli.terminal.output import print_note, show_progress
from service.model_names import check_detector

LINKS_ADVICE = "; links are not followed: `cp -rL FOLDER COPY` copies the linked files themselves"


def extract(
    images: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of pictures.")],
    out: OutFolder,
    detector: DetectorFolder = None,
    device: Device = "auto",
    on_cluster: Annotated[
        bool, typer.Option("--ray", help="Run on all nodes of a Ray cluster, which must see the same files.")
    ] = False,
) -> None:
    """Write region features of pictures. Training and evaluation read them.

    A stopped run is resumed; new pictures are added after those in OUT.

    Files that are not complete pictures are reported and left out; the exit status is then 1.
    """
    found = find_files([images])
    photographs = dict(found.pictures)
    _note_skipped(found)
    check_has_pictures(photographs, images)
    check_detector(detector)
    with show_progress() as progress:
        photographs, is_whole = without_unreadable(photographs, progress)
        check_has_pictures(photographs, images)
        if on_cluster:
            extract_on_cluster(partial(load_detector, detector, device), photographs, out, progress)
        else:
            with progress.activity("loading the detector"):
                extractor = load_detector(detector, device)
            extract_with_progress(extractor, photographs, out, progress)
    if not is_whole:
        raise typer.Exit(1)


def _note_skipped(found: FoundFiles) -> None:
    """Print how many files of each kind are skipped, if any, with advice on links."""
    if found.skipped:
        counts = ", ".join(f"{number} {kind}" for kind, number in sorted(found.skipped.items()))
        links = any(kind in LINKS_ELSEWHERE for kind in found.skipped)
        print_note(f"skipped: {counts}{LINKS_ADVICE if links else ''}")
