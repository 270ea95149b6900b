"""The start of a service: the seconds until it listens and until it is ready, and its memory then."""

import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.bench.memory import memory_under
from service.bench.synthetic import num_pictures
from service.processes.service_process import ServiceProcess
from service.processes.supervisor import REGARD, process_environment
from service.settings import Settings

RESTS_S = 2.0  # until memory that was only needed for loading has been released
REFUSED = {  # command lines that must be refused before anything heavy is imported
    "unknown model": ["bench", "rerank", "--model", "none-of-this-name"],
    "folder that is not there": ["ingest", "none-of-this-name"],
}


def start_rows(settings: Settings, rounds: int, folder: Path) -> Iterator[dict[str, Any]]:
    """A row for the start of the service, then one for each refused command line; medians over the rounds.

    Logs go to `folder`.
    """
    measured = [_start(settings, folder / f"start-{turn}.log") for turn in range(rounds)]
    median = {name: _median([one[name] for one in measured]) for name in measured[0]}
    yield {"what": "regard serve", "pictures": num_pictures(settings), "models": len(settings.models), **median}
    for what, arguments in REFUSED.items():
        seconds = statistics.median(_seconds_of(arguments, settings) for _ in range(rounds))
        nothing = dict.fromkeys(("pictures", "models", *median))
        yield {"what": f"refused: {what}"} | nothing | {"refused_s": seconds}


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _start(settings: Settings, log: Path) -> dict[str, float | None]:
    with ServiceProcess(settings, log) as service:
        listening, ready = (service.seconds_until(path) for path in ("/livez", "/readyz"))
        time.sleep(RESTS_S)
        return {"listening_s": listening, "ready_s": ready, "memory_mb": memory_under(service.pid), "refused_s": None}


def _seconds_of(arguments: list[str], settings: Settings) -> float:
    command = [*REGARD, *arguments]
    began = time.perf_counter()
    ran = subprocess.run(command, env=process_environment(settings), capture_output=True, check=False)
    if ran.returncode == 0:
        raise AssertionError(f"{arguments} was not refused")
    return time.perf_counter() - began
