"""`regard calibrate`: the calibration of a model's scores, stored with its weights."""

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

TRAINED_ON = "train"  # the default split of `regard train`


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
    from models.evaluation.fit_calibration import CalibrationPlan  # noqa: PLC0415 - imports PyTorch
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
        print_note(f"calibration.json is in {folder}; views of this model are rebuilt")


def note_trained_on(split: str | None) -> None:
    """Print a note that probabilities would be overconfident, for the split that models are trained on."""
    if split == TRAINED_ON:
        print_note(
            f"models are trained on the split {TRAINED_ON}: probabilities fitted on it are overconfident, unless this"
            " model was trained on another"
        )


@dataclass(frozen=True)
class Bank:
    """The split that typical sentences are drawn from, and whether typical pictures are drawn from it, too."""

    split: str
    of_pictures: bool


def _calibrate(
    folder: Path, source: CaptionedSource, split: str | None, bank: Bank, plan: "CalibrationPlan", device: str
) -> dict[str, Any]:
    """Fit the calibration and save it. Returns the report."""
    from models.evaluation.fit_calibration import calibrate as fit_calibration  # noqa: PLC0415
    from models.matching.checkpoint import load_uncalibrated, save_calibration  # noqa: PLC0415

    with show_progress() as progress:
        with progress.activity("loading the model"), user_input(folder):
            matcher = load_uncalibrated(folder, device)
        data = source.load(Selection(split))
        check_fits(matcher, data, folder)
        check_finite(data)
        with user_input():
            plan.split(len(data))  # refuses too few pictures
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
    """The pictures that typical ones are drawn from; None unless requested."""
    if not bank.of_pictures:
        return None
    pictures = source.load(Selection(bank.split))
    check_fits(matcher, pictures, folder)
    check_finite(pictures)
    return pictures


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


def print_calibration(report: dict[str, Any]) -> None:
    """Print recall with and without the correction of hubs, then the assessment."""
    num_fitted, num_held_out = report["pictures"]["fitted"], report["pictures"]["held_out"]
    print(f"{report['model']} {report['digest']}: fitted on {num_fitted} pictures, judged by {num_held_out} others")
    rows = [
        [f"{half}{stage}", *(f"{value:.1f}" for value in sums.values())]
        for stage, rsums in (("", report["rsum"]), (", stage one", report["rsum_of_stage_one"]))
        for half, sums in rsums.items()
    ]
    print_table("rsum", "uncorrected", "as served", rows=rows)
    uncorrected, served = report["rsum"]["held_out"].values()
    if served < uncorrected:
        print_note(
            f"the correction of hubs lowers rsum by {uncorrected - served:.1f} for held-out pictures: run it again with"
            " --fit-share, which fits its strength, or with --share 0, which turns it off"
        )
    if report["cosine_weight"]:
        alone = ", ".join(f"{half} {value:.1f}" for half, value in report["rsum_without_stage_one"].items())
        print(
            f"stage one's cosine is added to the score with weight {report['cosine_weight']:.3g}; without it rsum is"
            f" {alone}"
        )
    if report["short_question"]:
        print(f"questions of up to {report['short_question']} tokens are scored by regions alone")
    print_assessment(report)


def print_assessment(report: dict[str, Any]) -> None:
    """Print predicted and observed probabilities, and how well the test whether anything matches works."""
    for direction, what in (("text", "pictures for a sentence"), ("image", "sentences for a picture")):
        for size, result in report["held_out"][direction].items():
            first = result["first"]
            print(
                f"\n{what}, {size} pictures: calibration error {result['error']:.3f}, Brier skill"
                f" {result['brier_skill']:.2f} of {result['answers']} answers;"
                f" {first['error']:.3f}, {first['brier_skill']:.2f} of the first results alone"
            )
            print_reliability(result["reliability"])
    for direction, what in (("text", "pictures for a sentence"), ("image", "sentences for a picture")):
        for size, result in (report["matched"][direction] or {}).items():
            print(
                f"\n{what}, {size} pictures: the test whether anything matches has an area of {result['auc']:.2f} under"
                f" the ROC curve, {result['present']['not_matched']:.0%} false negatives,"
                f" {result['absent']['matched']:.0%} false positives"
            )
    if (short := report["short_match"]) is not None:
        print(
            f"\npictures that show what {short['questions']} short questions ask for: calibration error"
            f" {short['error']:.3f}, Brier skill {short['brier_skill']:.2f} of {short['answers']} answers;"
            f" {short['matched']['absent']['matched']:.0%} false positives"
        )
        print_reliability(short["reliability"])


def print_reliability(rows: list[dict[str, Any]]) -> None:
    """Print a table of predicted and observed shares of right answers."""
    cells = [
        [f"{row['from']:.1f}", f"{row['predicted']:.3f}", f"{row['observed']:.3f}", str(row["count"])] for row in rows
    ]
    print_table("from", "predicted", "observed", "answers", rows=cells)
