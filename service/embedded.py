"""Regard inside a Python program, such as a notebook: nothing to start, nothing to stop.

The program gets a client of a service that runs beside it, in a process of its own: PyTorch's threads and memory stay
out of the program, and what is ingested survives its crash.
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
    """A client of a service on a data directory, which is made where there is none; the service ends with the block.

    It is reached from this machine alone, on a free port. `settings` are those of `regard serve`, by their names in
    Python, and what they leave out the environment says (`REGARD_MODELS`, ..). A collection with keys needs `api_key`,
    here or in `REGARD_API_KEY`. UserError, with the last lines of its log, where the service does not start: another
    one may have the data directory open. ValueError for settings that there are not, and for those of `OWN_SETTINGS`.
    """
    if taken := sorted(OWN_SETTINGS.intersection(settings)):
        raise ValueError(f"an embedded service chooses {', '.join(taken)} itself: leave it out")
    chosen = Settings(**settings, data_dir=Path(data_dir), role="all")
    with tempfile.TemporaryDirectory(prefix="regard-") as logs, ServiceProcess(chosen, Path(logs) / "log") as service:
        service.seconds_until("/readyz")
        with Client(service.url, api_key) as client:
            yield client
