"""Changes of pictures that are named on the command line, and their output."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from service.cli.terminal.output import print_json, print_note, visible
from service.errors import UserError, user_input

IMAGE_ID = re.compile("[0-9a-f]{32}")
_Answer = TypeVar("_Answer")
_Changed = TypeVar("_Changed")


def ids_given(image_ids: Sequence[str]) -> list[str]:
    """The ids in the arguments without repetitions; a single `-` reads them from standard input. UserError where that
    is closed."""
    if list(image_ids) != ["-"]:
        return list(dict.fromkeys(image_ids))
    if sys.stdin is None:
        raise UserError("standard input is closed: `-` reads ids from it")
    with user_input(Path("standard input")):
        return list(dict.fromkeys(sys.stdin.read().split()))


def each_picture(image_ids: Sequence[str], change: Callable[[str], _Answer]) -> Iterator[tuple[str, _Answer]]:
    """Each picture's id with the answer to its change.

    Pictures that do not exist, such as those of a list that was processed before, do not stop the others; they are
    reported in a UserError at the end.
    """
    from regard_client import RequestRefused

    missing = []
    for image_id in image_ids:
        try:
            answer = change(image_id)
        except RequestRefused as fault:
            if fault.status != HTTPStatus.NOT_FOUND:
                raise
            missing.append(str(fault))
        else:
            yield image_id, answer
    for reason in missing[:-1]:
        print_note(reason)
    if missing:
        count = "" if len(missing) == 1 else f" {len(missing)} of {len(image_ids)} are not there."
        raise UserError(missing[-1] + count)


def print_each(changed: Iterable[_Changed], line: Callable[[_Changed], str], as_json: bool) -> None:
    """Print a line for each change as it completes, or all of them as JSON at the end, also after an error."""
    done: list[_Changed] = []
    try:
        for item in changed:
            done.append(item)
            if not as_json:
                print(visible(line(item)))
    finally:
        if as_json:
            print_json(done)
