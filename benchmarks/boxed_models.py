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
    """The arguments of both programs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="shipped models, their folders, or ensembles a+b")
    parser.add_argument("--boxes", type=Path, required=True, help="boxes of objects in COCO's format")
    parser.add_argument("--images", type=Path, help="folder of the pictures")
    parser.add_argument("--features", type=Path, help="folder that `regard extract` wrote, instead")
    parser.add_argument("--captions", type=Path, help="their captions as JSON lines")
    parser.add_argument("--detector", type=Path, help="the shipped one if not given")
    parser.add_argument("--first", type=int, help="number of pictures, the first ones")
    parser.add_argument("--device", default="auto")
    return parser


def measured_models(args: argparse.Namespace, name: str, **options: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each model's name and its report of the measurement `name`, "grounding" or "short_questions"."""
    if (args.images is None) == (args.features is None):
        raise SystemExit("give either --images or --features")
    source = BoxedSource(args.boxes, args.images, args.features, args.captions)
    objects = source.objects(args.first)
    with show_progress() as progress, tempfile.TemporaryDirectory() as folder:
        features = args.features or Path(folder) / "features"
        if args.features is None:
            extractor = load_detector(args.detector, args.device)
            extract_with_progress(extractor, source.photographs(source.lines(objects)), features, progress)
        data, boxes, objects = source.load(name, objects, features)
        for model in args.models:
            matcher = load_model(model, device_of(args.device))
            yield matcher.name, measure_boxed(name, matcher, data, boxes, objects, progress, **options)
