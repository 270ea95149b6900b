"""Options that all trainings share, their photographs, and the display of their progress."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.datasets.captions import CaptionedPhotographs, captioned_photographs, read_captions
from service.cli.terminal.output import Progress, show_progress
from service.errors import user_input

if TYPE_CHECKING:
    from models.training.logs import Log


@dataclass(frozen=True)
class TrainingRun:
    """Options of one training."""

    out: Path
    """The folder of the results."""
    changes: Sequence[str]
    """Changes of the recipe, each name=value."""
    device: str
    """The value of --device."""
    start: Path | None = None
    """Weights, a detector or an earlier training to start from."""
    recipe: str = ""
    """The name of the recipe."""


def read_photographs(captions: Path, split: str, dev: str | None) -> CaptionedPhotographs:
    """The photographs of a split of a captions file, and those of the validation split `dev`, if any.

    UserError if a file is missing, or a photograph for validation has no caption.
    """
    from service.media.formats import register_formats

    register_formats()  # trainings open photographs with Pillow
    folder = captions.parent.resolve()
    with user_input(captions):
        train, validated = read_captions(captions, split), [] if dev is None else read_captions(captions, dev)
        captioned_photographs(folder, [*train, *validated])
        if uncaptioned := [line.image for line in validated if not line.captions]:
            raise ValueError(f"{len(uncaptioned)} pictures of split {dev} have no caption, such as {uncaptioned[0]}")
    return CaptionedPhotographs(folder, train, validated)


@contextmanager
def shown_training(out: Path, steps: int) -> "Iterator[tuple[Log, Progress]]":
    """A log that writes to files in `out` and updates a progress bar, and the progress display."""
    from models.training.logs import open_log

    with show_progress() as progress, open_log(out) as log:
        task = progress.add_task("training", steps)

        def log_and_show(entry: dict[str, Any]) -> None:
            task.update(entry["step"])
            log(entry)

        yield log_and_show, progress
