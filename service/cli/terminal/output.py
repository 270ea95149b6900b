"""Output of commands: results on standard output, notes and progress on standard error."""

import codecs
import io
import json
import sys
import threading
import time
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from pydantic import BaseModel

MOST_NAMED = 5  # names in one line
LINE_EVERY_S = 10.0  # if standard error is not a terminal
# They have no width and do not control a terminal: joiners of Persian, Indic scripts and emoji, and direction marks.
JOINERS_AND_MARKS = frozenset("\u200c\u200d\u200e\u200f")


def print_json(value: BaseModel | Mapping[str, Any] | Sequence[Any]) -> None:
    """Print a JSON document on standard output; control characters and unencodable ones are escaped."""
    if isinstance(value, BaseModel):
        text = value.model_dump_json(exclude_unset=True, indent=2)
    else:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    unicode = is_unicode(sys.stdout)
    shown = (one == "\n" or (one.isprintable() and (unicode or one.isascii())) for one in text)
    print("".join(one if is_shown else json.dumps(one)[1:-1] for one, is_shown in zip(text, shown, strict=True)))


def is_unicode(stream: TextIO) -> bool:
    """Whether the stream can represent every character: it is in UTF-8, or has no encoding."""
    encoding = getattr(stream, "encoding", None)
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def replace_unencodable() -> None:
    """Make the standard streams replace characters that the locale's encoding lacks, instead of raising errors."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not is_unicode(stream):
            stream.reconfigure(errors="replace")


def print_ids(images: Iterable[Mapping[str, Any]]) -> None:
    """Print the ids of pictures on standard output, one per line."""
    for image in images:
        print(image["image_id"])


def print_table(*columns: str, rows: list[list[str]]) -> None:
    """Print columns on standard output, each as wide as its widest cell."""
    table = [[visible(cell) for cell in row] for row in ([*columns], *rows)]
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    for row in table:
        padded = [cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(padded).rstrip())


def visible(text: str) -> str:
    """The text in one line, without control characters, which untrusted names and captions may contain."""
    shown = (one if one.isprintable() or one in JOINERS_AND_MARKS else "\N{REPLACEMENT CHARACTER}" for one in text)
    return "".join(shown)


def first_names(names: Sequence[str]) -> str:
    """The first MOST_NAMED names, and the number of others."""
    first = ", ".join(map(visible, names[:MOST_NAMED]))
    return first if len(names) <= MOST_NAMED else f"{first} and {len(names) - MOST_NAMED} more"


def shortened(text: str, longest: int) -> str:
    """The text in one line of at most `longest` characters; a longer text ends with three dots."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def display_width(text: str) -> int:
    """The number of terminal columns that a text occupies."""
    return sum(
        0 if unicodedata.combining(one) or one in JOINERS_AND_MARKS else 1 + (unicodedata.east_asian_width(one) in "WF")
        for one in text
    )


def print_note(message: str) -> None:
    """Print one or several lines on standard error, without control characters."""
    print("\n".join(map(visible, message.split("\n"))), file=sys.stderr)


def note_names(message: str, names: Sequence[str]) -> None:
    """Print a note with the first names, if there are any."""
    if names:
        print_note(f"{message}: {first_names(names)}")


class Task:
    """A running task. `total` is None while the amount of work is unknown."""

    def __init__(self, progress: "Progress", description: str, total: int | None) -> None:
        self.description, self.total, self.completed = description, total, 0
        self.started, self.over = time.monotonic(), False
        self._progress = progress

    def update(self, completed: int, total: int | None = None) -> None:
        """Set how much is done, and the total if given."""
        self.completed = completed
        self.total = self.total if total is None else total
        self._progress.changed(self)

    def advance(self, count: int = 1) -> None:
        """Add to what is done."""
        self.update(self.completed + count)

    def finish(self) -> None:
        """Mark the task as complete, even if its total was higher or unknown."""
        self.update(self.completed, self.completed)


class Progress(ABC):
    """Running tasks, shown on standard error."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def add_task(self, description: str, total: int | None) -> Task:
        """Show another task."""
        task = Task(self, description, total)
        self.tasks.append(task)
        self.changed(task)
        return task

    def report(self, description: str, completed: int, total: int) -> None:
        """Update the task of that description, or add it: a callback for functions of `models`."""
        task = next((task for task in self.tasks if task.description == description), None)
        (task or self.add_task(description, total)).update(completed, total)

    @contextmanager
    def activity(self, description: str) -> Iterator[None]:
        """Show a task of unknown length while the block runs."""
        task = self.add_task(description, None)
        yield
        task.over = True
        self.changed(task)

    @abstractmethod
    def changed(self, task: Task) -> None:
        """Show the progress of a task, which has changed."""


class _Bars(Progress):
    """Progress bars, for a terminal."""

    def __init__(self, bars: Any) -> None:
        super().__init__()
        self._bars = bars
        self._ids: dict[Task, Any] = {}

    def changed(self, task: Task) -> None:
        if task not in self._ids:
            self._ids[task] = self._bars.add_task(task.description, total=task.total)
        self._bars.update(self._ids[task], completed=task.completed, total=task.total, visible=not task.over)


class _Lines(Progress):
    """Lines of progress at intervals, for a file or a pipe."""

    def changed(self, task: Task) -> None:
        """Do nothing: the next line shows it."""

    def print_unfinished(self) -> None:
        """Print a line for each task that is still running."""
        for task in list(self.tasks):
            if not task.over and (task.total is None or task.completed < task.total):
                print(_line(task), file=sys.stderr, flush=True)

    def print_all(self) -> None:
        """Print a last line for each task whose total is known."""
        for task in self.tasks:
            if task.total is not None:
                print(_line(task), file=sys.stderr, flush=True)


def _line(task: Task) -> str:
    if task.total is None:
        done = f" {task.completed}" if task.completed else ""
        return f"{task.description}{done}, {time.monotonic() - task.started:.0f} s so far"
    share = task.completed / task.total if task.total else 1.0
    return f"{task.description} {share:4.0%} {task.completed}/{task.total}"


@contextmanager
def show_progress(line_every_s: float = LINE_EVERY_S) -> Iterator[Progress]:
    """Progress, shown as bars on a terminal, otherwise as lines every `line_every_s` seconds and at the end."""
    shown = _show_bars() if sys.stderr.isatty() else _print_lines(line_every_s)
    with shown as progress:
        yield progress


@contextmanager
def _show_bars() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True)) as bars:
        yield _Bars(bars)


@contextmanager
def _print_lines(every_s: float) -> Iterator[Progress]:
    lines, over = _Lines(), threading.Event()

    def print_now_and_then() -> None:
        while not over.wait(every_s):
            lines.print_unfinished()

    thread = threading.Thread(target=print_now_and_then, name="progress", daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        over.set()
        thread.join()
    lines.print_all()
