"""Measurements with boxes of objects: where explanations point, and what short questions find."""

import hashlib
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from service import VERSION
from service.cli.evaluation.boxed_pictures import BoxedSource, measure_boxed, print_grounding, print_short_questions
from service.cli.evaluation.captioned_source import check_finite, check_fits, check_reads
from service.cli.feature_extraction import extract_with_progress, load_detector
from service.cli.settings_options import read_settings
from service.cli.terminal.output import print_json, print_note, show_progress
from service.errors import user_input
from service.model_names import check_detector

if TYPE_CHECKING:
    from models.datasets.captioned_features import CaptionedFeatures


@dataclass(frozen=True)
class BoxedMeasurements:
    """Files of boxes for each measurement, and the pictures to measure it on."""

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


def measure_with_boxes(
    given: BoxedMeasurements, entry: str, first: int | None, detector: Path | None, device: str
) -> dict[str, Any]:
    """The report of the requested measurements, with the model's name and digest."""
    if given.features is None and given.images is None:
        raise typer.BadParameter("--grounding and --short-questions go with --images or --features")
    check_detector(detector)
    sources = given.sources()
    objects_of = {source.boxes: source.objects(first) for source in dict.fromkeys(sources.values())}
    for source in sources.values():
        source.lines(objects_of[source.boxes])  # refuses captions in another format
    from models.training.inputs import digest_of_file
    from service.cli.evaluation.compared_models import digests_of_data
    from service.model_loading import load_model_as_served

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
    from models.evaluation.grounding import CAPTIONS

    if CAPTIONS not in grounding["pointing"]:
        why = "names a class that is marked in its picture" if any(data.captions) else "is of one of these pictures"
        print_note(f"there is no row for captions: none in {captions} {why}")


def boxes_name(boxes: Path) -> str:
    """The name of the folder of features for a file of boxes; measurements with the same file share it."""
    return hashlib.sha256(os.fsencode(boxes.resolve())).hexdigest()


def print_measured(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    print(f"{report['model']} {report['digest']}")
    if "grounding" in report:
        print_grounding(report["grounding"])
    if "short_questions" in report:
        print_short_questions(report["short_questions"])
