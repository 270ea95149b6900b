"""Several models measured on pictures with boxes of objects, for `benchmarks.grounding` and `short_questions`."""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.cli.evaluation.boxed_pictures import BoxedSource, measure_boxed
from service.cli.feature_extraction import extract_with_progress, load_detector
from service.cli.terminal.output import show_progress
from service.model_loading import device_of, load_model


def boxes_parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments that both programs have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="shipped models, their folders, or ensembles a+b")
    parser.add_argument("--boxes", type=Path, required=True, help="boxes of objects in COCO's format")
    parser.add_argument("--images", type=Path, help="folder of the pictures")
    parser.add_argument("--features", type=Path, help="what `regard extract` made of them, instead")
    parser.add_argument("--captions", type=Path, help="their captions as JSON lines")
    parser.add_argument("--detector", type=Path, help="the shipped one if not given")
    parser.add_argument("--first", type=int, help="only that many pictures, the first")
    parser.add_argument("--device", default="auto")
    return parser


def measured_models(given: argparse.Namespace, name: str, **options: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each model with its report of one measurement, "grounding" or "short_questions"."""
    if (given.images is None) == (given.features is None):
        raise SystemExit("give either --images or --features")
    source = BoxedSource(given.boxes, given.images, given.features, given.captions)
    objects = source.objects(given.first)
    with show_progress() as progress, tempfile.TemporaryDirectory() as folder:
        features = given.features or Path(folder) / "features"
        if given.features is None:
            extractor = load_detector(given.detector, given.device)
            extract_with_progress(extractor, source.photographs(source.lines(objects)), features, progress)
        data, boxes, objects = source.load(name, objects, features)
        for model in given.models:
            matcher = load_model(model, device_of(given.device))
            yield matcher.name, measure_boxed(name, matcher, data, boxes, objects, progress, **options)
