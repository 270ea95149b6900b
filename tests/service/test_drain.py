"""A server that is told to end: what it has begun is answered, whoever comes later is not."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from torch import Tensor

from models.matching.encoded import EncodedImages, EncodedTexts
from service.media.decode_pool import DecodePool
from service.processes import connections
from tests.support.fakes import FakeMatcher
from tests.support.library import Library, two_coloured
from tests.support.processes import wait_until
from tests.support.running_server import running_server
from tests.support.web_app import png

TIMEOUT_S = 120.0


class WaitingMatcher(FakeMatcher):
    """A FakeMatcher that waits, once it is told to, until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False
        self.asked, self.may_go_on = threading.Event(), threading.Event()

    def score(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        if self.waits:
            self.asked.set()
            assert self.may_go_on.wait(TIMEOUT_S)
        return super().score(images, texts)


def is_refused(url: str) -> bool:
    """Whether nobody listens there. Who comes just as it closes may get through and be cut off."""
    try:
        httpx.get(f"{url}/livez")
    except httpx.ConnectError:
        return True
    except httpx.TransportError:
        return False
    return False


def search(url: str, query: str) -> httpx.Response:
    with httpx.Client(base_url=url, timeout=TIMEOUT_S) as http:
        return http.post("/search/text", json={"query": query, "match": "pictures"})


def test_what_was_begun_is_answered_before_it_ends(tmp_path: Path) -> None:
    with closing(Library(tmp_path)) as library:
        library.add("red", two_coloured("red", "red"))
    matcher, quiet = WaitingMatcher(), threading.Event()
    with ThreadPoolExecutor(2) as others:

        def release_once(holds: Callable[[], bool]) -> None:
            try:
                wait_until(holds)
            finally:
                quiet.set()
                matcher.may_go_on.set()

        with running_server(tmp_path, matcher) as url:
            assert search(url, "green").status_code == 200  # after what the model costs was measured
            matcher.waits = True
            begun = others.submit(search, url, "red")
            assert matcher.asked.wait(TIMEOUT_S)
            released = others.submit(release_once, lambda: is_refused(url))
            assert not quiet.is_set()  # it listens until the block ends, as with SIGTERM
        released.result(TIMEOUT_S)
        answer = begun.result(TIMEOUT_S)
    assert answer.status_code == 200, answer.text
    assert [hit["filename"] for hit in answer.json()["results"]] == ["red.png"]


def test_an_upload_that_takes_too_long_to_look_at_is_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Library(tmp_path).close()
    looks = DecodePool.inspect
    begun, over = threading.Event(), threading.Event()

    def look_slowly(pool: DecodePool, path: Path) -> str:
        begun.set()
        over.wait(0.05)
        return looks(pool, path)

    monkeypatch.setattr(DecodePool, "inspect", look_slowly)
    monkeypatch.setattr(connections, "SHUTDOWN_TIMEOUT_S", 1)
    content = png(two_coloured("red", "blue"))
    files = [("images", (f"{number}.png", content, "image/png")) for number in range(1000)]
    with ThreadPoolExecutor(1) as others:
        with running_server(tmp_path) as url:
            sent = others.submit(httpx.post, f"{url}/ingest", files=files, timeout=TIMEOUT_S)
            assert begun.wait(TIMEOUT_S)
        over.set()
        answer = sent.result(TIMEOUT_S)
    assert (answer.status_code, answer.json()["detail"]) == (503, "The service ends; send the request again.")
    assert answer.headers["retry-after"]
    with closing(Library(tmp_path)) as library:
        assert library.catalog.counts()["queued"] == 0
