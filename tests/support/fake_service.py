"""A fake of the service's HTTP interface, with faults that tests can enable."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from service.chaos.ledger import LedgerEntry
from service.chaos.load import batch_of


@dataclass
class FakeService:
    """Answers like a service with these `images`; each further field enables one fault."""

    images: list[dict[str, Any]] = field(default_factory=list)
    unfound: set[str] = field(default_factory=set)
    found_twice: set[str] = field(default_factory=set)
    without: dict[str, str] = field(default_factory=dict)
    """Path -> nothing is there."""
    blank: set[str] = field(default_factory=set)
    """Ids of pictures of which no region is told."""
    also_found: set[str] = field(default_factory=set)
    failures: list[dict[str, Any]] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    broken: bool = False

    def put(self, entry: LedgerEntry, edition: int | None = 0) -> dict[str, Any]:
        """Hold the picture of an entry, described as after so many changes; its listing."""
        image_id = entry.picture.image_id
        tags = {"batch": batch_of(entry.number)} | ({} if edition is None else {"edition": edition})
        image = {
            "image_id": image_id,
            "state": "ready",
            "url": f"/images/{image_id}",
            "thumbnail_url": f"/images/{image_id}/thumbnail",
            "captions": [] if edition is None else [entry.picture.caption(edition)],
            "tags": tags,
        }
        self.images.append(image)
        return image

    def transport(self) -> httpx.MockTransport:
        """What a client sends its requests through."""
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if self.broken:
            return httpx.Response(500, json={"detail": "broken"})
        fixed: dict[str, Callable[[], Any]] = {
            "/readyz": lambda: {},
            "/models": lambda: {"models": [{"name": "fake", "state": "ready"}]},
            "/failures": lambda: {"failures": self.failures},
            "/images": lambda: {"images": self.images, "next": None},
            "/search/text": lambda: {"results": self._found(json.loads(request.content))},
        }
        if path in fixed:
            return httpx.Response(200, json=fixed[path]())
        if path.endswith("/retry"):
            self.retried.append(path.split("/")[2])
            self.failures.clear()
            return httpx.Response(202, json={})
        if path in self.without:
            return httpx.Response(404, json={"detail": self.without[path]})
        image_id = path.split("/")[2]
        return httpx.Response(200, json={"regions": [] if image_id in self.blank else [{"label": "ball"}]})

    def _found(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        batch = body["filter"]["tags"]["batch"]
        ids = [image["image_id"] for image in self.images if image["tags"]["batch"] == batch]
        ids = [one for one in ids if one not in self.unfound]
        ids = list(dict.fromkeys(ids)) + [one for one in ids if one in self.found_twice]
        return [{"image_id": one, "score": 0.5} for one in [*ids, *self.also_found]]
