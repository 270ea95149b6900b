"""Regard inside a Python program, such as a notebook: nothing to start, nothing to stop.

The program gets a client of a service in a separate process: PyTorch's threads and memory stay out of the program, and
ingested pictures survive its crash.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard_client import Client
from service.processes.service_process import ServiceProcess
from service.settings import Settings

OWN_SETTINGS = frozenset({"role", "host", "port", "rate_limit"})


@contextmanager
def embedded_service(data_dir: Path | str, api_key: str | None = None, **settings: Any) -> Iterator[Client]:
    """A client of a service on a data directory, which is created if missing; the service ends with the block.

    It is reachable only from this machine, on a free port. `settings` are those of `regard serve`, by their names in
    Python; others come from the environment (`REGARD_MODELS`, ..). A collection with keys needs `api_key`, here or in
    `REGARD_API_KEY`. UserError, with the last lines of its log, where the service does not start, perhaps because
    another one has the data directory open. ValueError for unknown settings, and for those of `OWN_SETTINGS`.
    """
    if taken := sorted(OWN_SETTINGS.intersection(settings)):
        raise ValueError(f"an embedded service chooses {', '.join(taken)} itself: leave it out")
    service_settings = Settings(**settings, data_dir=Path(data_dir), role="all")
    with (
        tempfile.TemporaryDirectory(prefix="regard-") as logs,
        ServiceProcess(service_settings, Path(logs) / "log") as service,
    ):
        service.seconds_until("/readyz")
        with Client(service.url, api_key) as client:
            yield client
