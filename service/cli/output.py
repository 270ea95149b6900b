"""What the commands share: options, output for people and for programs."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from service.client import LOCAL, Client

if TYPE_CHECKING:
    from rich.progress import Progress

Url = Annotated[str, typer.Option("--url", help="The server to speak to.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Model = Annotated[str | None, typer.Option("--model", help="A model of `regard models`; the default if not given.")]
Count = Annotated[int, typer.Option("-k", min=1, max=100, help="How many results at most.")]
Shortlist = Annotated[int, typer.Option("--shortlist", min=1, max=1000, help="How many candidates are reranked.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, or auto.")]
Detector = Annotated[
    Path | None, typer.Option("--detector", help="Folder of the detector's weights; the shipped one if not given.")
]

__all__ = ["LOCAL", "AsJson", "Client", "Count", "Detector", "Device", "Model", "Shortlist", "Url"]


def print_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    """One document on standard output."""
    if isinstance(value, BaseModel):
        print(value.model_dump_json(exclude_unset=True, indent=2))
    else:
        print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(*columns: str, rows: list[list[str]]) -> None:
    """Columns on standard output, as wide as what is in them."""
    table = [list(columns), *rows]
    widths = [max(len(row[n]) for row in table) for n in range(len(columns))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def note(message: str) -> None:
    """A line for people, on standard error, so that it never mixes with a result."""
    print(message, file=sys.stderr)


@contextmanager
def progress() -> "Iterator[Progress]":
    """Progress bars on standard error."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield bars
