"""The load: clients that add, search, delete, restore, edit and copy pictures, chosen by a seed.

Each client has its own pictures, so that it knows their expected state. Requests are determined by the seed; answers
depend on the moment of a kill.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from service.chaos.findings import Findings
from service.chaos.gate import Gate
from service.chaos.ledger import Ledger, LedgerEntry, PictureState, deleted, edited, restored, uploaded

ANSWER_TIMEOUT_S = 120.0
LONGEST_THINKING_S = 0.3  # between two requests of a client
PER_BATCH = 50  # pictures with the same tag `batch`, so that one search can find all of them
BUSY = (429, 503, 507)


def batch_of(number: int) -> int:
    """The value of a picture's tag `batch`."""
    return number // PER_BATCH


class LoadClient:
    """Sends one request after the other until it is stopped."""

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        rng: random.Random,
        gate: Gate,
        findings: Findings,
        grace_s: float,
        copy: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`copy` takes a snapshot and checks it. `grace_s`: how long a deletion can be undone."""
        self._http = httpx.Client(base_url=url, timeout=ANSWER_TIMEOUT_S)
        self._ledger, self._rng, self._gate, self._findings = ledger, rng, gate, findings
        self._grace_s, self._copy, self._clock = grace_s, copy, clock
        self._models: list[str] = []

    def run(self, over: threading.Event) -> None:
        """Work until `over` is set."""
        weights: dict[Callable[[], None], float] = {
            self._upload: 5,
            self._search: 5,
            self._search_by_picture: 2,
            self._edit: 2,
            self._delete: 2,
            self._restore: 2,
        }
        if self._copy is not None:
            weights[self._copy] = 0.15
        while not over.wait(self._rng.uniform(0, LONGEST_THINKING_S)):
            (operation,) = self._rng.choices(list(weights), list(weights.values()))
            with self._gate.turn():
                operation()
        self._http.close()

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        """The answer; None where none came, or the service is too busy. Other server errors are findings."""
        try:
            answer = self._http.request(method, path, **options)
        except httpx.TransportError:
            return None
        if answer.status_code >= 500 and answer.status_code not in BUSY:
            self._findings.add("fault", f"{method} {path.split('/')[1]}", f"{answer.status_code}: {answer.text[:300]}")
        return None if answer.status_code in BUSY or answer.status_code >= 500 else answer

    def _change(
        self,
        entry: LedgerEntry,
        change: Callable[[PictureState], set[PictureState]],
        method: str,
        path: str,
        **options: Any,
    ) -> httpx.Response | None:
        """Send a change of a picture and record it in the ledger; returns the answer, or None."""
        answer = self._send(method, path, **options)
        if answer is None:
            entry.leave_open(change)
        elif answer.is_success:
            entry.acknowledge(change)
            self._ledger.acknowledged += 1
        return answer

    def _pick(self, *statuses: str, most: int = 1) -> Sequence[LedgerEntry]:
        candidates = self._ledger.certain(*statuses)
        return self._rng.sample(candidates, min(most, len(candidates)))

    def _upload(self) -> None:
        new = self._pick("absent", most=self._rng.randint(1, 4))
        entries = [*new, *(self._pick("present", "deleted") if self._rng.random() < 0.2 else ())]
        if not entries:
            return
        manifest: dict[str, dict[str, Any]] = {}
        for entry in entries:
            manifest[entry.picture.name] = {"tags": {"batch": batch_of(entry.number)}}
            if entry in new:
                manifest[entry.picture.name]["tags"]["edition"] = 0
                manifest[entry.picture.name]["captions"] = [entry.picture.caption(0)]
        files = [("images", (entry.picture.name, entry.picture.content)) for entry in entries]
        answer = self._send("POST", "/ingest", files=files, data={"manifest": json.dumps(manifest)})
        accepted = [] if answer is None else [file["image_id"] for file in answer.json().get("accepted", [])]
        for entry in entries:
            if answer is None:
                entry.leave_open(uploaded)
            elif entry.picture.image_id in accepted:
                entry.acknowledge(uploaded)
                self._ledger.acknowledged += 1
            else:
                self._findings.add("fault", entry.picture.name, f"it was not accepted: {answer.text[:300]}")

    def _edit(self) -> None:
        for entry in self._pick("present"):
            assert entry.state is not None
            edition = (entry.state.edition or 0) + 1
            changes = {"captions": [entry.picture.caption(edition)], "tags": {"edition": edition}}
            answer = self._change(entry, edited, "PATCH", f"/images/{entry.picture.image_id}", json=changes)
            self._expect_success(entry, answer, "edited")

    def _delete(self) -> None:
        for entry in self._pick("present"):
            change = deleted(self._clock())
            answer = self._change(entry, change, "DELETE", f"/images/{entry.picture.image_id}")
            self._expect_success(entry, answer, "deleted")

    def _restore(self) -> None:
        for entry in self._pick("deleted"):
            assert entry.state is not None
            deleted_at = entry.state.deleted_at
            answer = self._change(entry, restored, "POST", f"/images/{entry.picture.image_id}/restore")
            is_over = self._clock() - deleted_at >= self._grace_s
            if is_over and answer is not None and answer.status_code == 404:
                entry.acknowledge(lambda _: {PictureState()})
                return
            self._expect_success(entry, answer, "brought back")

    def _expect_success(self, entry: LedgerEntry, answer: httpx.Response | None, done: str) -> None:
        if answer is not None and not answer.is_success:
            self._findings.add("lost", entry.picture.image_id, f"it cannot be {done}: {answer.text[:300]}")

    def _model(self) -> str | None:
        if not self._models and (answer := self._send("GET", "/models")) is not None and answer.is_success:
            self._models = [model["name"] for model in answer.json()["models"]]
        return self._rng.choice(self._models) if self._models else None

    def _search(self) -> None:
        sentence = self._rng.choice(self._ledger.entries).picture.sentence
        body = {"query": sentence, "k": 20, "model": self._model(), "explain": self._rng.random() < 0.3}
        self._check_hits(self._send("POST", "/search/text", json=body))

    def _search_by_picture(self) -> None:
        form: dict[str, Any] = {"target": self._rng.choice(["captions", "images"]), "model": self._model() or ""}
        picture = self._rng.choice(self._ledger.entries).picture
        stored = self._pick("present")
        if stored and self._rng.random() < 0.5:
            form["image_id"] = stored[0].picture.image_id
            answer = self._send("POST", "/search/image", files={name: (None, value) for name, value in form.items()})
        else:
            answer = self._send("POST", "/search/image", data=form, files={"image": (picture.name, picture.content)})
        self._check_hits(answer)

    def _check_hits(self, answer: httpx.Response | None) -> None:
        """Check that no hit is repeated, and that none is deleted. Other clients' pictures may change at this
        moment."""
        if answer is None or not answer.is_success:
            return
        hits = answer.json()["results"]
        subjects = [hit.get("caption_id", hit["image_id"]) for hit in hits]
        for subject in {subject for subject in subjects if subjects.count(subject) > 1}:
            self._findings.add("duplicated", str(subject), "one search found it twice")
        found_ids = {hit["image_id"] for hit in hits}
        for entry in self._ledger.entries:
            if entry.must_be_hidden and entry.picture.image_id in found_ids:
                self._findings.add("lost", entry.picture.image_id, "it was deleted, and a search found it")


def copy_and_look(data_dir: Path, out: Path, findings: Findings) -> None:
    """Take a snapshot of a data directory in use, restore it, and verify the result."""
    from service.storage.snapshots.restoration import restore_snapshot  # noqa: PLC0415 - imports PyTorch
    from service.storage.snapshots.snapshot import take_snapshot  # noqa: PLC0415
    from service.storage.verification import find_damage  # noqa: PLC0415

    archive, restored_dir = out / "copy.tar", out / "again"
    content = take_snapshot(data_dir, archive)
    if content.missing:
        findings.add("half", archive.name, f"{content.missing} originals were missing when a snapshot was taken")
    restore_snapshot(archive, restored_dir)
    for fault in find_damage(restored_dir):
        findings.add("half", "snapshot", fault)
