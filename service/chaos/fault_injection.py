"""Injected faults other than kills: fault points, a full disk for a while, damaged ends of files, a second writer."""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from index.catalog.ingestion.processes import WORKER
from index.fault_points import VARIABLE, FaultPoint
from service.chaos.processes import Processes
from service.chaos.stored import confirmed_damage
from service.settings import PREFIX
from service.storage.data_dir import DataDir

COMMIT_POINTS = (FaultPoint.BEFORE_COMMIT, FaultPoint.AFTER_COMMIT)
API_POINTS = (
    FaultPoint.UPLOAD_RECEIVED,
    FaultPoint.ORIGINAL_WRITTEN,
    FaultPoint.ORIGINAL_RENAMED,
    FaultPoint.UPLOAD_COMMITTED,
)
PLACES: Mapping[str, tuple[FaultPoint, ...]] = {
    "api": (*API_POINTS, *COMMIT_POINTS),
    "worker": tuple(point for point in FaultPoint if point not in API_POINTS),
}
MOST_PASSES = 4
WITHOUT_ROOM = {f"{PREFIX}DISK_RESERVE_BYTES": str(2**62)}  # a reserve larger than any disk
MOST_DAMAGED = 3  # files at a time
SMALLEST_TAIL, LARGEST_TAIL = 64, 4096  # bytes; the last 64 of a record hold its checksum
REPAIR_PATIENCE_S = 600.0  # generous, since the machine may be busy with other work
LONGEST_RIVALRY_S = 3.0


def fault_place(role: str, rng: random.Random) -> Mapping[str, str]:
    """The environment variable that makes a process of that role die at a fault point, once it gets there."""
    return {VARIABLE: f"{rng.choice(PLACES[role])}:{rng.randint(1, MOST_PASSES)}"}


def mendable_files(data: DataDir) -> list[Path]:
    """Files whose damaged ends a worker restores: region records, and files of views."""
    views = [path for path in data.views.rglob("*") if path.suffix in (".bin", ".faiss")] if data.views.is_dir() else []
    return sorted(path for path in [*data.regions.rglob("*.bin"), *views] if path.stat().st_size)


def damage_tails(data: DataDir, rng: random.Random) -> list[Path]:
    """Zero or cut the ends of some files, as a power cut may; returns these files. No process may have them open."""
    files = mendable_files(data)
    damaged = rng.sample(files, min(len(files), rng.randint(1, MOST_DAMAGED)))
    for path in damaged:
        size = path.stat().st_size
        tail = rng.randint(min(size, SMALLEST_TAIL), min(size, LARGEST_TAIL))
        with path.open("r+b") as file:
            if rng.random() < 0.5:
                file.truncate(size - tail)
            else:
                file.seek(size - tail)
                file.write(bytes(tail))
    return damaged


def wait_for_repair(processes: Processes, since: float, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Wait until a worker started after `since` has sent a heartbeat and repaired all damage; False where it ends
    first, or time runs out."""
    data_dir, deadline = processes.settings.data_dir, time.monotonic() + REPAIR_PATIENCE_S
    while time.monotonic() < deadline and "worker" not in processes.ended():
        with closing(Catalog(DataDir(data_dir).catalog)) as catalog:
            has_started = (catalog.processes.last_heartbeat(WORKER) or 0.0) > since
        if has_started and not confirmed_damage(data_dir):  # it also sends heartbeats during the repair
            return True
        sleep(0.2)
    return False
