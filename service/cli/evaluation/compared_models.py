"""Measurements of one or two models on the same captioned pictures, their provenance, and their ranks as a file.
Imports PyTorch."""

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
    """The report on the first model, with that on a second one as `against`; their ranks are written to the file of the
    options. `has_gallery`: there are also pictures without captions."""
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
        against, other_ranks = measure(matcher, data, (), progress=progress.report, **fold5)
        parts = {part: against[part] for part in ("model", "digest", *other_ranks)}
        differences = {search: first.minus(other_ranks[search]) for search, first in ranks.items()}
        report["against"] = {**parts, "difference": differences}
        arrays |= {f"against_{name}": array for name, array in rank_arrays(other_ranks).items()}
    if options.ranks is not None:
        _write_ranks(arrays, data, options.ranks)
    return report


def _write_ranks(arrays: dict[str, Any], data: CaptionedFeatures, out: Path) -> None:
    arrays["pictures"] = np.array(data.rows if data.names is None else data.names)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_whole(out if out.suffix == ".npz" else out.with_name(f"{out.name}.npz"), content.getvalue())


def what_was_measured(entries: Sequence[str], data: CaptionedFeatures, options: Mapping[str, Any]) -> dict[str, Any]:
    """A report's `about`: the folders of the models, the options, digests of the pictures, and the release."""
    return {
        "release": VERSION,
        "weights": [[str(folder) for folder in weights_folders([entry]).values()] for entry in entries],
        **options,
        **digests_of_data(data),
    }


def digests_of_data(data: CaptionedFeatures) -> dict[str, str]:
    """The digests of a report's pictures: of the extractor, of their names with their captions, and of the features."""
    names = data.rows.tolist() if data.names is None else data.names
    return {
        "extractor": data.extractor_digest,
        "captions": digest_of_pictures(data.captions, names),
        "features": digest_of_features(data),
    }
