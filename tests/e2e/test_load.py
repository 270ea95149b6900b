"""Searching while pictures are ingested: full answers or a polite refusal, never half a picture.

REGARD_LOAD_PHOTOS=300 asks for more than a daily run has time for.
"""

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.pictures import photos, queries
from tests.e2e.stack import Stack

NUM_CLIENTS = 16
PHOTOS = int(os.environ.get("REGARD_LOAD_PHOTOS", "10"))


def assert_whole_hit(client: httpx.Client, hit: dict[str, Any]) -> None:
    """A hit names a picture that can be seen, with the regions that its explanation speaks of."""
    assert hit["width"] > 0
    assert hit["height"] > 0
    assert client.get(hit["url"]).status_code == 200
    assert client.get(hit["thumbnail_url"]).status_code == 200
    found = client.get(f"/images/{hit['image_id']}/regions").json()["regions"]
    explanation = hit["explanation"]
    assert [region["box"] for region in explanation["regions"]] == [region["box"] for region in found]
    assert len(found) >= 1
    assert all(len(row) == len(found) for row in explanation["attention"])
    assert len(explanation["attention"]) == len(explanation["words"])


def search_until(stack: Stack, number: int, sentences: list[str], over: threading.Event) -> Counter[int]:
    """Search again and again; how often each status came."""
    statuses: Counter[int] = Counter()
    with httpx.Client(base_url=stack.url, timeout=120) as client:
        while not over.is_set():
            query = sentences[(number + statuses.total()) % len(sentences)]
            answer = client.post("/search/text", json={"query": query, "k": 5, "explain": True})
            statuses[answer.status_code] += 1
            if answer.status_code == 503:
                assert int(answer.headers["Retry-After"]) >= 1
                assert answer.headers["content-type"] == "application/problem+json"
                over.wait(0.2)
                continue
            assert answer.status_code == 200, answer.text
            hits = answer.json()["results"]
            assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
            assert len({hit["image_id"] for hit in hits}) == len(hits)
            if hits:
                assert_whole_hit(client, hits[(number + statuses.total()) % len(hits)])
    return statuses


@pytest.mark.timeout(2000 + 10 * PHOTOS)
def test_sixteen_clients_search_while_pictures_come_in(tmp_path: Path) -> None:
    pictures = photos(PHOTOS)
    over = threading.Event()
    with Stack(tmp_path, {"REGARD_MODELS": "bfan-equal"}) as stack, ThreadPoolExecutor(NUM_CLIENTS) as clients:
        stack.start("all")
        stack.wait_ready()
        sentences = queries(pictures, NUM_CLIENTS)
        searching = [clients.submit(search_until, stack, number, sentences, over) for number in range(NUM_CLIENTS)]
        try:
            receipts = [stack.ingest(pictures[start : start + 5]) for start in range(0, PHOTOS, 5)]
            status = [stack.wait_job(receipt) for receipt in receipts]
        finally:
            over.set()
        statuses = sum((one.result() for one in searching), Counter[int]())
        assert [one["failed"] for one in status] == [0] * len(receipts)
        assert set(statuses) <= {200, 503}
        assert statuses[200] >= NUM_CLIENTS
        assert len(stack.images()) == PHOTOS
