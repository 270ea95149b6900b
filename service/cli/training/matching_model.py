"""Training of a matching model. Imports PyTorch."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from models.matching.checkpoint import load_uncalibrated
from models.training.recipes import Recipe
from models.training.trainer import BEST_FOLDER, Training
from models.whole_files import write_whole
from service import VERSION
from service.cli.evaluation.captioned_source import CaptionedSource, Selection, check_finite, note_few
from service.cli.out_folder import sole_writer
from service.cli.terminal.output import Progress, print_note, visible
from service.cli.training.run import TrainingRun, shown_training
from service.errors import UserError, user_input
from service.model_loading import device_of

RECIPE_FILE = "recipe.json"
MANY_LEFT_OUT = 0.03  # share of an epoch's captions


def train_matcher(
    run: TrainingRun,
    recipe: Recipe,
    source: CaptionedSource,
    selections: tuple[Selection, Selection],
    word_vectors: Path | None,
) -> None:
    """Train a model on the first selection, validate it on the second, and print the result. UserError for unsuitable
    data or options."""
    train, dev = (source.load(selection) for selection in selections)
    if uncaptioned := sum(not own for own in train.captions):
        print_note(f"{uncaptioned} of {len(train)} pictures to learn from have no caption, and are left out")
    if train.feature_dim != dev.feature_dim:
        raise UserError(f"the features to learn from have {train.feature_dim} numbers, those of dev {dev.feature_dim}")
    check_finite(train, np.flatnonzero([bool(own) for own in train.captions]), selections[0].split)
    check_finite(dev.first(recipe.validate_images), split=selections[1].split)
    with sole_writer(run.out):
        with user_input():
            initial = load_uncalibrated(run.start) if run.start else None
            training = Training(recipe, train, dev, run.out, device_of(run.device), initial, word_vectors)
        if word_vectors is not None:
            _note_words(training, word_vectors)
        with user_input(run.out):
            training.resume()
        if training.step == 0:
            _note_batches(training)
            note_few(training.dev)
            if (split := selections[0].split) == selections[1].split:
                print_note(f"split {split} is learnt from and validated on: its rsum tells nothing of other pictures")
        _note_end(training, run.changes)
        if not training.is_finished:  # its end may have been moved
            _write_recipe(run, training, source, selections, word_vectors)
        _continue(training, run.out)
    _print_result(training, run.out / BEST_FOLDER, source.as_options(selections[1]))


def _print_result(training: Training, best: Path, source: Sequence[str]) -> None:
    rsum, num_dev = training.early_stopping.best_rsum, len(training.dev)
    measure = shlex.join(["regard", "evaluate", "--model", str(best), *source])
    early = ""
    if training.step < training.total_steps:
        early = f"; {training.early_stopping.num_stale} validations without a better rsum ended it, see patience"
    print(
        visible(
            f"{best}: rsum {rsum:.1f} on {num_dev} dev pictures, the best in {training.step} steps"
            f" (of at most {training.total_steps}{early}); measure it with `{measure}`"
        )
    )


def _note_words(training: Training, word_vectors: Path) -> None:
    vocabulary = training.matcher.vocabulary
    print_note(f"{training.num_words_found} of {len(vocabulary)} words start from {word_vectors}")
    if training.recipe.near is not None:
        print_note(f"{len(vocabulary.near_words)} other words are read as near ones")


def _note_batches(training: Training) -> None:
    """Print a note if the pictures do not fill a batch, or if an epoch leaves out many captions."""
    captioned, batch = sum(map(bool, training.data.captions)), training.recipe.batch
    if captioned < batch:
        print_note(f"a batch holds {captioned} pictures, not {batch} (--set batch): there are no more to learn from")
    total = sum(map(len, training.data.captions))
    left_out = total - training.captions_per_epoch
    if training.recipe.epochs and left_out > MANY_LEFT_OUT * total:
        print_note(
            f"an epoch leaves out {left_out} of {total} captions ({left_out / total:.0%}), different ones each time:"
            f" those at the end of a pass over the pictures that do not fill a batch of {batch} (--set batch)"
        )


def _note_end(training: Training, changes: Sequence[str]) -> None:
    """Print a note if one of `epochs` and `most_steps` was set, and the recipe's other one ends it before."""
    total, epochs, most = training.total_steps, training.recipe.epochs, training.recipe.most_steps
    changed = {change.partition("=")[0] for change in changes}
    if most is not None and most > total and "most_steps" in changed:
        print_note(f"it ends with epochs={epochs}, after {total} of most_steps={most}: set epochs too")
    if most == total and "epochs" in changed and "most_steps" not in changed:
        print_note(f"it ends with most_steps={most}, perhaps before epochs={epochs}: set most_steps too")


def _write_recipe(
    run: TrainingRun,
    training: Training,
    source: CaptionedSource,
    selections: tuple[Selection, Selection],
    word_vectors: Path | None,
) -> None:
    """Write the recipe, the options and digests of the inputs, for people."""
    paths = {"from": run.start, "word_vectors": word_vectors, "precomp": source.precomp, "features": source.features}
    given = {name: str(path.absolute()) for name, path in (paths | {"captions": source.captions}).items() if path}
    (split, regions), dev = (selections[0].split, selections[0].regions), selections[1].split
    record = {
        "release": VERSION,
        "recipe_name": run.recipe,
        "recipe": asdict(training.recipe),
        "given": given | {"split": split, "dev": dev, "regions": regions, "device": run.device},
        "digests": dict(training.checkpoint.learns_from),
    }
    write_whole(run.out / RECIPE_FILE, (json.dumps(record, indent=1, default=str) + "\n").encode())


def _continue(training: Training, out: Path) -> None:
    """Train from where an earlier run stopped."""
    if not training.is_finished:
        with shown_training(out, training.total_steps) as (log, progress):
            training.run(log, partial(_report_validation, progress))
        return
    further = f"--set {'patience' if training.step < training.total_steps else 'epochs'} may take it further"
    print_note(f"the training in {out} was finished before: {further}; give another folder to train anew")
    if training.mend_best():
        print_note(f"{out / BEST_FOLDER} was damaged or gone: its weights are written again")


def _report_validation(progress: Progress, what: str, done: int, total: int) -> None:
    progress.report(f"validating: {what}", done, total)
