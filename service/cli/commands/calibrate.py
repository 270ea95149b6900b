"""`regard calibrate`: what a model's scores mean, kept beside its weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli.evaluation.captioned_source import CaptionedSource, Selection, check_finite, check_fits, require_source
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
from service.cli.terminal.output import print_json, print_note, print_table, show_progress
from service.errors import UserError, user_input
from service.model_names import check_checkpoint, shipped_models, weights_folder

if TYPE_CHECKING:
    from models.datasets.captioned_features import CaptionedFeatures
    from models.evaluation.fit_calibration import CalibrationPlan
    from models.matching.matcher import Matcher

TRAINED_ON = "train"  # the split that `regard train` takes unless told otherwise


def own_folder(folder: Path) -> Path:
    """The folder, of a model of one's own; BadParameter where there is none."""
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
    bank_split: Annotated[str, typer.Option(help="Split whose captions the bank against hubs is made of.")] = "train",
    bank: Annotated[int, typer.Option(min=1, help="How many typical sentences stand for them.")] = 160,
    parts: Annotated[int, typer.Option(min=1, help="How many vectors each of them has.")] = 1,
    typical_pictures: Annotated[
        bool,
        typer.Option("--typical-pictures", help="Tell hubs among sentences by as many typical pictures of that split."),
    ] = False,
    best: Annotated[int, typer.Option(min=1, help="How many of the highest values with it count.")] = 2,
    share: Annotated[float, typer.Option(min=0, max=1, help="How much hubs are lowered; 0: not at all.")] = 0.4,
    fit_share: Annotated[
        bool, typer.Option("--fit-share", help="Lower them as much as ranks best instead, each side for itself.")
    ] = False,
    by: Annotated[
        Literal["embeddings", "scores"], typer.Option(help="What tells hubs: stage one, or the model's own scores.")
    ] = "embeddings",
    stage_one: Annotated[
        bool,
        typer.Option(
            "--stage-one", help="Lower hubs in stage one too, as much as ranks best; embeddings grow by two numbers."
        ),
    ] = False,
    fuse_stage_one: Annotated[
        bool, typer.Option("--fuse-stage-one", help="Add stage one's cosine to the score, as much as ranks best.")
    ] = False,
    short_question: Annotated[
        int,
        typer.Option(min=0, help="Questions of up to this many words, marks included, are scored by regions alone."),
    ] = 0,
    held_out: HeldOut = 0.5,
    seed: GallerySeed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a model's scores probabilities. Writes calibration.json beside its weights, which gives it a new digest."""
    source = require_source(precomp, captions, features, extractor)
    check_checkpoint(folder)
    note_trained_on(split)
    source.check(Selection(split), all_captioned=True)
    if share > 0 or fit_share or stage_one:
        source.check(Selection(bank_split))
    from models.evaluation.fit_calibration import CalibrationPlan  # noqa: PLC0415 - PyTorch comes with it
    from models.evaluation.fit_hubness import HubnessPlan  # noqa: PLC0415
    from service.model_loading import device_of  # noqa: PLC0415

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
        print_note(f"calibration.json is in {folder}; views of it are built anew")


def note_trained_on(split: str | None) -> None:
    """Notes that probabilities would be too sure, for the split that models are trained on."""
    if split == TRAINED_ON:
        print_note(
            f"the split {TRAINED_ON} is what models are trained on: fitted there, probabilities are far too sure,"
            " unless this model was trained on another"
        )


@dataclass(frozen=True)
class Bank:
    """The split that the typical sentences are made of, and whether typical pictures are made of it too."""

    split: str
    of_pictures: bool


def _calibrate(
    folder: Path, source: CaptionedSource, split: str | None, bank: Bank, plan: "CalibrationPlan", device: str
) -> dict[str, Any]:
    """Fit the calibration and save it; the report."""
    from models.evaluation.fit_calibration import calibrate as fit_calibration  # noqa: PLC0415
    from models.matching.checkpoint import load_uncalibrated, save_calibration  # noqa: PLC0415

    with show_progress() as progress:
        with progress.activity("loading the model"), user_input(folder):
            matcher = load_uncalibrated(folder, device)
        data = source.load(Selection(split))
        check_fits(matcher, data, folder)
        check_finite(data)
        with user_input():
            plan.split(len(data))  # which refuses too few pictures
        wanted = plan.hubness
        sentences = _sentences(source, bank.split) if wanted.needs_bank else []
        pictures = _pictures(source, bank, matcher, folder) if wanted.needs_bank else None
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


def _pictures(source: CaptionedSource, bank: Bank, matcher: "Matcher", folder: Path) -> "CaptionedFeatures | None":
    """The pictures that the typical ones are made of, where these are asked for."""
    if not bank.of_pictures:
        return None
    pictures = source.load(Selection(bank.split))
    check_fits(matcher, pictures, folder)
    check_finite(pictures)
    return pictures


def _check_bank(what: str, number: int, bank_size: int) -> None:
    """UserError unless there are enough sentences or pictures for a bank."""
    if number < bank_size:
        raise UserError(f"the bank is to have {bank_size} typical {what}, and there are {number}")


def _sentences(source: CaptionedSource, split: str) -> list[str]:
    """All captions of a split."""
    if source.precomp is not None:
        return source.load(Selection(split)).sentences()[0]
    assert source.captions is not None
    return [text for line in Selection(split).lines(source.captions) for text in line.captions]


def print_calibration(report: dict[str, Any]) -> None:
    """Print recall with and without hubs, then what `print_assessment` does."""
    num_fitted, num_held_out = report["pictures"]["fitted"], report["pictures"]["held_out"]
    print(f"{report['model']} {report['digest']}: fitted on {num_fitted} pictures, judged by {num_held_out} others")
    rows = [
        [f"{half}{stage}", *(f"{value:.1f}" for value in sums.values())]
        for stage, rsums in (("", report["rsum"]), (", stage one", report["rsum_of_stage_one"]))
        for half, sums in rsums.items()
    ]
    print_table("rsum", "hubs left in", "as served", rows=rows)
    left_in, served = report["rsum"]["held_out"].values()
    if served < left_in:
        print_note(
            f"the correction of hubs lowers rsum by {left_in - served:.1f} for pictures that it was not fitted on: run"
            " it again with --fit-share, which fits its strength, or with --share 0, which corrects nothing"
        )
    if report["cosine_weight"]:
        alone = ", ".join(f"{half} {value:.1f}" for half, value in report["rsum_without_stage_one"].items())
        print(
            f"stage one's cosine is added {report['cosine_weight']:.3g} times to the score; without it rsum is {alone}"
        )
    if report["short_question"]:
        print(f"questions of up to {report['short_question']} words are scored by regions alone")
    print_assessment(report)


def print_assessment(report: dict[str, Any]) -> None:
    """Print predicted and observed probabilities, and how well it is told whether anything matches."""
    for direction, what in (("text", "pictures for a sentence"), ("image", "sentences for a picture")):
        for size, result in report["held_out"][direction].items():
            first = result["first"]
            print(
                f"\n{what}, {size} pictures: calibration error {result['error']:.3f}, Brier skill"
                f" {result['brier_skill']:.2f} of {result['answers']} answers;"
                f" {first['error']:.3f}, {first['brier_skill']:.2f} of the first ones alone"
            )
            print_reliability(result["reliability"])
    for direction, what in (("text", "pictures for a sentence"), ("image", "sentences for a picture")):
        for size, result in (report["matched"][direction] or {}).items():
            print(
                f"\n{what}, {size} pictures: whether anything matches is told with an area of {result['auc']:.2f} under"
                f" the ROC curve; wrongly denied {result['present']['not_matched']:.0%}, wrongly claimed"
                f" {result['absent']['matched']:.0%}"
            )
    if (short := report["short_match"]) is not None:
        print(
            f"\npictures that show what {short['questions']} short questions ask for: calibration error"
            f" {short['error']:.3f}, Brier skill {short['brier_skill']:.2f} of {short['answers']} answers; that one is"
            f" there wrongly claimed {short['matched']['absent']['matched']:.0%}"
        )
        print_reliability(short["reliability"])


def print_reliability(rows: list[dict[str, Any]]) -> None:
    """Print predicted and observed shares of right answers."""
    cells = [
        [f"{row['from']:.1f}", f"{row['predicted']:.3f}", f"{row['observed']:.3f}", str(row["count"])] for row in rows
    ]
    print_table("from", "predicted", "observed", "answers", rows=cells)
