"""Memory of freed tensors: kept for the next ones, and given back when asked."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from models.freed_memory import give_back_freed_memory, keep_freed_memory

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

def faults(blocks):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(blocks):
        np.ones(40 * 2**20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "kept":
    keep_freed_memory()
faults(1)
count, kept = faults(8), resident_mb()
give_back_freed_memory()
print(count, kept - resident_mb())
"""


def faults_and_given_back(how: str) -> tuple[int, float]:
    """Page faults of eight blocks of 40 MiB after one that was freed, and the MiB that were given back in the end."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    count, given_back = ran.stdout.split()
    return int(count), float(given_back)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_a_freed_block_serves_the_next_one_until_it_is_given_back() -> None:
    by_default, _ = faults_and_given_back("by default")
    count, given_back = faults_and_given_back("kept")
    assert count < by_default / 10
    assert given_back > 30
