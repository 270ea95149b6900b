"""One writer a data directory, also when the writer is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from index.lock import Locked, WriterLock

HOLDER = """
import sys, time, pathlib
from index.lock import WriterLock
lock = WriterLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_writer_is_told_who_writes_until_that_one_is_killed(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    command = [sys.executable, "-c", HOLDER, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for _ in range(2):
            with pytest.raises(Locked, match=f"process {holder.pid} on "):
                WriterLock(data_dir)
        holder.kill()
        holder.wait()
        WriterLock(data_dir).close()


def test_a_lock_given_back_can_be_taken_again(tmp_path: Path) -> None:
    with WriterLock(tmp_path), pytest.raises(Locked, match=str(tmp_path)):
        WriterLock(tmp_path)
    with WriterLock(tmp_path):
        pass
