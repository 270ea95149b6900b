"""A service that is killed at fault points: one process a kill, all children of one that has loaded everything.

python -m tests.support.fault_walk FOLDER POINT:TIMES .. prints a line of JSON for each: whether the service was killed
there, and what a look finds wrong after a restart, and after every request was sent again.
"""

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import httpx

from index import fault_points
from service.chaos.findings import Findings
from service.chaos.ledger import Ledger, LedgerEntry, PictureState, deleted, edited, restored, uploaded
from service.chaos.looks import Look
from service.chaos.pictures import draw
from service.chaos.stored import stored_findings
from service.model_loading import LoadedModels
from service.settings import Settings
from service.worker.process import open_worker
from service.worker.worker import Worker
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.library import NOW
from tests.support.web_app import Web
from tests.support.web_transport import WebTransport

NUM_PICTURES = 6
PATIENCE_S = 60.0

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
    """What was sent and what was acknowledged, on disk before the next thing happens."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, word: str) -> None:
        """Add a line."""
        os.write(self._handle, f"{word}\n".encode())


def ledger_of(path: Path) -> Ledger:
    """What must be true after so much of STEPS."""
    ledger = Ledger((number, draw(1, number)) for number in range(NUM_PICTURES))
    words = path.read_text(encoding="ascii").split()
    for (name, numbers), acknowledged in zip(STEPS, _acknowledged(words), strict=False):
        for entry in (ledger.entries[number] for number in numbers):
            (entry.acknowledge if acknowledged else entry.leave_open)(CHANGES[name])
    return ledger


def _acknowledged(words: Sequence[str]) -> Iterator[bool]:
    """For each step that was begun, whether it was done."""
    for place, word in enumerate(words):
        if word == "begun":
            yield words[place + 1 : place + 2] == ["done"]


@contextmanager
def service(folder: Path) -> Iterator[tuple[Web, Worker]]:
    """Web side and worker on the folder, in this process, with small stand-ins for the models."""
    extractor, matcher = FakeExtractor(), FakeMatcher()
    settings = Settings(data_dir=folder, decode_workers=1, disk_reserve_bytes=0, detect_batch=2)
    loaded = LoadedModels(extractor=extractor, matchers={"fake": matcher}, views=["fake"])
    hours = itertools.count(0, 3600)
    with open_worker(settings, extractor, [matcher]) as (worker, _):
        worker._erasure._timer = lambda: next(hours)  # it looks for what to erase at every turn
        web = Web(settings, loaded)
        try:
            yield web, worker
        finally:
            web.close()


def send(http: httpx.Client, name: str, entries: Sequence[LedgerEntry]) -> None:
    """One step's request, which must succeed."""
    paths = [f"/images/{entry.picture.image_id}" for entry in entries]
    if name == "upload":
        manifest = {
            entry.picture.name: {"captions": [entry.picture.caption(0)], "tags": {"batch": 0, "edition": 0}}
            for entry in entries
        }
        files = [("images", (entry.picture.name, entry.picture.content)) for entry in entries]
        answer = http.post("/ingest", files=files, data={"manifest": json.dumps(manifest)})
    elif name == "edit":
        changes = {"captions": [entries[0].picture.caption(1)], "tags": {"edition": 1}}
        answer = http.patch(paths[0], json=changes)
    elif name == "delete":
        answer = http.delete(paths[0])
    else:
        answer = http.post(f"{paths[0]}/restore")
    assert answer.is_success, f"{name}: {answer.text}"


def run(folder: Path, place: str | None) -> None:
    """Take all steps, dying at the fault point."""
    journal = Journal(folder / "journal")
    entries = Ledger((number, draw(1, number)) for number in range(NUM_PICTURES)).entries
    fault_points.arm(place)
    with service(folder / "data") as (web, worker), closing(client(web)) as http:
        for name, numbers in STEPS:
            journal.write("begun")
            if name == "work":
                work(worker)
            else:
                send(http, name, [entries[number] for number in numbers])
            journal.write("done")


def client(web: Web) -> httpx.Client:
    """Speaks to the web side."""
    return httpx.Client(transport=WebTransport(web), base_url="http://localhost")


def work(worker: Worker) -> None:
    """Work until nothing is left to do, with the views."""
    while worker.run_once():
        pass


def look(folder: Path) -> list[str]:
    """What is wrong after a restart, and once every picture was sent again, and on the disk at last."""
    findings = Findings()
    ledger = ledger_of(folder / "journal")
    with service(folder / "data") as (web, worker), closing(client(web)) as http:
        work(worker)
        _compare(web, ledger, findings)
        for entry in ledger.entries:
            if entry.must_be_hidden:
                send(http, "upload", [entry])
                entry.possible = {PictureState("present", 0)}  # its description comes with it, also where it was kept
        work(worker)
        _compare(web, ledger, findings)
        if not all(entry.must_be_seen for entry in ledger.entries):
            findings.add("lost", "everything", "some picture is not there once all were sent again")
    for finding in stored_findings(folder / "data"):
        findings.add(finding.kind, finding.subject, finding.words)
    return [str(finding) for finding in findings.all()]


def _compare(web: Web, ledger: Ledger, findings: Findings) -> None:
    with closing(Look("http://localhost", findings, transport=WebTransport(web))) as one:
        if not one.settle(PATIENCE_S):
            findings.add("fault", "settling", "pictures were still waiting")
        one.compare(ledger.entries, "fake")


def in_child(work_of_child: Callable[[], None]) -> int:
    """Do it in a process that has everything loaded; its status, negative for a signal."""
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
    """Kill a service there and look at what is left."""
    folder.mkdir()
    status = in_child(lambda: run(folder, place))
    told = folder / "findings"
    looked = in_child(lambda: print(json.dumps(look(folder)), file=told.open("w")))
    wrong = json.loads(told.read_text()) if looked == 0 else [f"the look ended with {looked}"]
    return {"place": place, "killed": status == -signal.SIGKILL, "status": status, "wrong": wrong}


def main() -> None:
    """Walk over the places named."""
    folder = Path(sys.argv[1])
    for number, place in enumerate(sys.argv[2:]):
        print(json.dumps(walk(folder / str(number), place)), flush=True)


if __name__ == "__main__":
    main()
