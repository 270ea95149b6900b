"""Looking at real processes."""

import time
from collections.abc import Callable
from pathlib import Path


def children_of(parent: int) -> list[int]:
    """Ids of the processes that `parent` started and that still run, the newest last."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended while we looked
                continue
            if int(after_name[1]) == parent:
                found.append(int(folder.name))
    return sorted(found)


def wait_until(holds: Callable[[], bool]) -> None:
    """Return once it holds; the test's own time limit ends a vain wait."""
    while not holds():
        time.sleep(0.02)
