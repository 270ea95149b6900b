"""Models made: train."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from models.training.recipes import RECIPES, Recipe
from service.cli.commands.evaluate import Captions, Chosen, Features, KeptRegions, Out, Precomp, captioned
from service.cli.output import Device, note, progress

if TYPE_CHECKING:
    from models.datasets.captioned_features import CaptionedFeatures
    from models.training.logs import Log

app = typer.Typer()
R = TypeVar("R")

FIELDS = ", ".join(
    f"{field.name}={json.dumps(field.default)}" for field in fields(Recipe) if field.default is not MISSING
)
TRAINED = f"""Recipes of models are called MODEL-DATA. DATA is flickr8k (small data), f30k or coco (as in the papers).
MODEL is one of {", ".join(sorted({recipe.model for recipe in RECIPES.values()}))}; camp-released-fusion-f30k is a stage
between two.

A recipe's fields, for --set, with what they are unless the recipe says otherwise: {FIELDS}.

OUT gets the best weights so far (best), all that is needed to go on (last.pt), and the course of it: log.jsonl, and
tensorboard where that is installed. It stops after `patience` validations without a better sum of recalls."""


@app.command(epilog=TRAINED)
def train(
    recipe: Annotated[str, typer.Argument(help="`backbone`, `detector`, or a recipe for a matching model.")],
    out: Out,
    captions: Captions = None,
    features: Features = None,
    precomp: Precomp = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", exists=True, file_okay=False, help="Weights that it starts from; an OUT for backbone."),
    ] = None,
    word_vectors: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Vectors that words start from: GloVe's or word2vec's text."),
    ] = None,
    backbone: Annotated[Path | None, typer.Option(help="Its weights, for backbone and detector.")] = None,
    teacher: Annotated[Path | None, typer.Option(help="For the detector: YOLOX as ONNX.")] = None,
    split: Annotated[str, typer.Option(help="Split of the captions to learn from.")] = "train",
    dev: Annotated[str, typer.Option(help="Split to validate on.")] = "dev",
    regions: KeptRegions = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: name=value, repeatable.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train the detector, its backbone or a model. A run that was stopped goes on where it was."""
    if recipe in ("backbone", "detector"):
        if backbone is None or captions is None:
            raise typer.BadParameter(f"the {recipe} is trained with --captions and --backbone")
        if recipe == "backbone":
            _tune_backbone(captions, (split, dev), backbone, out, change or [], device, start)
        elif teacher is None:
            raise typer.BadParameter("the detector is trained with --teacher")
        else:
            _train_detector(captions, split, backbone, teacher, out, change or [], device)
        return
    data = [captioned(precomp, features, captions, Chosen(name, regions=regions)) for name in (split, dev)]
    _train_matcher(recipe, data, out, change or [], device, start, word_vectors)


def changed(recipe: R, changes: list[str]) -> R:
    """The recipe with fields replaced by name=value; ValueError names one that it has not, or a value that is none."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    fields = asdict(recipe)  # type: ignore[call-overload]
    values: dict[str, Any] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or name not in fields:
            raise ValueError(f"--set {change}: write name=value, with a name among {', '.join(fields)}")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        values[name] = value
    try:
        return TypeAdapter(type(recipe)).validate_python(fields | values)
    except ValidationError as problem:
        wrong = [f"{'.'.join(map(str, error['loc']))}: {error['msg']}".lstrip(": ") for error in problem.errors()]
        raise ValueError(f"--set: {'; '.join(wrong)}") from None


def _train_detector(
    captions: Path, split: str, backbone: Path, teacher: Path, out: Path, changes: list[str], device: str
) -> None:
    from models.datasets.captions import read_captions  # noqa: PLC0415
    from models.training.detector.recipe import DetectorRecipe  # noqa: PLC0415
    from models.training.detector.trainer import train_detector  # noqa: PLC0415
    from service.api.services import device_of  # noqa: PLC0415

    folder = captions.parent
    train_detector(
        changed(DetectorRecipe(), changes),
        photographs={line.image: folder / line.image for line in read_captions(captions, split)},
        backbone_file=backbone,
        teacher_file=teacher,
        out=out,
        device=device_of(device),
    )


def _tune_backbone(
    captions: Path,
    splits: tuple[str, str],
    backbone: Path,
    out: Path,
    changes: list[str],
    device: str,
    start: Path | None,
) -> None:
    from models.datasets.captions import read_captions  # noqa: PLC0415
    from models.training.backbone.recipe import BackboneRecipe  # noqa: PLC0415
    from models.training.backbone.trainer import BackboneTraining  # noqa: PLC0415
    from service.api.services import device_of  # noqa: PLC0415

    train, dev = (read_captions(captions, split) for split in splits)
    recipe = changed(BackboneRecipe(), changes)
    tuning = BackboneTraining(recipe, captions.parent, train, dev, backbone, out, device_of(device), start)
    with _course(out, tuning.total_steps) as log:
        tuning.run(log)


def _train_matcher(
    name: str,
    data: "list[CaptionedFeatures]",
    out: Path,
    changes: list[str],
    device: str,
    start: Path | None,
    word_vectors: Path | None,
) -> None:
    from models.matching.checkpoint import load_uncalibrated  # noqa: PLC0415
    from models.training.trainer import Training  # noqa: PLC0415
    from service.api.services import device_of  # noqa: PLC0415

    if name not in RECIPES:
        raise ValueError(f"no recipe is called {name}; there are backbone, detector, {', '.join(RECIPES)}")
    initial = load_uncalibrated(start) if start else None
    recipe = changed(RECIPES[name], changes)
    training = Training(recipe, data[0], data[1], out, device_of(device), initial, word_vectors)
    if word_vectors is not None:
        vocabulary = training.matcher.vocabulary
        note(f"{training.num_words_found} of {len(vocabulary)} words start from {word_vectors}")
        if recipe.near is not None:
            note(f"{len(vocabulary.near_words)} other words are read as near ones")
    with _course(out, training.total_steps) as log:
        training.run(log)


@contextmanager
def _course(out: Path, steps: int) -> "Iterator[Log]":
    """A log of what happens to files in `out`, with a progress bar."""
    from models.training.logs import open_log  # noqa: PLC0415

    with open_log(out) as log, progress() as bars:
        task = bars.add_task("training", total=steps)

        def logged(entry: dict[str, Any]) -> None:
            bars.update(task, completed=entry["step"])
            log(entry)

        yield logged
