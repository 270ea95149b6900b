"""Measurements of one or two models on the same captioned pictures, what they were made of, and their ranks as a file.
PyTorch comes with this module."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.comparison import KeptRanks, compare_ranks
from models.evaluation.evaluate import evaluate, evaluate_gallery
from models.matching.matcher import Matcher
from models.training.inputs import digest_of_features, digest_of_pictures
from models.whole_files import write_whole
from service import VERSION
from service.cli.evaluation.recall_options import RecallOptions
from service.cli.terminal.output import Progress
from service.model_names import weights_folders


def measure_models(
    matchers: Sequence[Matcher],
    data: CaptionedFeatures,
    progress: Progress,
    options: RecallOptions,
    has_gallery: bool,
) -> dict[str, Any]:
    """The report on the first model, with what the second one reaches, where there is one, as `against`; their ranks
    are written where the options say. `has_gallery`: there are pictures without captions beside those asked for."""
    data = data.first_captions(options.questions) if options.questions else data
    measure: Callable[..., dict[str, Any]] = evaluate_gallery if has_gallery else evaluate
    fold5 = {"fold5": True} if options.fold5 else {}
    halves = {"halves": True} if options.halves else {}
    kept, other = KeptRanks(), KeptRanks()
    report = measure(matchers[0], data, progress=progress.report, kept=kept, **fold5, **halves)
    for matcher in matchers[1:]:
        found = measure(matcher, data, (), progress=progress.report, kept=other, **fold5)
        parts = {part: found[part] for part in ("model", "digest", *other.ranks)}
        report["against"] = {**parts, "difference": compare_ranks(kept, other)}
    if options.ranks is not None:
        _write_ranks(kept, other, data, options.ranks)
    return report


def _write_ranks(kept: KeptRanks, other: KeptRanks, data: CaptionedFeatures, out: Path) -> None:
    arrays: dict[str, Any] = kept.arrays() | {f"against_{name}": own for name, own in other.arrays().items()}
    arrays["picture_of_caption"] = kept.picture_of["text_to_image"]
    arrays["pictures"] = np.array(data.rows if data.names is None else data.names)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_whole(out if out.suffix == ".npz" else out.with_name(f"{out.name}.npz"), content.getvalue())


def what_was_measured(entries: Sequence[str], data: CaptionedFeatures, given: Mapping[str, Any]) -> dict[str, Any]:
    """A report's `about`: the folders of the models, the options `given`, digests of the pictures, and the release."""
    return {
        "release": VERSION,
        "weights": [[str(folder) for folder in weights_folders([entry]).values()] for entry in entries],
        **given,
        **digests_of_data(data),
    }


def digests_of_data(data: CaptionedFeatures) -> dict[str, str]:
    """The digests that a report names its pictures by: of what made their features, of their names with their captions,
    and of the features."""
    names = data.rows.tolist() if data.names is None else data.names
    return {
        "extractor": data.extractor_digest,
        "captions": digest_of_pictures(data.captions, names),
        "features": digest_of_features(data),
    }
