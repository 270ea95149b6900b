"""`regard train`."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from models.datasets.captions import read_captions
from models.freed_memory import keep_freed_memory
from models.training.recipes import RECIPES, Recipe
from service.cli.captioned_source import CaptionedSource, Selection, require_source
from service.cli.options import (
    CaptionsFile,
    Device,
    FeaturesFolder,
    NumRegions,
    OutFolder,
    PrecompExtractor,
    PrecompFolder,
)
from service.cli.out_folder import sole_writer
from service.cli.output import Progress, print_note, show_progress
from service.errors import UserError, user_input
from service.model_names import check_checkpoint
from service.validation_messages import plain_message

if TYPE_CHECKING:
    from models.training.logs import Log

R = TypeVar("R")
PARTS = ("backbone", "head", "detector")

FIELDS = ", ".join(
    f"{field.name}={json.dumps(field.default)}" for field in fields(Recipe) if field.default is not MISSING
)
EPILOG = f"""Recipes of models are called MODEL-DATA. DATA is flickr8k (small data), f30k or coco (as in the papers):
{", ".join(sorted(RECIPES))}.

Of backbone, head and detector the photographs are looked for in the folder of the captions file.

A recipe's fields, for --set, with what they are unless the recipe says otherwise: {FIELDS}.

OUT gets the best weights so far (best), all that is needed to go on (last.pt), and the course of it: log.jsonl, and
tensorboard where that is installed. It stops after `patience` validations without a better sum of recalls."""


def train(
    recipe: Annotated[str, typer.Argument(help="`backbone`, `head`, `detector`, or a recipe for a matching model.")],
    out: OutFolder,
    captions: CaptionsFile = None,
    features: FeaturesFolder = None,
    precomp: PrecompFolder = None,
    extractor: PrecompExtractor = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            exists=True,
            file_okay=False,
            help="What it starts from: weights, a detector, an OUT for backbone.",
        ),
    ] = None,
    word_vectors: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Vectors that words start from: GloVe's or word2vec's text."),
    ] = None,
    backbone: Annotated[Path | None, typer.Option(help="Its weights, for backbone, head and detector.")] = None,
    sentence_encoder: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="For backbone and head: MiniLM's folder, whose vectors they learn."
        ),
    ] = None,
    teacher: Annotated[
        list[Path] | None,
        typer.Option(
            help="For the detector: YOLOX (.onnx) or SSD-MobileNetV2 (.pb); with two, labels are merged. For the head:"
            " the backbone as published."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the captions to learn from.")] = "train",
    dev: Annotated[str, typer.Option(help="Split to validate on.")] = "dev",
    regions: NumRegions = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: name=value, repeatable.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train the detector, its backbone or head, or a model.

    A run that was stopped goes on where it was; that of the head begins anew.
    """
    changes = change or []
    if recipe not in (*PARTS, *RECIPES):
        raise UserError(f"no recipe is called {recipe}{_among(recipe, (*PARTS, *RECIPES))}")
    keep_freed_memory()
    of_parts = {"--backbone": backbone, "--sentence-encoder": sentence_encoder, "--teacher": teacher}
    of_models: dict[str, Any] = {
        "--extractor": extractor,
        "--features": features,
        "--precomp": precomp,
        "--word-vectors": word_vectors,
        "--regions": regions,
    }
    _refuse_others(recipe, of_models if recipe in PARTS else of_parts)
    if recipe not in PARTS:
        selections = Selection(split, regions=regions), Selection(dev, regions=regions)
        source = require_source(precomp, captions, features, extractor)
        _train_matcher(recipe, source, selections, out, changes, device, start, word_vectors)
        return
    if backbone is None or captions is None:
        raise typer.BadParameter(f"the {recipe} is trained with --captions and --backbone")
    _check_file(backbone)
    if recipe == "backbone":
        _refuse_others(recipe, {"--teacher": teacher})
        _tune_backbone(captions, (split, dev), backbone, sentence_encoder, out, changes, device, start)
        return
    if not teacher:
        raise typer.BadParameter(f"the {recipe} is trained with --teacher")
    for file in teacher:
        _check_file(file)
    if recipe == "head":
        _refuse_others(recipe, {"--from": start})
        if sentence_encoder is None or len(teacher) > 1:
            raise typer.BadParameter("the head is trained with --sentence-encoder and one --teacher")
        _fit_head(captions, (split, dev), backbone, teacher[0], sentence_encoder, out, changes, device)
    else:
        _refuse_others(recipe, {"--sentence-encoder": sentence_encoder})
        _train_detector(captions, split, backbone, teacher, out, changes, device, start)


def _refuse_others(recipe: str, options: dict[str, Any]) -> None:
    """typer.BadParameter names an option, among those that the recipe does not read, that was given."""
    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"{name} is not read by {recipe}: leave it out")


def _among(name: str, known: Iterable[str]) -> str:
    """Advice on a name that is not known: the nearest one that is, or else all of them."""
    near = get_close_matches(name, known := list(known), n=1, cutoff=0.7)
    return f": did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"


def change_recipe(recipe: R, changes: list[str]) -> R:
    """The recipe with fields replaced by name=value; UserError names one that it has not, or a value that is none."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    fields = asdict(recipe)  # type: ignore[call-overload]
    values: dict[str, Any] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or name not in fields:
            raise UserError(f"--set {change}: write name=value, with a name of the recipe{_among(name, fields)}")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        values[name] = value
    try:
        return TypeAdapter(type(recipe)).validate_python(fields | values)
    except ValidationError as problem:
        wrong = [
            f"{'.'.join(map(str, error['loc']))}: {plain_message(error)}".lstrip(": ") for error in problem.errors()
        ]
        raise UserError(f"--set: {'; '.join(wrong)}") from None


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"there is no file {path}")


def _train_detector(
    captions: Path,
    split: str,
    backbone: Path,
    teachers: list[Path],
    out: Path,
    changes: list[str],
    device: str,
    start: Path | None,
) -> None:
    folder = captions.parent.resolve()
    with user_input(captions):
        photographs = {line.image: folder / line.image for line in read_captions(captions, split)}
    from models.training.detector.recipe import DetectorRecipe  # noqa: PLC0415 - PyTorch comes with it
    from models.training.detector.trainer import open_labeler, train_detector, untrained_detector  # noqa: PLC0415
    from service.model_loading import device_of  # noqa: PLC0415

    recipe = change_recipe(DetectorRecipe(starts_from=str(start) if start else None), changes)
    with user_input(backbone):
        untrained_detector(recipe, backbone)  # once more later; here it refuses other files
    with user_input():
        for teacher in teachers:
            open_labeler(teacher, threads=1)  # likewise
    with sole_writer(out):
        train_detector(
            recipe,
            photographs=photographs,
            backbone_file=backbone,
            teacher_file=teachers[0],
            other_teachers=teachers[1:],
            out=out,
            device=device_of(device),
        )


def _tune_backbone(
    captions: Path,
    splits: tuple[str, str],
    backbone: Path,
    sentence_encoder: Path | None,
    out: Path,
    changes: list[str],
    device: str,
    start: Path | None,
) -> None:
    with user_input(captions):
        train, dev = (read_captions(captions, split) for split in splits)
    from models.training.backbone.recipe import BackboneRecipe  # noqa: PLC0415 - PyTorch comes with it
    from models.training.backbone.sentence_tuning import SentenceTuning, SentenceTuningRecipe  # noqa: PLC0415
    from models.training.backbone.trainer import BackboneTraining  # noqa: PLC0415
    from service.model_loading import device_of  # noqa: PLC0415

    training: BackboneTraining | SentenceTuning
    place, folder = device_of(device), captions.parent.resolve()
    with sole_writer(out):
        if sentence_encoder is None:
            recipe = change_recipe(BackboneRecipe(), changes)
            with user_input():
                training = BackboneTraining(recipe, folder, train, dev, backbone, out, place, start)
        else:
            from models.text.bert_encoder import load_bert_encoder  # noqa: PLC0415

            tuning = change_recipe(SentenceTuningRecipe(), changes)
            with user_input():
                encoder = load_bert_encoder(sentence_encoder)
                training = SentenceTuning(tuning, folder, train, dev, backbone, encoder, out, place, start)
        with show_progress() as progress, _log_with_progress(out, training.total_steps, progress) as log:
            training.run(log)


def _fit_head(
    captions: Path,
    splits: tuple[str, str],
    backbone: Path,
    published: Path,
    sentence_encoder: Path,
    out: Path,
    changes: list[str],
    device: str,
) -> None:
    with user_input(captions):
        train, dev = (read_captions(captions, split) for split in splits)
    from models.text.bert_encoder import load_bert_encoder  # noqa: PLC0415 - PyTorch comes with it
    from models.training.backbone.head_fitting import HeadFitting, HeadRecipe  # noqa: PLC0415
    from service.model_loading import device_of  # noqa: PLC0415

    recipe = change_recipe(HeadRecipe(), changes)
    with sole_writer(out, goes_on=False):
        with user_input():
            encoder, place = load_bert_encoder(sentence_encoder), device_of(device)
            fitting = HeadFitting(
                recipe, captions.parent.resolve(), train, dev, backbone, published, encoder, out, place
            )
        with show_progress() as progress, _log_with_progress(out, fitting.total_steps, progress) as log:
            fitting.run(log)


def _train_matcher(
    name: str,
    source: CaptionedSource,
    selections: tuple[Selection, Selection],
    out: Path,
    changes: list[str],
    device: str,
    start: Path | None,
    word_vectors: Path | None,
) -> None:
    recipe = _check_recipe(name, changes, start, word_vectors)
    source.check(selections[0])
    source.check(selections[1], all_captioned=True)
    from models.matching.checkpoint import load_uncalibrated  # noqa: PLC0415 - PyTorch comes with it
    from models.training.trainer import BEST_FOLDER, Training  # noqa: PLC0415
    from service.model_loading import device_of  # noqa: PLC0415

    train, dev = (source.load(selection) for selection in selections)
    if bare := sum(not own for own in train.captions):
        print_note(f"{bare} of {len(train)} pictures to learn from have no caption, and are left out")
    if train.feature_dim != dev.feature_dim:
        raise UserError(f"the features to learn from have {train.feature_dim} numbers, those of dev {dev.feature_dim}")
    with sole_writer(out):
        with user_input():
            initial = load_uncalibrated(start) if start else None
            training = Training(recipe, train, dev, out, device_of(device), initial, word_vectors)
        if word_vectors is not None:
            vocabulary = training.matcher.vocabulary
            print_note(f"{training.num_words_found} of {len(vocabulary)} words start from {word_vectors}")
            if recipe.near is not None:
                print_note(f"{len(vocabulary.near_words)} other words are read as near ones")
        with user_input(out):
            training.resume()
        if training.is_finished:
            if not (out / BEST_FOLDER).is_dir():
                raise UserError(f"the training in {out} is finished, and its weights are gone: name another folder")
            print_note(f"the training in {out} was finished before; give another folder to train anew")
        else:
            with show_progress() as progress, _log_with_progress(out, training.total_steps, progress) as log:
                training.run(log, partial(_report_validation, progress))
    rsum, num_dev = training.early_stopping.best_rsum, min(len(dev), recipe.validate_images)
    print(
        f"{out / BEST_FOLDER}: rsum {rsum:.1f} on {num_dev} dev pictures, the best of {training.step} of at most"
        f" {training.total_steps} steps; measure it with `regard evaluate --model {out / BEST_FOLDER}`"
    )


def _check_recipe(name: str, changes: list[str], start: Path | None, word_vectors: Path | None) -> Recipe:
    """The recipe of that name with its changes. UserError where it lacks what it starts from."""
    recipe = change_recipe(RECIPES[name], changes)
    if start is not None:
        check_checkpoint(start)
    if (recipe.starts_from is None) != (start is None):
        what = f"the weights of {recipe.starts_from}, give them" if recipe.starts_from else "random weights, give none"
        raise UserError(f"the recipe {name} starts from {what} with --from")
    if recipe.near is not None and recipe.starts_from is None and word_vectors is None:
        raise UserError(f"the recipe {name} reads unknown words as near ones: give --word-vectors")
    return recipe


def _report_validation(progress: Progress, what: str, done: int, total: int) -> None:
    progress.report(f"validating: {what}", done, total)


@contextmanager
def _log_with_progress(out: Path, steps: int, progress: Progress) -> "Iterator[Log]":
    """A log that writes to files in `out` and moves a progress bar."""
    from models.training.logs import open_log  # noqa: PLC0415

    with open_log(out) as log:
        task = progress.add_task("training", steps)

        def log_and_show(entry: dict[str, Any]) -> None:
            task.update(entry["step"])
            log(entry)

        yield log_and_show
