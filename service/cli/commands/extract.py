"""`regard extract`: region features of a folder of pictures."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.feature_extraction import check_has_pictures, extract_with_progress, load_detector
from service.cli.options import DetectorFolder, Device, OutFolder
from service.cli.output import show_progress
from service.cli.picture_files import picture_files
from service.model_names import check_detector


def extract(
    images: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of pictures.")],
    out: OutFolder,
    detector: DetectorFolder = None,
    device: Device = "auto",
) -> None:
    """Write region features of pictures. Training and evaluation read them."""
    photographs = dict(picture_files([images]))
    check_has_pictures(photographs, images)
    check_detector(detector)
    with show_progress() as progress:
        with progress.activity("loading the detector"):
            extractor = load_detector(detector, device)
        extract_with_progress(extractor, photographs, out, progress)
