"""A server on a real socket over a Library, with a thread that does what a worker would."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.matching.lazy_matcher import LazyMatcher, MatcherHeader
from service.api.app import create_app
from service.api.services import build_services
from service.model_loading import LoadedModels
from service.processes.connections import web_server
from service.serve import base_url, listening_socket
from service.settings import Settings
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.library import Library


@contextmanager
def running_server(
    folder: Path,
    matcher: FakeMatcher | None = None,
    extractor: FakeExtractor | None = None,
    at_first_use: bool = False,
    port: int = 0,
    **settings_given: Any,
) -> Iterator[str]:
    """The address of a server on the data directory, until the block ends.

    It searches by `matcher` and finds regions by `extractor` where they are given; `at_first_use`: the matcher is
    loaded when it is first asked. Further arguments are settings.
    """
    library = Library(folder, extractor=extractor)
    searches_by = matcher or library.matcher
    unread = LazyMatcher(MatcherHeader.of(searches_by), lambda: searches_by)
    model = unread if at_first_use else LazyMatcher.of(searches_by)
    loaded = LoadedModels(extractor=library.extractor, models={"fake": model}, views=["fake"])
    settings = Settings(data_dir=folder, decode_workers=1, **{"inspect_timeout_s": 60.0, **settings_given})
    services = build_services(settings, loaded, wake=lambda: None)
    server = web_server(create_app(services), settings)
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.02):
            library.work(services.storage.originals, services.pool)

    with listening_socket("127.0.0.1", port) as listening:
        threads = [threading.Thread(target=server.run, args=([listening],)), threading.Thread(target=work)]
        for thread in threads:
            thread.start()
        try:
            while not server.started and threads[0].is_alive():
                time.sleep(0.01)
            yield base_url(listening)
        finally:
            over.set()
            threads[1].join()
            server.should_exit = True
            threads[0].join()
    library.close()
