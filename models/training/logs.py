"""The log of a training: JSON lines, and curves for TensorBoard."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from models.whole_files import write_whole

LOG_FILE = "log.jsonl"
Log = Callable[[dict[str, Any]], None]  # takes an entry, whose "step" counts from 1


@contextmanager
def open_log(folder: Path) -> Iterator[Log]:
    """A log that appends to `folder`/log.jsonl and, if TensorBoard is installed, writes curves to its subfolder.

    Its first entry replaces an earlier run's entries from that step on: a training that was killed repeats the steps
    since its last checkpoint. If it is a validation, the step itself stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        write: Log | None = None

        def log(entry: dict[str, Any]) -> None:
            nonlocal write
            if write is None:
                place = _place_of(entry)
                _drop_entries(folder / LOG_FILE, place)
                write = opened.enter_context(_appending(folder, sum(place)))
            write(entry)

        yield log


@contextmanager
def _appending(folder: Path, step: int) -> Iterator[Log]:
    """A log that appends to the files in `folder`; curves continue from `step`."""
    board = _curve_writer(folder, step)
    with ExitStack() as opened:
        lines = opened.enter_context((folder / LOG_FILE).open("a", encoding="utf-8"))
        if board:
            opened.enter_context(closing(board))

        def write(entry: dict[str, Any]) -> None:
            lines.write(json.dumps(entry) + "\n")
            lines.flush()
            for name, value in _scalars(entry) if board else ():
                board.add_scalar(name, value, entry["step"])

        yield write


def _place_of(entry: Any) -> tuple[int, bool]:
    """The order of entries: a step comes before its validation."""
    return entry["step"], set(entry) == {"step", "steps", "validation"}


def _drop_entries(file: Path, place: tuple[int, bool]) -> None:
    """Remove the lines of a log from a place on, and one that a kill truncated."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) if file.is_file() else []
    kept = [line for line in lines if _is_before(line, place)]
    if kept != lines:
        write_whole(file, "".join(kept).encode())


def _is_before(line: str, place: tuple[int, bool]) -> bool:
    """Whether a line can be read and belongs before a place."""
    try:
        return _place_of(json.loads(line)) < place
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _scalars(entry: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in entry.items():
        if isinstance(value, dict):
            yield from _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name not in ("step", "steps"):
            yield prefix + name, value


def _curve_writer(folder: Path, step: int) -> Any:
    """A writer that ends curves of earlier runs before `step`; None if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional, and slow to import
    except ModuleNotFoundError:
        return None
    return SummaryWriter(folder / "tensorboard", purge_step=step)
