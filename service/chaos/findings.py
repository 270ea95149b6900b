"""Findings: the faults found during a run, each listed once."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["lost", "half", "duplicated", "fault"]
""""lost": an acknowledged change is gone; "half": a part of a picture is missing or damaged; "duplicated": a picture
exists twice; "fault": anything else, such as a different answer or a process that ended by itself."""


@dataclass(frozen=True)
class Finding:
    """A fault of `subject`: a picture, a file, a process."""

    kind: Kind
    subject: str
    message: str

    def __str__(self) -> str:
        """A line of the report."""
        return f"{self.kind}: {self.subject}: {self.message}"


class Findings:
    """Collects findings, each only once. Safe to share between threads."""

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        """`say` gets a line for each new finding."""
        self._say, self._lock = say, threading.Lock()
        self._found: dict[tuple[Kind, str], Finding] = {}

    def add(self, kind: Kind, subject: str, message: str) -> None:
        """Add a finding, unless there is one of this kind and subject."""
        finding = Finding(kind, subject, message)
        with self._lock:
            is_new = self._found.setdefault((kind, subject), finding) is finding
        if is_new:
            self._say(str(finding))

    def add_all(self, findings: Iterable[Finding]) -> None:
        """Add each of these as `add` does."""
        for finding in findings:
            self.add(finding.kind, finding.subject, finding.message)

    def count(self, kind: Kind) -> int:
        """The number of findings of this kind."""
        with self._lock:
            return sum(finding.kind == kind for finding in self._found.values())

    def all(self) -> list[Finding]:
        """Every finding, in order."""
        with self._lock:
            return list(self._found.values())
