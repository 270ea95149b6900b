"""Checks of a running service while nobody changes it: whether all acknowledged changes are there, complete and
searchable."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx

from service.chaos.findings import Findings
from service.chaos.ledger import LedgerEntry
from service.chaos.load import ANSWER_TIMEOUT_S, batch_of
from service.chaos.processes import Processes
from service.errors import UserError

IMAGES_AT_ONCE = 100
MOST_HITS, SHORTLIST = 100, 1000
BETWEEN_S = 0.2
SETTLING_PATIENCE_S = 900.0  # generous, since the machine may be busy with other work
SET_ASIDE_BY_KILLS = "ended the worker"  # in the reason of failures to which kills lead


class Interrupted(Exception):
    """The service was killed during a check."""


class Look:
    """One check, from its first request to its last. Raises Interrupted where no answer comes."""

    def __init__(
        self,
        url: str,
        findings: Findings,
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`transport` replaces the network in tests."""
        self._http = httpx.Client(base_url=url, timeout=ANSWER_TIMEOUT_S, transport=transport)
        self._findings, self._sleep = findings, sleep

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The answer, once the service is not too busy."""
        while True:
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError as fault:
                raise Interrupted from fault
            if answer.status_code != 503:
                return answer
            self._sleep(BETWEEN_S)

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of an answer that must be successful; anything else is a finding, and raises Interrupted."""
        answer = self.send("GET", path, params=query)
        if not answer.is_success:
            self._findings.add("fault", f"GET {path}", f"{answer.status_code}: {answer.text[:300]}")
            raise Interrupted
        return answer.json()

    def hits(self, path: str, **options: Any) -> list[dict[str, Any]]:
        """The hits of a search; empty where it is refused, which is a finding."""
        answer = self.send("POST", path, **options)
        if not answer.is_success:
            self._findings.add("fault", f"POST {path}", f"{answer.status_code}: {answer.text[:300]}")
            return []
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    def is_ready(self) -> bool:
        """Whether the service reports that it is ready."""
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def require_ready(self, processes: Processes) -> None:
        """Wait until the service is ready. UserError where one of its processes ends, or it takes too long."""
        deadline = time.monotonic() + SETTLING_PATIENCE_S
        while not self.is_ready():
            if (ended := processes.ended()) or time.monotonic() > deadline:
                raise UserError(f"the service does not start ({ended or 'not in time'}): see {processes.logs}")
            self._sleep(BETWEEN_S)

    def settle(self, patience_s: float, timer: Callable[[], float] = time.monotonic) -> bool:
        """Wait until every picture has its regions and is in every view; False after `patience_s`."""
        deadline = timer() + patience_s
        while timer() < deadline:
            self._retry_failures_of_kills()
            waiting = [image for image in self.images() if image["state"] == "queued"]
            behind = [model for model in self.get("/models")["models"] if model["state"] != "ready"]
            is_empty = not any(True for _ in self.images())
            if not waiting and (not behind or is_empty):
                return True
            self._sleep(BETWEEN_S)
        return False

    def require_settled(self) -> None:
        """Settle with much patience; where that does not suffice, it is a finding."""
        if not self.settle(SETTLING_PATIENCE_S):
            self._findings.add("fault", "settling", f"pictures were still waiting after {SETTLING_PATIENCE_S:g} s")

    def models(self) -> list[str]:
        """The names of all models."""
        return [model["name"] for model in self.get("/models")["models"]]

    def _retry_failures_of_kills(self) -> None:
        """Retry pictures that were with the detector at every kill, and so were set aside, as they should be."""
        for failure in self.get("/failures")["failures"]:
            if SET_ASIDE_BY_KILLS in failure["reason"]:
                self.send("POST", f"/failures/{failure['image_id']}/retry")

    def images(self) -> Iterator[dict[str, Any]]:
        """Every listed picture, page by page."""
        page = self.get("/images", limit=IMAGES_AT_ONCE)
        yield from page["images"]
        while page["next"] is not None:
            page = self.get("/images", limit=IMAGES_AT_ONCE, after=page["next"])
            yield from page["images"]

    def compare(self, entries: Sequence[LedgerEntry], model: str | None) -> None:
        """Compare the service with the ledger: update the ledger, and add differences to the findings."""
        listed = self._listed()
        for entry in entries:
            image = listed.pop(entry.picture.image_id, None)
            tags = {} if image is None else image["tags"]
            entry.look(tags.get("edition"), image is not None, self._findings)
            if image is not None:
                self._look_at(entry, image)
        for image_id in listed:
            self._findings.add("fault", image_id, "it exists, but was never sent")
        self._search_all(entries, model)

    def _listed(self) -> dict[str, dict[str, Any]]:
        listed: dict[str, dict[str, Any]] = {}
        for image in self.images():
            if image["image_id"] in listed:
                self._findings.add("duplicated", image["image_id"], "it is listed twice")
            listed[image["image_id"]] = image
        return listed

    def _look_at(self, entry: LedgerEntry, image: dict[str, Any]) -> None:
        """Check that a present picture has all its parts."""
        image_id = entry.picture.image_id
        if image["state"] != "ready":
            self._findings.add("half", image_id, f"it stayed {image['state']}")
            return
        missing = [
            part
            for part, path in (("picture", image["url"]), ("thumbnail", image["thumbnail_url"]))
            if not self.send("GET", path).is_success
        ]
        regions = self.send("GET", f"/images/{image_id}/regions")
        if not regions.is_success or not regions.json()["regions"]:
            missing.append("regions")
        edition = image["tags"].get("edition")
        expected = [] if edition is None else [entry.picture.caption(edition)]
        if image["captions"] != expected:
            missing.append("caption")
        if missing:
            self._findings.add("half", image_id, f"without its {' and '.join(missing)}")

    def _search_all(self, entries: Sequence[LedgerEntry], model: str | None) -> None:
        """Search for all pictures of a batch at once: exactly those that are present must be found."""
        batches: dict[int, list[LedgerEntry]] = {}
        for entry in entries:
            batches.setdefault(batch_of(entry.number), []).append(entry)
        for batch, in_batch in batches.items():
            body = {
                "query": in_batch[0].picture.sentence,
                "k": MOST_HITS,
                "shortlist": SHORTLIST,
                "model": model,
                "filter": {"tags": {"batch": batch}},
            }
            hits = [hit["image_id"] for hit in self.hits("/search/text", json=body)]
            for image_id in {hit for hit in hits if hits.count(hit) > 1}:
                self._findings.add("duplicated", image_id, "one search found it twice")
            for entry in in_batch:
                image_id = entry.picture.image_id
                if entry.must_be_seen and image_id not in hits:
                    self._findings.add("lost", image_id, f"{model or 'the default model'} does not find it")
                if entry.must_be_hidden and image_id in hits:
                    self._findings.add("lost", image_id, f"it was deleted, and {model or 'the default model'} finds it")
