"""A training as a command line asks for it, and the progress that is seen of it."""

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
    """One training: the folder of its results, changes of its recipe (name=value), its device by the name that
    --device takes, the weights, detector or earlier training that it starts from, and the recipe's name."""

    out: Path
    changes: Sequence[str]
    device: str
    start: Path | None = None
    recipe: str = ""


def read_photographs(captions: Path, split: str, dev: str | None) -> CaptionedPhotographs:
    """The photographs of a split of a captions file, and those to validate on where a split for it is named.

    UserError where one is not there, or one to validate on has no caption.
    """
    from service.media.formats import register_formats  # noqa: PLC0415 - Pillow comes with it

    register_formats()  # trainings open photographs by Pillow alone
    folder = captions.parent.resolve()
    with user_input(captions):
        train, validated = read_captions(captions, split), [] if dev is None else read_captions(captions, dev)
        captioned_photographs(folder, [*train, *validated])
        if bare := [line.image for line in validated if not line.captions]:
            raise ValueError(f"{len(bare)} pictures of split {dev} have no caption to be found by, as {bare[0]}")
    return CaptionedPhotographs(folder, train, validated)


@contextmanager
def shown_training(out: Path, steps: int) -> "Iterator[tuple[Log, Progress]]":
    """A log that writes to files in `out` and moves a progress bar, and the progress that the bar stands in."""
    from models.training.logs import open_log  # noqa: PLC0415 - PyTorch comes with it

    with show_progress() as progress, open_log(out) as log:
        task = progress.add_task("training", steps)

        def log_and_show(entry: dict[str, Any]) -> None:
            task.update(entry["step"])
            log(entry)

        yield log_and_show, progress
