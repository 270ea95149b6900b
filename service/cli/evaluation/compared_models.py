"""Measurements of one or two models on the same captioned pictures, what they were made of, and their ranks as a file.
PyTorch comes with this module."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import Evaluation, evaluate, evaluate_gallery
from models.evaluation.ranks import rank_arrays
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
    measure: Callable[..., Evaluation] = evaluate_gallery if has_gallery else evaluate
    fold5 = {"fold5": True} if options.fold5 else {}
    halves = {"halves": True} if options.halves else {}
    report, ranks = measure(matchers[0], data, progress=progress.report, **fold5, **halves)
    arrays: dict[str, Any] = {
        **rank_arrays(ranks),
        "picture_of_caption": ranks["exhaustive"].picture_of["text_to_image"],
    }
    for matcher in matchers[1:]:
        against, others = measure(matcher, data, (), progress=progress.report, **fold5)
        parts = {part: against[part] for part in ("model", "digest", *others)}
        differences = {search: own.minus(others[search]) for search, own in ranks.items()}
        report["against"] = {**parts, "difference": differences}
        arrays |= {f"against_{name}": own for name, own in rank_arrays(others).items()}
    if options.ranks is not None:
        _write_ranks(arrays, data, options.ranks)
    return report


def _write_ranks(arrays: dict[str, Any], data: CaptionedFeatures, out: Path) -> None:
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
