"""Busy processes run as long as their block, and no longer than who started them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from models.bench.busy import busy_processes

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def ticks(process: int) -> int:
    """What a process has computed so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def is_there(process: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_they_compute_until_the_block_ends() -> None:
    with busy_processes(2) as started:
        assert len(started) == 2
        for process in started:
            while ticks(process) < 5:  # of a hundred a second
                time.sleep(0.01)
    assert not any(map(is_there, started))


def test_none_are_started_where_none_are_wanted() -> None:
    with busy_processes(0) as started:
        assert started == []


def test_they_do_not_outlive_who_started_them() -> None:
    program = (
        "import os, time\nfrom models.bench.busy import busy_processes\n"
        "with busy_processes(1) as (one,):\n    print(one, flush=True)\n    os._exit(1)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    while is_there(int(ran.stdout)):
        time.sleep(0.01)
