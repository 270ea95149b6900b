"""`regard score`."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from models.datasets.captions import CaptionLine, read_scored_sentences
from service.cli.evaluation.captioned_source import FIRST_REGIONS, check_finite, check_reads
from service.cli.options import Device, NumRegions
from service.cli.terminal.output import show_progress, visible
from service.errors import UserError, user_input
from service.model_names import check_models

if TYPE_CHECKING:
    import numpy as np

    from models.datasets.captioned_features import CaptionedFeatures
    from models.matching.matcher import Matcher


def score(
    weights: Annotated[
        str, typer.Option(help="Folder of a checkpoint, a shipped model, or several joined by + (their mean).")
    ],
    features: Annotated[
        Path,
        typer.Option(exists=True, help="Output of `regard extract`, or an array [pictures, regions, numbers], .npy."),
    ],
    captions: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="One caption per line, or JSON lines (.jsonl).")
    ],
    out: Annotated[Path, typer.Option(help="Where to write the scores [pictures, captions], as .npy.")],
    split: Annotated[str | None, typer.Option(help="Split of the JSON lines; all if not given.")] = None,
    regions: NumRegions = None,
    ask: Annotated[
        Literal["text", "image"],
        typer.Option(
            help="The queries: text (captions) or image (pictures). Only scores of short captions depend on it."
        ),
    ] = "image",
    device: Device = "auto",
) -> None:
    """Score all pictures with all captions.

    In float64, as the published evaluations do.
    """
    from models.datasets.npy_files import open_regions

    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent} to write {out.name} to")
    check_models([weights])
    features = features / "features.npy" if features.is_dir() else features
    with user_input(features):
        open_regions(features)
    if split is not None and captions.suffix != ".jsonl":
        raise typer.BadParameter("--split goes with captions as JSON lines, in a file called .jsonl")
    with user_input(captions):
        sentences = read_scored_sentences(captions, split)
    from models.evaluation.score_matrix import score_all
    from service.model_loading import device_of, load_model

    with show_progress() as progress:
        with progress.activity("loading the model and checking the features"):
            matcher = load_model(weights, device_of(device))
            data = _load(features, regions)
            _check_reads(matcher, data, weights, regions)
            check_finite(data)
        with progress.activity("encoding the captions"):
            task = progress.add_task("scoring", len(data))
            scores = score_all(matcher, data, sentences, task.update, ask == "text")
    out = out if out.suffix == ".npy" else out.with_name(f"{out.name}.npy")  # as np.save names it
    _save(scores, out, weights)
    num_pictures, num_captions = scores.shape
    rows = f"a row for each of {num_pictures} pictures, a column for each of {num_captions} captions, in float64"
    print(f"{visible(str(out))}: {rows}")


def _load(features: Path, regions: int | None) -> "CaptionedFeatures":
    """The features of an array, with the masks and the extractor of its folder; an array by itself has the extractor
    "" and all regions."""
    import numpy as np

    from models.datasets.captioned_features import CaptionedFeatures
    from models.datasets.feature_store import MANIFEST_FILE, open_features
    from models.datasets.npy_files import open_regions

    with user_input(features):
        if features.name == "features.npy" and (features.parent / MANIFEST_FILE).is_file():
            stored = open_features(features.parent)
            data = CaptionedFeatures.join(stored, [CaptionLine(name, ()) for name in stored.ids])
        else:
            vectors = open_regions(features)
            mask = np.ones(vectors.shape[:2], dtype=bool)
            data = CaptionedFeatures.from_arrays(vectors, mask, [()] * len(vectors), "")
        return data.first_regions(regions) if regions else data


def _check_reads(matcher: "Matcher", data: "CaptionedFeatures", weights: str, regions: int | None) -> None:
    """UserError unless the model reads the features. An array by itself is taken to be of the model's extractor, with
    all regions or as many as the model was trained on."""
    made, few = data.extractor_digest, FIRST_REGIONS.fullmatch(matcher.extractor_digest)
    if made in ("", f"-first-{regions}"):
        is_whole = few is not None and int(few[2]) != data.features.shape[1]
        made = few[1] if few and is_whole else matcher.extractor_digest
    check_reads(matcher, made, data.feature_dim, weights, regions)


def _save(scores: "np.ndarray", out: Path, weights: str) -> None:
    """Write the file atomically. UserError, and no file, for scores that are not finite."""
    import numpy as np

    from models.whole_files import write_whole

    if not (finite := np.isfinite(scores).all(1)).all():
        raise UserError(
            f"{weights} gives picture {int(finite.argmin())} scores that are not finite: nothing is written"
        )
    content = io.BytesIO()
    np.save(content, scores)
    write_whole(out, content.getvalue())
