"""`regard train`."""

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated

import typer

from models.freed_memory import keep_freed_memory
from models.training.recipes import RECIPES, Recipe
from service.cli.evaluation.captioned_source import Selection, require_source
from service.cli.options import (
    CaptionsFile,
    Device,
    FeaturesFolder,
    NumRegions,
    OutFolder,
    PrecompExtractor,
    PrecompFolder,
    refuse_unread,
)
from service.cli.training.recipe_changes import advice_on_name, change_recipe
from service.cli.training.run import TrainingRun, read_photographs
from service.errors import UserError
from service.model_names import check_checkpoint

OPTIONS_OF_RECIPES = ("out", "captions", "split", "dev", "change", "device")
OPTIONS_OF_MODELS = ("start", "features", "precomp", "extractor", "word_vectors", "regions")
OPTIONS_OF_PARTS = {
    "backbone": ("start", "backbone", "sentence_encoder"),
    "head": ("backbone", "sentence_encoder", "teacher"),
    "detector": ("start", "backbone", "teacher"),
}

FIELDS = ", ".join(
    f"{field.name}={json.dumps(field.default)}" for field in fields(Recipe) if field.default is not MISSING
)
EPILOG = f"""Recipes of models are called MODEL-DATA. DATA is flickr8k (small data), f30k or coco (as in the papers):
{", ".join(sorted(RECIPES))}.

Of backbone, head and detector the photographs are looked for in the folder of the captions file.

A recipe's fields, for --set, with what they are unless the recipe says otherwise: {FIELDS}.

OUT gets the best weights so far (best), all that is needed to go on (last.pt), what it is of (recipe.json), and the
course of it: log.jsonl, and tensorboard where that is installed. It stops after `patience` validations without a better
sum of recalls."""


def train(
    context: typer.Context,
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
    if recipe not in (*OPTIONS_OF_PARTS, *RECIPES):
        raise UserError(f"no recipe is called {recipe}{advice_on_name(recipe, (*OPTIONS_OF_PARTS, *RECIPES))}")
    refuse_unread(context, recipe, OPTIONS_OF_RECIPES + OPTIONS_OF_PARTS.get(recipe, OPTIONS_OF_MODELS))
    keep_freed_memory()
    run = TrainingRun(out, change or [], device, start, recipe)
    if recipe in OPTIONS_OF_PARTS:
        _train_part(recipe, run, captions, (split, dev), backbone, sentence_encoder, teacher or [])
        return
    selections = Selection(split, regions=regions), Selection(dev, regions=regions)
    source = require_source(precomp, captions, features, extractor)
    changed = _check_recipe(recipe, run, word_vectors)
    source.check(selections[0])
    source.check(selections[1], all_captioned=True)
    from service.cli.training.matching_model import train_matcher  # noqa: PLC0415 - PyTorch comes with it

    train_matcher(run, changed, source, selections, word_vectors)


def _train_part(
    part: str,
    run: TrainingRun,
    captions: Path | None,
    splits: tuple[str, str],
    backbone: Path | None,
    sentence_encoder: Path | None,
    teachers: list[Path],
) -> None:
    """Train the detector, its backbone or head, once all that it needs is given."""
    if backbone is None or captions is None:
        raise typer.BadParameter(f"the {part} is trained with --captions and --backbone")
    if part != "backbone" and not teachers:
        raise typer.BadParameter(f"the {part} is trained with --teacher")
    for file in (backbone, *teachers):
        _check_file(file)
    if part == "head" and (sentence_encoder is None or len(teachers) > 1):
        raise typer.BadParameter("the head is trained with --sentence-encoder and one --teacher")
    photographs = read_photographs(captions, splits[0], None if part == "detector" else splits[1])
    from service.cli.training.detector_parts import fit_head, train_detector, tune_backbone  # noqa: PLC0415 - likewise

    if part == "backbone":
        tune_backbone(run, photographs, backbone, sentence_encoder)
    elif sentence_encoder is not None:  # the detector reads none
        fit_head(run, photographs, backbone, teachers[0], sentence_encoder)
    else:
        train_detector(run, photographs, backbone, teachers)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"{path} is no file" if path.exists() else f"there is no file {path}")


def _check_recipe(name: str, run: TrainingRun, word_vectors: Path | None) -> Recipe:
    """The recipe of that name with its changes. UserError where it lacks what it starts from."""
    recipe = change_recipe(RECIPES[name], run.changes)
    if recipe.starts_from is not None and recipe.starts_from not in RECIPES:
        advice = advice_on_name(recipe.starts_from, RECIPES)
        raise UserError(f"--set starts_from={recipe.starts_from}: no recipe of a model is called so{advice}")
    for field in recipe.set_aside:
        if getattr(recipe, field) != getattr(RECIPES[name], field):
            raise UserError(f"--set {field}: it changes nothing in this recipe, as its other fields are: leave it out")
    if run.start is not None:
        check_checkpoint(run.start)
    if (recipe.starts_from is None) != (run.start is None):
        what = f"the weights of {recipe.starts_from}, give them with --from"
        if recipe.starts_from is None:
            what = f"random weights: leave --from out, or add --set starts_from={name}, or of what recipe they are"
        raise UserError(f"the recipe {name} starts from {what}")
    if recipe.near is not None and word_vectors is None:
        raise UserError(f"the recipe {name} reads unknown words as near ones: give --word-vectors")
    return recipe
