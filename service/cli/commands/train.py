"""`regard train`."""

import copy
import json
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

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

_GIVEN = "--captions captions.jsonl --backbone"
_TRAININGS = {
    "RECIPE": "a matching model, on features of `regard extract`\n"
    "    regard train RECIPE --features features --captions captions.jsonl --out run",
    "backbone": "the network that a detector reads pictures with; without --sentence-encoder, by a model's loss\n"
    f"    regard train backbone {_GIVEN} published.pth --sentence-encoder MINILM --out tuned",
    "head": "what makes sentence vectors and classes of a finished backbone's; a stopped run starts again\n"
    f"    regard train head {_GIVEN} tuned/backbone.safetensors --teacher published.pth \\\n"
    "      --sentence-encoder MINILM --out head",
    "detector": "a detector on a finished backbone, from what other detectors find\n"
    f"    regard train detector {_GIVEN} tuned/backbone.safetensors --teacher yolox_nano.onnx \\\n"
    "      --set backbone=efficientnet-lite2 --out run",
}
TRAIN_EPILOG = f"""The four trainings:

\b
{chr(10).join(_TRAININGS.values())}

Recipes of models are called MODEL-DATA. DATA begins with flickr8k (small data), f30k or coco (as in the papers):

\b
{fill(", ".join(sorted(RECIPES)), 76, break_on_hyphens=False)}

OUT gets the best weights so far (best), the state to resume from (last.pt), the recipe and inputs (recipe.json), and
logs: log.jsonl, and tensorboard if that is installed. Training stops after `patience` validations without a better sum
of recalls."""


class TrainCommand(TyperCommand):
    """`regard train`, whose help after the name of a training is that of this training alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[__name__] = args[0] if args else ""
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        name, shown = ctx.meta[__name__], copy.copy(self)
        kind = "RECIPE" if name in RECIPES else name
        if kind in _TRAININGS:
            shown.help = f"\b\nTrain {_TRAININGS[kind].replace('RECIPE', name)}"
            read = (*OPTIONS_OF_RECIPES, *OPTIONS_OF_PARTS.get(kind, OPTIONS_OF_MODELS), "recipe", "help")
            shown.params = [one for one in self.params if one.name in read]
            shown.epilog = "Photographs are read from the captions' folder. All steps: docs/extractors.md."
        if name in RECIPES:
            fields = ", ".join(f"{field}={json.dumps(value)}" for field, value in asdict(RECIPES[name]).items())
            shown.epilog = f"The fields of {name}, for --set: {fields}."
        TyperCommand.format_help(shown, ctx, formatter)


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
            help="Start from this: weights, a detector, or OUT of another backbone training.",
        ),
    ] = None,
    word_vectors: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Initial word vectors, in GloVe's or word2vec's text format."),
    ] = None,
    backbone: Annotated[
        Path | None, typer.Option(help="For backbone, head and detector: weights of the backbone.")
    ] = None,
    sentence_encoder: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="For backbone and head: folder of MiniLM, whose vectors they learn."
        ),
    ] = None,
    teacher: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="<file>",
            help="For the detector: YOLOX (.onnx) or SSD-MobileNetV2 (.pb); with two, labels are merged. For the head:"
            " the published backbone.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the captions to learn from.")] = "train",
    dev: Annotated[str, typer.Option(help="Split to validate on.")] = "dev",
    regions: NumRegions = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="<name=value>", help="Change the recipe; repeatable.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a matching model, or a part of a detector.

    With --help after `backbone`, `head`, `detector` or a recipe: what it needs. After Ctrl-C, the same command resumes.
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
    from service.cli.training.matching_model import train_matcher

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
    """Check that the options needed are given, then train the detector, its backbone or head."""
    example = f"(regard train {part} --help)"
    if backbone is None or captions is None:
        raise typer.BadParameter(f"the {part} is trained with --captions and --backbone {example}")
    if part != "backbone" and not teachers:
        raise typer.BadParameter(f"the {part} is trained with --teacher {example}")
    for file in (backbone, *teachers):
        _check_file(file)
    if part == "head" and (sentence_encoder is None or len(teachers) > 1):
        raise typer.BadParameter(f"the head is trained with --sentence-encoder and one --teacher {example}")
    photographs = read_photographs(captions, splits[0], None if part == "detector" else splits[1])
    from service.cli.training.detector_parts import fit_head, train_detector, tune_backbone

    if part == "backbone":
        tune_backbone(run, photographs, backbone, sentence_encoder)
    elif sentence_encoder is not None:  # only the head reads it
        fit_head(run, photographs, backbone, teachers[0], sentence_encoder)
    else:
        train_detector(run, photographs, backbone, teachers)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"{path} is not a file" if path.exists() else f"there is no file {path}")


def _check_recipe(name: str, run: TrainingRun, word_vectors: Path | None) -> Recipe:
    """The recipe of that name with its changes. UserError unless the given weights are what it starts from."""
    recipe = change_recipe(RECIPES[name], run.changes)
    if recipe.starts_from is not None and recipe.starts_from not in RECIPES:
        advice = advice_on_name(recipe.starts_from, RECIPES)
        raise UserError(f"--set starts_from={recipe.starts_from}: no recipe of a model has this name{advice}")
    for field in recipe.set_aside:
        if getattr(recipe, field) != getattr(RECIPES[name], field):
            raise UserError(f"--set {field}: other fields of this recipe make it have no effect: leave it out")
    if run.start is not None:
        check_checkpoint(run.start)
    if (recipe.starts_from is None) != (run.start is None):
        what = f"the weights of {recipe.starts_from}: give them with --from"
        if recipe.starts_from is None:
            what = f"random weights: leave --from out, or name the recipe of its weights: --set starts_from={name}"
        raise UserError(f"the recipe {name} starts from {what}")
    if recipe.near is not None and word_vectors is None:
        raise UserError(f"the recipe {name} replaces unknown words by similar ones: give --word-vectors")
    return recipe
