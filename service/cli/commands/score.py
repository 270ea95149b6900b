"""`regard score`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from models.datasets.captions import read_scored_sentences
from service.cli.options import Device
from service.cli.output import Progress, show_progress
from service.errors import UserError, user_input
from service.model_names import check_checkpoint

if TYPE_CHECKING:
    import numpy as np

PICTURES_AT_ONCE = 256


def score(
    weights: Annotated[Path, typer.Option(exists=True, file_okay=False, help="Folder of a checkpoint.")],
    features: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Array [pictures, regions, numbers], as .npy.")
    ],
    captions: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="A caption a line, or JSON lines (.jsonl).")
    ],
    out: Annotated[Path, typer.Option(help="Where to write the scores [pictures, captions], as .npy.")],
    split: Annotated[str | None, typer.Option(help="Split of the JSON lines; all if not given.")] = None,
    device: Device = "auto",
) -> None:
    """Score all pictures with all captions, in float64 as the published evaluations do."""
    import numpy as np  # noqa: PLC0415

    from models.datasets.npy_files import open_array  # noqa: PLC0415 - NumPy comes with it

    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} to write {out.name} to")
    check_checkpoint(weights)
    with user_input(features):
        arrays = open_array(features)
    if arrays.ndim != 3 or not arrays.shape[1]:
        raise UserError(f"{features} has shape {arrays.shape}, not (pictures, regions, numbers)")
    if split is not None and captions.suffix != ".jsonl":
        raise typer.BadParameter("--split goes with captions as JSON lines, in a file called .jsonl")
    with user_input(captions):
        read_scored_sentences(captions, split)
    from models.evaluation.score_matrix import score_all  # noqa: PLC0415 - PyTorch comes with it
    from service.model_loading import device_of  # noqa: PLC0415

    with show_progress() as progress:
        _check_features(weights, features, arrays, progress)
        with progress.activity("loading the model and encoding the captions"):
            task = progress.add_task("scoring", len(arrays))
            scores = score_all(weights, features, captions, device_of(device), task.update, split)
    out = out if out.suffix == ".npy" else out.with_name(f"{out.name}.npy")  # as np.save names it
    np.save(out, scores)
    num_pictures, num_captions = scores.shape
    print(f"{out}: a row for each of {num_pictures} pictures, a column for each of {num_captions} captions, in float64")


def _check_features(weights: Path, features: Path, arrays: "np.ndarray", progress: Progress) -> None:
    """UserError where the checkpoint cannot be loaded or does not read these features, or they are not finite."""
    import numpy as np  # noqa: PLC0415

    from models.matching.checkpoint import load_matcher  # noqa: PLC0415

    with user_input(weights):
        feature_dim = load_matcher(weights).feature_dim
    if arrays.shape[2] != feature_dim:
        expected = f"(pictures, regions, {feature_dim})"
        raise UserError(f"{features} has shape {arrays.shape}; {weights} scores features of shape {expected}")
    task = progress.add_task("checking features", len(arrays))
    for start in range(0, len(arrays), PICTURES_AT_ONCE):
        part = arrays[start : start + PICTURES_AT_ONCE].astype(np.float32)
        finite = np.isfinite(part).reshape(len(part), -1).all(1)
        if not finite.all():
            raise UserError(f"{features}: picture {start + int(finite.argmin())} holds numbers that are not finite")
        task.update(start + len(part))
