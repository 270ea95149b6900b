"""Faults injected besides kills: fault points, a full disk for a while, damaged tails of files, a second writer."""

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

BOTH = (FaultPoint.BEFORE_COMMIT, FaultPoint.AFTER_COMMIT)
OF_API = (
    FaultPoint.UPLOAD_RECEIVED,
    FaultPoint.ORIGINAL_WRITTEN,
    FaultPoint.ORIGINAL_RENAMED,
    FaultPoint.UPLOAD_COMMITTED,
)
PLACES: Mapping[str, tuple[FaultPoint, ...]] = {
    "api": (*OF_API, *BOTH),
    "worker": tuple(point for point in FaultPoint if point not in OF_API),
}
MOST_PASSES = 4
WITHOUT_ROOM = {f"{PREFIX}DISK_RESERVE_BYTES": str(2**62)}  # what is free is less than what is to be kept free
MOST_DAMAGED = 3  # files at a time
SMALLEST_TAIL, LARGEST_TAIL = 64, 4096  # bytes; the last 64 of a record hold its checksum
HEARD_S = 600.0  # no measure of speed: a machine that is busy otherwise takes its time
LONGEST_RIVALRY_S = 3.0


def fault_place(role: str, rng: random.Random) -> Mapping[str, str]:
    """The variable by which a process of that role dies at a fault point, once it gets there."""
    return {VARIABLE: f"{rng.choice(PLACES[role])}:{rng.randint(1, MOST_PASSES)}"}


def mendable_files(data: DataDir) -> list[Path]:
    """Files of which a worker makes a damaged tail again: region records, and what views hold."""
    views = [path for path in data.views.rglob("*") if path.suffix in (".bin", ".faiss")] if data.views.is_dir() else []
    return sorted(path for path in [*data.regions.rglob("*.bin"), *views] if path.stat().st_size)


def damage_tails(data: DataDir, rng: random.Random) -> list[Path]:
    """Zero or cut the ends of some files, as a disk without power may; which. Nobody may have them open."""
    files = mendable_files(data)
    chosen = rng.sample(files, min(len(files), rng.randint(1, MOST_DAMAGED)))
    for path in chosen:
        size = path.stat().st_size
        tail = rng.randint(min(size, SMALLEST_TAIL), min(size, LARGEST_TAIL))
        with path.open("r+b") as file:
            if rng.random() < 0.5:
                file.truncate(size - tail)
            else:
                file.seek(size - tail)
                file.write(bytes(tail))
    return chosen


def wait_for_repair(processes: Processes, since: float, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Wait until a worker is heard from that was started after `since`, and has made whole what was damaged; False
    where it ended, or patience does."""
    data_dir, end = processes.settings.data_dir, time.monotonic() + HEARD_S
    while time.monotonic() < end and "worker" not in processes.ended():
        with closing(Catalog(DataDir(data_dir).catalog)) as catalog:
            heard = (catalog.processes.last_heartbeat(WORKER) or 0.0) > since
        if heard and not confirmed_damage(data_dir):  # it is heard from on the way, too
            return True
        sleep(0.2)
    return False
