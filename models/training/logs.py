"""The log of a training: JSON lines, and curves for TensorBoard."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

Log = Callable[[dict[str, Any]], None]  # takes an entry, whose "step" counts from 1


@contextmanager
def open_log(folder: Path) -> Iterator[Log]:
    """A log that appends to `folder`/log.jsonl and, where TensorBoard is installed, writes curves to its subfolder."""
    folder.mkdir(parents=True, exist_ok=True)
    board = _board(folder)
    with (folder / "log.jsonl").open("a", encoding="utf-8") as lines, closing(board) if board else nullcontext():

        def log(entry: dict[str, Any]) -> None:
            lines.write(json.dumps(entry) + "\n")
            lines.flush()
            for name, value in _scalars(entry):
                board and board.add_scalar(name, value, entry["step"])

        yield log


def _scalars(entry: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in entry.items():
        if isinstance(value, dict):
            yield from _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name not in ("step", "steps"):
            yield prefix + name, value


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - of the training extra, and slow to import
    except ModuleNotFoundError:
        return None
    return SummaryWriter(folder / "tensorboard")
