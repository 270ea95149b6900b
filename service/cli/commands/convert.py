"""Other people's files: checkpoints and features converted, arrays scored."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.output import Device, note, progress

app = typer.Typer()

CHECKPOINTS = ("scan", "bfan", "camp")
FEATURES = "tsv"


@app.command()
def convert(
    kind: Annotated[str, typer.Argument(help="scan, bfan or camp: a checkpoint. tsv: bottom-up region features.")],
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="One checkpoint, or TSVs.")],
    out: Annotated[Path, typer.Option(help="Folder to write; features that were begun there go on.")],
    vocab: Annotated[Path | None, typer.Option(help="The checkpoint's vocabulary, as its authors ship it.")] = None,
    regions: Annotated[int, typer.Option(min=1, help="Room for so many boxes of a picture, in a TSV.")] = 36,
    objects: Annotated[Path | None, typer.Option(help="Names of a TSV's objects, a line each.")] = None,
    extractor: Annotated[str, typer.Option(help="Name of what made the features.")] = "bottom-up-36",
) -> None:
    """Turn a published checkpoint or published features into ours. Nothing in the files is run."""
    if kind == FEATURES:
        _convert_features(files, out, regions, objects, extractor)
    elif kind not in CHECKPOINTS:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(CHECKPOINTS)}, {FEATURES}")
    elif vocab is None or len(files) != 1:
        raise typer.BadParameter("a checkpoint is converted with --vocab, one at a time")
    else:
        from models.conversion.convert import convert_checkpoint  # noqa: PLC0415 - PyTorch comes with it

        note(f"{out}: digest {convert_checkpoint(kind, files[0], vocab, out, extractor)}")  # type: ignore[arg-type]


@app.command()
def score(
    weights: Annotated[Path, typer.Option(exists=True, file_okay=False, help="Folder of a checkpoint.")],
    features: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Array [pictures, regions, numbers], as .npy.")
    ],
    captions: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="A caption a line.")],
    out: Annotated[Path, typer.Option(help="Where to write the scores [pictures, captions], as .npy.")],
    device: Device = "auto",
) -> None:
    """Score all pictures with all captions, in float64 as the published evaluations do."""
    import numpy as np  # noqa: PLC0415

    from models.evaluation.score_matrix import score_all  # noqa: PLC0415
    from service.api.services import device_of  # noqa: PLC0415

    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent} to write {out.name} to")
    with progress() as bars:
        task = bars.add_task("scoring", total=len(np.load(features, mmap_mode="r")))
        scores = score_all(
            weights, features, captions, device_of(device), lambda done: bars.update(task, completed=done)
        )
    np.save(out, scores)


def _convert_features(files: list[Path], out: Path, regions: int, objects: Path | None, extractor: str) -> None:
    from models.datasets.bottom_up_tsv import convert_tsv  # noqa: PLC0415

    with progress() as bars:
        task = bars.add_task("converting", total=None)
        for done in convert_tsv(files, out, num_regions=regions, objects=objects, extractor=extractor):
            bars.update(task, completed=done)
