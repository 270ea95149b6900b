"""`regard calibrate-ensemble`: the calibration of an ensemble's mean score, stored with the last member's weights."""

from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.evaluation.calibration_report import note_trained_on, print_assessment, print_sizes
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
from service.model_names import check_checkpoint, ensemble_members, shipped_models, weights_folder


def calibrate_ensemble(
    model: Annotated[str, typer.Argument(help="Models joined by +: shipped names or folders; the last is a folder.")],
    features: FeaturesFolder = None,
    captions: CaptionsFile = None,
    precomp: PrecompFolder = None,
    extractor: PrecompExtractor = None,
    split: CalibrationSplit = "dev",
    held_out: HeldOut = 0.5,
    seed: GallerySeed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Turn an ensemble's scores into probabilities. Writes ensembles.json to the last member's folder."""
    source = require_source(precomp, captions, features, extractor)
    members = ensemble_members(model)
    if not members:
        raise UserError(f"{model} is no ensemble: name two or more models joined by +")
    for member in members:
        check_checkpoint(weights_folder(member))
    if (last := members[-1]) in shipped_models() and not Path(last).is_dir():
        raise UserError(
            f"the calibration would be stored with the weights of {last}, which come with Regard: copy"
            f" {weights_folder(last)} and name the copy as the last member"
        )
    note_trained_on(split)
    source.check(Selection(split), all_captioned=True)
    report = _calibrate(model, members, source, split, held_out, seed, device)
    if as_json:
        print_json(report)
    else:
        print_sizes(model, report)
        print_assessment(report)
        print_note(f"ensembles.json is in {weights_folder(members[-1])}; the ensemble's view is rebuilt")


def _calibrate(
    model: str,
    members: list[str],
    source: CaptionedSource,
    split: str | None,
    held_out: float,
    seed: int,
    device: str,
) -> dict[str, Any]:
    """Fit the calibration and save it. Returns the report."""
    from models.evaluation.fit_calibration import CalibrationPlan
    from models.evaluation.fit_calibration import calibrate_ensemble as fit_calibration
    from models.matching.checkpoint import load_matcher
    from models.matching.ensemble import build_ensemble, ensemble_header
    from models.matching.ensemble_calibrations import save_ensemble_calibration
    from models.matching.lazy_matcher import MatcherHeader
    from service.model_loading import device_of

    plan = CalibrationPlan(held_out=held_out, seed=seed)
    with show_progress() as progress:
        with progress.activity("loading the models"), user_input():
            loaded = [load_matcher(weights_folder(member), device_of(device)) for member in members]
            matcher = build_ensemble(loaded)
        data = load_fitting(source, split, matcher, model)
        with user_input():
            plan.split(len(data))  # refuses too few pictures
        with progress.activity("calibrating"):
            calibration, report = fit_calibration(matcher, data, plan, progress.report)
    save_ensemble_calibration(weights_folder(members[-1]), [one.digest for one in loaded], calibration)
    report["digest"] = ensemble_header([MatcherHeader.of(one) for one in loaded], calibration).digest
    return report
