"""`regard evaluate`: recall of a model on captioned pictures."""

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli.evaluation.boxed_measurements import BoxedMeasurements, measure_with_boxes, print_measured
from service.cli.evaluation.captioned_source import (
    PRECOMP_SPLIT,
    CaptionedSource,
    Selection,
    check_finite,
    check_fits,
    check_reads,
    note_few,
    note_splits,
    refuse_beside_precomp,
)
from service.cli.evaluation.recall_options import RecallOptions
from service.cli.evaluation.recall_tables import print_recalls
from service.cli.feature_extraction import extract_with_progress, load_detector
from service.cli.options import (
    AsJson,
    CaptionsFile,
    DetectorFolder,
    Device,
    FeaturesFolder,
    NumRegions,
    PrecompExtractor,
    PrecompFolder,
)
from service.cli.settings_options import read_settings
from service.cli.terminal.output import Progress, print_json, show_progress
from service.errors import UserError
from service.model_names import check_detector, check_models

if TYPE_CHECKING:
    from models.extractors.base import Extractor
    from models.matching.matcher import Matcher


def evaluate(
    images: Annotated[Path | None, typer.Option(exists=True, file_okay=False, help="Folder of pictures.")] = None,
    captions: CaptionsFile = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A shipped model, the folder of one, or several joined by + (their mean); the default if not given."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Another such model: print its recalls, too, and intervals of the differences.")
    ] = None,
    ranks: Annotated[Path | None, typer.Option(help="Where to write the rank of each question's answer, .npz.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of the captions; if not given, all, or `test` of --precomp.")
    ] = None,
    features: FeaturesFolder = None,
    precomp: PrecompFolder = None,
    extractor: PrecompExtractor = None,
    first: Annotated[int | None, typer.Option(min=1, help="Only the first pictures of the split, this many.")] = None,
    part: Annotated[
        Literal["first", "second"] | None,
        typer.Option(help="Only that half of the split's pictures, as a gallery of its own."),
    ] = None,
    gallery: Annotated[
        list[str] | None,
        typer.Option(help="Split with further pictures to search, repeatable; measures sentence to picture only."),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="With --gallery: only the first captions, this many.")
    ] = None,
    regions: NumRegions = None,
    fold5: Annotated[bool, typer.Option("--fold5", help="Also the mean of five folds of the pictures.")] = False,
    halves: Annotated[bool, typer.Option("--halves", help="Also each half of the pictures, as with --part.")] = False,
    grounding: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Boxes of objects in COCO's format: measure where explanations point."
        ),
    ] = None,
    short_questions: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Boxes, likewise: measure what short questions with the names of classes find.",
        ),
    ] = None,
    detector: DetectorFolder = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure a model on captioned pictures. Recall with every pair scored, and with the two stages of a service."""
    if features is not None and (images is not None or detector is not None):
        raise typer.BadParameter("--features replaces --images and --detector: leave them out")
    entries = _models(model, against)
    if grounding or short_questions:
        if any((precomp, extractor, split, part, gallery, questions, regions, fold5, halves, against, ranks)):
            raise typer.BadParameter(
                "--grounding and --short-questions go only with --captions, --first, --detector and --device"
            )
        given = BoxedMeasurements(images, features, captions, grounding, short_questions)
        print_measured(measure_with_boxes(given, entries[0], first, detector, device), as_json)
        return
    _check_gallery(gallery, questions, refused=bool(precomp or fold5 or halves))
    if precomp is None and (captions is None or (features is None and images is None)):
        raise typer.BadParameter("give --images or --features, with --captions; or --precomp")
    refuse_beside_precomp(precomp, captions, features, images, extractor=extractor)
    source = CaptionedSource(precomp, captions, features, images, extractor)
    split = PRECOMP_SPLIT if precomp and split is None else split
    selection = Selection(split, tuple(gallery or ()), part, first, regions)
    check_detector(detector)
    options = RecallOptions(questions=questions, fold5=fold5, halves=halves, ranks=ranks)
    _check_source(source, selection, options)
    if ranks is not None and not ranks.parent.is_dir():
        raise UserError(f"there is no folder {ranks.parent} to write {ranks.name} to")
    report = _measure(source, selection, entries, options, detector, device)
    if as_json:
        print_json(report)
    else:
        print_recalls(report)


def _models(model: list[str] | None, against: str | None) -> list[str]:
    """The model to measure, then the one to compare it with, if any. BadParameter if --model is given twice."""
    if model and len(model) > 1:
        raise typer.BadParameter("give --model once: --against compares it with another, and a+b is the mean of two")
    entries = [*(model or read_settings({}).models[:1]), *([against] if against else [])]
    for entry in entries:
        check_models([entry])
    return entries


def _measure(
    source: CaptionedSource,
    selection: Selection,
    entries: list[str],
    options: RecallOptions,
    detector: Path | None,
    device: str,
) -> dict[str, Any]:
    """The report on the models' recalls, including its provenance."""
    from service.cli.evaluation.compared_models import measure_models, what_was_measured
    from service.model_loading import load_model_as_served

    regions = selection.regions
    with show_progress() as progress, tempfile.TemporaryDirectory() as folder:
        with progress.activity("loading the model"):
            matchers = [load_model_as_served(entry, read_settings({"device": device})) for entry in entries]
        if source.precomp is None and source.features is None:
            finder = load_detector(detector, device)
            for matcher in matchers:
                _check_detector_fits(matcher, finder, regions)
            source = _extract(source, selection, finder, Path(folder), progress)
        data = source.load(selection)
        for matcher in matchers:
            check_fits(matcher, data, matcher.name, regions)
        check_finite(data)
        options.check_number(len(data))
        note_few(data)
        report = measure_models(matchers, data, progress, options, has_gallery=bool(selection.gallery))
    given = asdict(selection) | {"questions": options.questions}
    return {**report, "about": what_was_measured(entries, data, given)}


def _check_gallery(gallery: list[str] | None, questions: int | None, refused: bool) -> None:
    """BadParameter for incompatible options. `refused`: options were given that exclude --gallery."""
    if gallery and refused:
        raise typer.BadParameter("--gallery goes with --captions, and not with --fold5 or --halves")
    if questions and not gallery:
        raise typer.BadParameter("--questions goes with --gallery")


def _check_source(source: CaptionedSource, selection: Selection, options: RecallOptions) -> None:
    """UserError if these pictures cannot be measured with these options; called before the slow extraction."""
    source.check(selection, all_captioned=not selection.gallery)
    if source.captions is not None:
        lines = selection.lines(source.captions)
        options.check_number(len(lines))
        if selection.split is None:
            note_splits(lines)


def _check_detector_fits(matcher: "Matcher", extractor: "Extractor", regions: int | None) -> None:
    """UserError unless the model reads the features that the detector will extract."""
    if regions is not None and regions > extractor.num_regions:
        raise UserError(f"pictures have only {extractor.num_regions} regions, fewer than --regions {regions}")
    made = extractor.digest if regions is None else f"{extractor.digest}-first-{regions}"
    check_reads(matcher, made, extractor.feature_dim, matcher.name, regions)


def _extract(
    source: CaptionedSource, selection: Selection, extractor: "Extractor", out: Path, progress: Progress
) -> CaptionedSource:
    """Extract the features of the photographs to `out`. Returns the source with these features."""
    assert source.captions is not None
    photographs = source.photographs(selection.lines(source.captions))
    extract_with_progress(extractor, photographs, out, progress, is_kept=False)
    return replace(source, features=out)
