"""`regard evaluate`: recall of a model on captioned pictures."""

import hashlib
import os
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service import VERSION
from service.cli.evaluation.boxed_pictures import BoxedSource, measure_boxed, print_grounding, print_short_questions
from service.cli.evaluation.captioned_source import (
    CaptionedSource,
    Selection,
    check_finite,
    check_fits,
    check_reads,
    note_few,
    refuse_beside_precomp,
)
from service.cli.evaluation.recall_options import RecallOptions
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
from service.cli.terminal.output import Progress, print_json, print_note, print_table, show_progress
from service.errors import UserError, user_input
from service.model_names import check_detector, check_models

if TYPE_CHECKING:
    from models.datasets.captioned_features import CaptionedFeatures
    from models.extractors.base import Extractor
    from models.matching.matcher import Matcher

QUERIES = {"text_to_image": "text", "image_to_text": "picture"}
RECALLS = ("r1", "r5", "r10")
SEARCHES = {
    "every pair": "exhaustive",
    "stage one": "stage_one",
    "in five folds": "fold5",
    "difference": "difference",
}


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
        given = MeasuredWithBoxes(images, features, captions, grounding, short_questions)
        _print_measured(_measure_with_boxes(given, entries[0], first, detector, device), as_json)
        return
    _check_gallery(gallery, questions, refused=bool(precomp or fold5 or halves))
    if precomp is None and (captions is None or (features is None and images is None)):
        raise typer.BadParameter("give --images or --features, with --captions; or --precomp")
    refuse_beside_precomp(precomp, captions, features, images, extractor=extractor)
    source = CaptionedSource(precomp, captions, features, images, extractor)
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
    from service.cli.evaluation.compared_models import measure_models, what_was_measured  # noqa: PLC0415 - imports PyTorch
    from service.model_loading import load_model_as_served  # noqa: PLC0415

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


@dataclass(frozen=True)
class MeasuredWithBoxes:
    """Options of measurements that use object boxes."""

    images: Path | None
    features: Path | None
    captions: Path | None
    grounding: Path | None
    short_questions: Path | None

    def paths(self) -> dict[str, str]:
        """The options that were given, as text."""
        return {name: str(path) for name, path in asdict(self).items() if path is not None}

    def sources(self) -> dict[str, BoxedSource]:
        """Name of each measurement -> its data."""
        boxes = {"grounding": self.grounding, "short_questions": self.short_questions}
        return {
            name: BoxedSource(path, self.images, self.features, self.captions)
            for name, path in boxes.items()
            if path is not None
        }


def _measure_with_boxes(
    given: MeasuredWithBoxes, entry: str, first: int | None, detector: Path | None, device: str
) -> dict[str, Any]:
    """The report of the requested measurements, with the model's name and digest."""
    if given.features is None and given.images is None:
        raise typer.BadParameter("--grounding and --short-questions go with --images or --features")
    check_detector(detector)
    sources = given.sources()
    objects_of = {source.boxes: source.objects(first) for source in dict.fromkeys(sources.values())}
    for source in sources.values():
        source.lines(objects_of[source.boxes])  # refuses captions in another format
    from models.training.inputs import digest_of_file  # noqa: PLC0415 - imports PyTorch
    from service.cli.evaluation.compared_models import digests_of_data  # noqa: PLC0415
    from service.model_loading import load_model_as_served  # noqa: PLC0415

    with show_progress() as progress, tempfile.TemporaryDirectory() as folder:
        with progress.activity("loading the model"):
            matcher = load_model_as_served(entry, read_settings({"device": device}))
        digests: dict[str, dict[str, str]] = {}
        about = {"release": VERSION, "weights": [entry], "first": first, **given.paths(), "digests": digests}
        report: dict[str, Any] = {"model": matcher.name, "digest": matcher.digest, "about": about}
        for name, source in sources.items():
            given_objects = objects_of[source.boxes]
            features = source.features or Path(folder) / boxes_name(source.boxes)
            if source.features is None and not features.exists():
                extractor = load_detector(detector, device)
                check_reads(matcher, extractor.digest, extractor.feature_dim, matcher.name)
                photographs = source.photographs(source.lines(given_objects))
                extract_with_progress(extractor, photographs, features, progress, is_kept=False)
            data, boxes, objects = source.load(name, given_objects, features)
            check_fits(matcher, data, matcher.name)
            check_finite(data)
            digests[name] = {"boxes": digest_of_file(source.boxes), **digests_of_data(data)}
            with user_input(source.boxes):
                report[name] = measure_boxed(name, matcher, data, boxes, objects, progress)
            if name == "grounding" and given.captions is not None:
                _note_without_captions(given.captions, data, report[name])
    return report


def _note_without_captions(captions: Path, data: "CaptionedFeatures", grounding: dict[str, Any]) -> None:
    """Print a note on the reason if the report has no row for captions."""
    from models.evaluation.grounding import CAPTIONS  # noqa: PLC0415

    if CAPTIONS not in grounding["pointing"]:
        why = "names a class that is marked in its picture" if any(data.captions) else "is of one of these pictures"
        print_note(f"there is no row for captions: none in {captions} {why}")


def boxes_name(boxes: Path) -> str:
    """The name of the folder of features for a file of boxes; measurements with the same file share it."""
    return hashlib.sha256(os.fsencode(boxes.resolve())).hexdigest()


def _print_measured(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    print(f"{report['model']} {report['digest']}")
    if "grounding" in report:
        print_grounding(report["grounding"])
    if "short_questions" in report:
        print_short_questions(report["short_questions"])


def _check_source(source: CaptionedSource, selection: Selection, options: RecallOptions) -> None:
    """UserError if these pictures cannot be measured with these options; called before the slow extraction."""
    source.check(selection, all_captioned=not selection.gallery)
    if source.captions is not None:
        options.check_number(len(selection.lines(source.captions)))


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


def print_recalls(report: dict[str, Any]) -> None:
    """Print recalls in percent, a line for each way of searching, and the recalls of shortlists."""
    ways = {
        "every pair": report["exhaustive"],
        "stage one alone": report["stage_one"],
        "difference": report["difference"],
        **{f"shortlist {k}": recalls for k, recalls in report["two_stage"].items()},
        **({"in five folds": report["fold5"]} if "fold5" in report else {}),
    }
    for half, searches in report.get("halves", {}).items():
        ways |= {f"{half} half, {way}": searches[name] for way, name in SEARCHES.items() if name in searches}
    names = names_in_rows(report)
    if other := report.get("against"):
        compared = {way: search for way, search in SEARCHES.items() if search in other["difference"]}
        ways |= {f"{names[1]} instead, {way}": other[search] for way, search in compared.items()}
        ways |= {f"difference from it, {way}": other["difference"][search] for way, search in compared.items()}
    print(f"{names[0]}: {report['images']} pictures, {report['captions']} captions; recall at 1, 5, 10 in percent")
    directions = [direction for direction in QUERIES if direction in report["exhaustive"]]
    heads = [head for direction in directions for head in (f"{QUERIES[direction]}: 1", "5", "10")]
    heads += ["sum"] * ("rsum" in ways["every pair"])
    rows = [row for way, recalls in ways.items() for row in recall_rows(way, recalls, directions)]
    print_table("", *heads, rows=rows)
    kept = [
        [
            k,
            *(
                f"{report[what][k][direction]:.1f}"
                for direction in directions
                for what in ("shortlist_recall", "top10_kept")
            ),
        ]
        for k in report["shortlist_recall"]
    ]
    heads = [head for direction in directions for head in (f"{QUERIES[direction]}: a right one", "of the best 10")]
    if kept:
        print("\nwhat a shortlist contains, in percent")
        print_table("", *heads, rows=kept)


def names_in_rows(report: dict[str, Any]) -> list[str]:
    """The names of the measured model and the one compared with it, if any; their folders if the names are equal."""
    names = [one["model"] for one in (report, report.get("against")) if one]
    if len(set(names)) == len(names):
        return names
    return ["+".join(folders) for folders in report["about"]["weights"]]


def recall_rows(way: str, recalls: dict[str, Any], directions: list[str]) -> list[list[str]]:
    """A row of recalls, and one of their confidence intervals if known."""
    rows = [[way, *(f"{value:.1f}" for value in recall_values(recalls, directions))]]
    if "interval" in recalls:
        ends = recall_values(recalls["interval"], directions)
        rows.append(["", *(f"{low:.1f} to {high:.1f}" for low, high in ends)])
    return rows


def recall_values(recalls: dict[str, Any], directions: list[str]) -> list[Any]:
    """Recalls, or their intervals, in the order of a row."""
    values = [recalls[direction][name] for direction in directions for name in RECALLS]
    return values + ([recalls["rsum"]] if "rsum" in recalls else [])
