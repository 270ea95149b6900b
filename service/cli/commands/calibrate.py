"""`regard calibrate`: the calibration of a model's scores, stored with its weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli.evaluation.calibration_report import note_trained_on, print_calibration
from service.cli.evaluation.captioned_source import CaptionedSource, Selection, load_fitting, require_source
from service.cli.options import (
    AsJson,
    CalibrationSplit,
    CaptionsFile,
    Device,
    FeaturesFolder,
    GallerySeed,
    HeldOut,
    PrecompExtractor,
    PrecompFolder,
)
from service.cli.terminal.output import print_json, print_note, show_progress
from service.errors import UserError, user_input
from service.model_names import check_checkpoint, shipped_models, weights_folder

if TYPE_CHECKING:
    from models.evaluation.fit_calibration import CalibrationPlan


def own_folder(folder: Path) -> Path:
    """The folder; BadParameter unless it exists, and for the name of a shipped model."""
    if folder.is_dir():
        return folder
    if (name := str(folder)) in shipped_models():
        raise typer.BadParameter(f"{name} comes with Regard: copy {weights_folder(name)} and name the copy")
    raise typer.BadParameter(f"{name} is no folder")


def calibrate(
    folder: Annotated[Path, typer.Argument(callback=own_folder, help="Folder of a model.")],
    features: FeaturesFolder = None,
    captions: CaptionsFile = None,
    precomp: PrecompFolder = None,
    extractor: PrecompExtractor = None,
    split: CalibrationSplit = "dev",
    bank_split: Annotated[str, typer.Option(help="Split from whose captions the bank of sentences is made.")] = "train",
    bank: Annotated[int, typer.Option(min=1, help="Typical sentences in the bank that reveals hubs.")] = 160,
    parts: Annotated[int, typer.Option(min=1, help="Vectors of each typical sentence.")] = 1,
    typical_pictures: Annotated[
        bool,
        typer.Option("--typical-pictures", help="Find hubs among sentences by as many typical pictures of that split."),
    ] = False,
    best: Annotated[int, typer.Option(min=1, help="The number of highest similarities to the bank that count.")] = 2,
    share: Annotated[float, typer.Option(min=0, max=1, help="Strength of the correction of hubs; 0: none.")] = 0.4,
    fit_share: Annotated[
        bool, typer.Option("--fit-share", help="Fit the strength instead, separately for pictures and sentences.")
    ] = False,
    by: Annotated[
        Literal["embeddings", "scores"],
        typer.Option(help="Similarity that finds hubs: of stage one's embeddings, or the model's scores."),
    ] = "embeddings",
    stage_one: Annotated[
        bool,
        typer.Option(
            "--stage-one", help="Correct hubs in stage one too, with fitted strength; embeddings grow by two numbers."
        ),
    ] = False,
    fuse_stage_one: Annotated[
        bool, typer.Option("--fuse-stage-one", help="Add stage one's cosine to the score, with a fitted weight.")
    ] = False,
    short_question: Annotated[
        int,
        typer.Option(min=0, help="Score questions of up to this many tokens by regions alone."),
    ] = 0,
    held_out: HeldOut = 0.5,
    seed: GallerySeed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Turn a model's scores into probabilities. Writes calibration.json to its folder, which changes its digest."""
    source = require_source(precomp, captions, features, extractor)
    check_checkpoint(folder)
    note_trained_on(split)
    source.check(Selection(split), all_captioned=True)
    if share > 0 or fit_share or stage_one:
        source.check(Selection(bank_split))
    from models.evaluation.fit_calibration import CalibrationPlan
    from models.evaluation.fit_hubness import HubnessPlan
    from service.model_loading import device_of

    hubness = HubnessPlan(
        share=share,
        fit_share=fit_share,
        similarity=by,
        neighbours=best,
        bank_size=bank,
        parts=parts,
        stage_one=stage_one,
    )
    plan = CalibrationPlan(
        hubness=hubness, fuse_stage_one=fuse_stage_one, short_question=short_question, held_out=held_out, seed=seed
    )
    report = _calibrate(folder, source, split, Bank(bank_split, typical_pictures), plan, device_of(device))
    if as_json:
        print_json(report)
    else:
        print_calibration(report)
        print_note(f"calibration.json is in {folder}; views of this model are rebuilt")


@dataclass(frozen=True)
class Bank:
    """The split that typical sentences are drawn from, and whether typical pictures are drawn from it, too."""

    split: str
    of_pictures: bool


def _calibrate(
    folder: Path, source: CaptionedSource, split: str | None, bank: Bank, plan: "CalibrationPlan", device: str
) -> dict[str, Any]:
    """Fit the calibration and save it. Returns the report."""
    from models.evaluation.fit_calibration import calibrate as fit_calibration
    from models.matching.checkpoint import load_uncalibrated, save_calibration

    with show_progress() as progress:
        with progress.activity("loading the model"), user_input(folder):
            matcher = load_uncalibrated(folder, device)
        data = load_fitting(source, split, matcher, folder)
        with user_input():
            plan.split(len(data))  # refuses too few pictures
        wanted = plan.hubness
        sentences = _sentences(source, bank.split) if wanted.needs_bank else []
        has_pictures = wanted.needs_bank and bank.of_pictures
        pictures = load_fitting(source, bank.split, matcher, folder) if has_pictures else None
        if wanted.needs_bank:
            _check_bank("sentences", len(sentences), wanted.bank_size)
        if pictures is not None:
            _check_bank("pictures", len(pictures), wanted.bank_size)
        by_scores = wanted.corrects_scores and wanted.similarity == "scores"
        if by_scores and pictures is None and not matcher.reranker.projects:
            raise UserError(
                f"{folder} does not encode regions as it encodes words: find hubs with --by embeddings, or with"
                " --typical-pictures"
            )
        with progress.activity("calibrating"):
            calibration, banks, report = fit_calibration(matcher, data, sentences, plan, pictures, progress.report)
    report["digest"] = save_calibration(folder, calibration, banks)
    return report


def _check_bank(what: str, number: int, bank_size: int) -> None:
    """UserError unless there are enough sentences or pictures for a bank."""
    if number < bank_size:
        raise UserError(f"the bank needs {bank_size} typical {what}, but there are only {number}")


def _sentences(source: CaptionedSource, split: str) -> list[str]:
    """All captions of a split."""
    if source.precomp is not None:
        return source.load(Selection(split)).sentences()[0]
    assert source.captions is not None
    return [text for line in Selection(split).lines(source.captions) for text in line.captions]
