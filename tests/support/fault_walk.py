"""A service that is killed at fault points, in one process per kill, forked from one that has loaded everything.

python -m tests.support.fault_walk FOLDER POINT:TIMES .. prints a line of JSON for each: whether the service was killed
there, and what a look finds wrong after a restart, and after every request was sent again.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from index import fault_points
from models.text.vocabulary import tokenize
from service.chaos.findings import Findings
from service.chaos.ledger import Ledger, PictureState, deleted, edited, restored, uploaded
from tests.support.library import NOW
from tests.support.whole_service import drawn_ledger, whole_service, wrong_on_disk

NUM_PICTURES = 6

Step = tuple[str, tuple[int, ...]]
STEPS: tuple[Step, ...] = (
    ("upload", (0, 1, 2)),
    ("work", ()),
    ("upload", (3, 4)),
    ("edit", (0,)),
    ("delete", (1,)),
    ("delete", (2,)),
    ("restore", (2,)),
    ("work", ()),
    ("upload", (5, 1)),  # one that was erased comes again
    ("edit", (3,)),
    ("delete", (4,)),
    ("work", ()),
)
"""What is sent, and when the worker works. It takes what was deleted for final at once: its clock is years ahead."""

CHANGES: dict[str, Callable[[PictureState], set[PictureState]]] = {
    "upload": uploaded,
    "edit": edited,
    "delete": deleted(NOW),
    "restore": restored,
}


class Journal:
    """A log of sent and acknowledged requests, on disk before the next step."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, word: str) -> None:
        """Add a line."""
        os.write(self._handle, f"{word}\n".encode())


def ledger_of(path: Path) -> Ledger:
    """The expected states after the given part of STEPS."""
    ledger = drawn_ledger(NUM_PICTURES)
    words = path.read_text(encoding="ascii").split()
    for (name, numbers), acknowledged in zip(STEPS, _acknowledged(words), strict=False):
        for entry in (ledger.entries[number] for number in numbers):
            (entry.acknowledge if acknowledged else entry.leave_open)(CHANGES[name])
    return ledger


def _acknowledged(words: Sequence[str]) -> Iterator[bool]:
    """For each step that was begun, whether it was acknowledged."""
    for place, word in enumerate(words):
        if word == "begun":
            yield words[place + 1 : place + 2] == ["done"]


def run(folder: Path, place: str | None) -> None:
    """Execute all steps, until the process dies at the fault point."""
    journal = Journal(folder / "journal")
    entries = drawn_ledger(NUM_PICTURES).entries
    fault_points.arm(place)
    with whole_service(folder / "data") as service:
        for name, numbers in STEPS:
            journal.write("begun")
            if name == "work":
                service.work()
            else:
                answer = service.send(name, [entries[number] for number in numbers])
                assert answer.is_success, f"{name}: {answer.text}"
            journal.write("done")


def look(folder: Path) -> list[str]:
    """The faults after a restart, after sending every picture again, and finally on disk."""
    findings = Findings()
    ledger = ledger_of(folder / "journal")
    with whole_service(folder / "data") as service:
        service.work()
        service.compare(ledger, findings)
        for entry in ledger.entries:
            if entry.must_be_hidden:
                for path in (folder / "data").rglob(f"{entry.picture.image_id}*"):
                    findings.add("lost", str(path), "a file of a picture that was deleted for good, or never there")
                service.send("upload", [entry])
                entry.possible = {PictureState("present", 0)}  # its description comes with it, also where it was kept
        service.work()
        service.compare(ledger, findings)
        if not all(entry.must_be_seen for entry in ledger.entries):
            findings.add("lost", "everything", "some picture is not there once all were sent again")
    return [*map(str, findings.all()), *wrong_on_disk(folder / "data")]


def in_child(work_of_child: Callable[[], None]) -> int:
    """Call a function in a forked process. Returns its exit status, negative for a signal."""
    child = os.fork()
    if not child:
        try:
            work_of_child()
        except BaseException as error:  # whatever it is must not go on as the parent
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def walk(folder: Path, place: str) -> dict[str, object]:
    """Kill a service at a fault point and check what is left."""
    folder.mkdir()
    status = in_child(lambda: run(folder, place))
    told = folder / "findings"
    looked = in_child(lambda: print(json.dumps(look(folder)), file=told.open("w")))
    wrong = json.loads(told.read_text()) if looked == 0 else [f"the look ended with {looked}"]
    return {"place": place, "killed": status == -signal.SIGKILL, "status": status, "wrong": wrong}


def start_walker(folder: Path, places: Sequence[tuple[int, str]]) -> int:
    """Test these fault points in a child process. Returns its id."""
    child = os.fork()
    if not child:
        for number, place in places:
            line = json.dumps(walk(folder / str(number), place))
            os.write(1, f"{line}\n".encode())  # at once, or lines of several walkers would mix
        os._exit(0)
    return child


def main() -> None:
    """Test the named fault points, with one child for each processor."""
    folder, places = Path(sys.argv[1]), list(enumerate(sys.argv[2:]))
    tokenize("a sentence")  # imports nltk, which every child would import for itself
    walkers = len(os.sched_getaffinity(0))
    started = [start_walker(folder, places[part::walkers]) for part in range(walkers)]
    statuses = [os.waitpid(child, 0)[1] for child in started]
    raise SystemExit(int(any(statuses)))


if __name__ == "__main__":
    main()
