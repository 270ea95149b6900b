"""`regard score`."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from models.datasets.captions import read_scored_sentences
from service.cli.options import Device, NumRegions
from service.cli.output import Progress, show_progress
from service.errors import UserError, user_input
from service.model_names import check_checkpoint

if TYPE_CHECKING:
    import numpy as np

    from models.datasets.captioned_features import CaptionedFeatures

PICTURES_AT_ONCE = 256


def score(
    weights: Annotated[Path, typer.Option(exists=True, file_okay=False, help="Folder of a checkpoint.")],
    features: Annotated[
        Path,
        typer.Option(
            exists=True, dir_okay=False, help="Array [pictures, regions, numbers], .npy; with its folder's masks."
        ),
    ],
    captions: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="A caption a line, or JSON lines (.jsonl).")
    ],
    out: Annotated[Path, typer.Option(help="Where to write the scores [pictures, captions], as .npy.")],
    split: Annotated[str | None, typer.Option(help="Split of the JSON lines; all if not given.")] = None,
    regions: NumRegions = None,
    device: Device = "auto",
) -> None:
    """Score all pictures with all captions, in float64 as the published evaluations do."""
    from models.datasets.npy_files import open_regions  # noqa: PLC0415 - NumPy comes with it

    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} to write {out.name} to")
    check_checkpoint(weights)
    with user_input(features):
        open_regions(features)
    if split is not None and captions.suffix != ".jsonl":
        raise typer.BadParameter("--split goes with captions as JSON lines, in a file called .jsonl")
    with user_input(captions):
        read_scored_sentences(captions, split)
    from models.evaluation.score_matrix import score_all  # noqa: PLC0415 - PyTorch comes with it
    from service.model_loading import device_of  # noqa: PLC0415

    with show_progress() as progress:
        num = _check_features(weights, features, regions, progress)
        with progress.activity("loading the model and encoding the captions"):
            task = progress.add_task("scoring", num)
            scores = score_all(weights, features, captions, device_of(device), task.update, split, regions)
    out = out if out.suffix == ".npy" else out.with_name(f"{out.name}.npy")  # as np.save names it
    _save(scores, out, weights)
    num_pictures, num_captions = scores.shape
    print(f"{out}: a row for each of {num_pictures} pictures, a column for each of {num_captions} captions, in float64")


def _check_features(weights: Path, features: Path, regions: int | None, progress: Progress) -> int:
    """The number of pictures. UserError where the checkpoint cannot be loaded or does not read these features, or they
    are not finite."""
    from models.evaluation.score_matrix import features_to_score, refuse_other_features  # noqa: PLC0415
    from models.matching.checkpoint import load_matcher  # noqa: PLC0415

    with user_input(weights):
        matcher = load_matcher(weights)
    with user_input(features):
        data = features_to_score(features, regions)
        refuse_other_features(matcher, data, weights, features)
    _check_finite(data, features, progress)
    return len(data)


def _check_finite(data: "CaptionedFeatures", features: Path, progress: Progress) -> None:
    task = progress.add_task("checking features", len(data))
    for start in range(0, len(data), PICTURES_AT_ONCE):
        finite = data.regions(slice(start, start + PICTURES_AT_ONCE)).vectors.isfinite().flatten(1).all(1)
        if not finite.all():
            raise UserError(
                f"{features}: picture {start + int(finite.int().argmin())} holds numbers that are not finite"
            )
        task.update(start + len(finite))


def _save(scores: "np.ndarray", out: Path, weights: Path) -> None:
    """Write the file whole. UserError, and no file, for scores that are not finite."""
    import numpy as np  # noqa: PLC0415

    from models.whole_files import write_whole  # noqa: PLC0415

    if not (finite := np.isfinite(scores).all(1)).all():
        raise UserError(
            f"{weights} gives picture {int(finite.argmin())} scores that are not finite, so nothing is written: its"
            " features may be too large, or an option of the model"
        )
    content = io.BytesIO()
    np.save(content, scores)
    write_whole(out, content.getvalue())
