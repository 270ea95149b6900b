"""Web side and worker on one data directory, in this process, with small stand-ins for the models; a look at both."""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from service.chaos.findings import Findings
from service.chaos.ledger import Ledger, LedgerEntry, PictureState
from service.chaos.looks import Look
from service.chaos.pictures import draw
from service.chaos.stored import stored_findings
from service.clocks import Clocks
from service.model_loading import LoadedModels
from service.settings import Settings
from service.worker.process import open_worker
from service.worker.worker import Worker
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.library import NOW
from tests.support.web_app import Web
from tests.support.web_transport import WebTransport

PATIENCE_S = 60.0


def drawn_ledger(num_pictures: int) -> Ledger:
    """Entries of that many pictures, none of which was sent yet."""
    return Ledger((number, draw(1, number)) for number in range(num_pictures))


@dataclass(frozen=True)
class WholeService:
    """The two sides of a service, and a client of it."""

    web: Web
    worker: Worker
    http: httpx.Client

    def work(self) -> None:
        """Work until nothing is left to do, with the views."""
        while self.worker.run_once():
            pass

    def send(self, name: str, entries: Sequence[LedgerEntry], edition: int = 1) -> httpx.Response:
        """The answer to one change: upload, edit, delete or restore; an edit makes that edition."""
        path = f"/images/{entries[0].picture.image_id}"
        if name == "upload":
            manifest = {
                entry.picture.name: {"captions": [entry.picture.caption(0)], "tags": {"batch": 0, "edition": 0}}
                for entry in entries
            }
            files = [("images", (entry.picture.name, entry.picture.content)) for entry in entries]
            return self.http.post("/ingest", files=files, data={"manifest": json.dumps(manifest)})
        if name == "edit":
            changes = {"captions": [entries[0].picture.caption(edition)], "tags": {"edition": edition}}
            return self.http.patch(path, json=changes)
        return self.http.delete(path) if name == "delete" else self.http.post(f"{path}/restore")

    def change(
        self,
        name: str,
        entries: Sequence[LedgerEntry],
        change: Callable[[PictureState], set[PictureState]],
        edition: int = 1,
    ) -> None:
        """Send a change that must be acknowledged, and enter it in the ledger."""
        answer = self.send(name, entries, edition)
        assert answer.is_success, f"{name}: {answer.text}"
        for entry in entries:
            entry.acknowledge(change)

    def compare(self, ledger: Ledger, findings: Findings) -> None:
        """Compare everything with the ledger, once the worker is idle."""
        with closing(Look("http://localhost", findings, transport=WebTransport(self.web))) as one:
            if not one.settle(PATIENCE_S):
                findings.add("fault", "settling", "pictures were still waiting")
            one.compare(ledger.entries, "fake")


@contextmanager
def whole_service(
    folder: Path,
    clock: Callable[[], float] = lambda: NOW,
    worker_clock: Callable[[], float] = time.time,
    **settings: Any,
) -> Iterator[WholeService]:
    """Such a service on the folder. The worker's clock is the true one, years ahead of the web side's, unless given.

    Hours pass between any two looks of the worker at its timer, so that all is due that waits for its time.
    """
    extractor, matcher = FakeExtractor(), FakeMatcher()
    wanted: dict[str, Any] = {"decode_workers": 1, "disk_reserve_bytes": 0, "detect_batch": 2, **settings}
    chosen = Settings(data_dir=folder, **wanted)
    loaded = LoadedModels.of(extractor, {"fake": matcher}, views=["fake"])
    hours = itertools.count(time.monotonic() + 3600, 3600)
    with open_worker(chosen, extractor, [matcher], clocks=Clocks(worker_clock, lambda: next(hours))) as (worker, _):
        web = Web(chosen, loaded, clock)
        try:
            with httpx.Client(transport=WebTransport(web), base_url="http://localhost") as http:
                yield WholeService(web, worker, http)
        finally:
            web.close()


def wrong_on_disk(folder: Path) -> list[str]:
    """The faults on disk, checked while nobody writes."""
    return [str(finding) for finding in stored_findings(folder)]
