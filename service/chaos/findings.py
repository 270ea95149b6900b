"""Findings: the faults that a run of kills met, each once, in words."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["lost", "half", "duplicated", "fault"]
"""A change that was acknowledged and is not there; a picture of which a part is missing or damaged; one that is there
twice; and whatever else is wrong, such as an answer that differs or a process that ended by itself."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with `subject`: a picture, a file, a process."""

    kind: Kind
    subject: str
    words: str

    def __str__(self) -> str:
        """A line for people."""
        return f"{self.kind}: {self.subject}: {self.words}"


class Findings:
    """Collects findings. The same thing, found again, is not counted again. Safe from many threads."""

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        """`say` gets a line for each new finding."""
        self._say, self._lock = say, threading.Lock()
        self._found: dict[tuple[Kind, str], Finding] = {}

    def add(self, kind: Kind, subject: str, words: str) -> None:
        """Note a finding."""
        finding = Finding(kind, subject, words)
        with self._lock:
            is_new = self._found.setdefault((kind, subject), finding) is finding
        if is_new:
            self._say(str(finding))

    def count(self, kind: Kind) -> int:
        """The number of findings of this kind."""
        with self._lock:
            return sum(finding.kind == kind for finding in self._found.values())

    def all(self) -> list[Finding]:
        """Every finding, in order."""
        with self._lock:
            return list(self._found.values())
