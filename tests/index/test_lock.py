"""One writer a data directory, also when the writer is killed."""

import errno
import fcntl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from index.lock import Locked, WriterLock, has_writer

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


def test_a_file_system_without_locks_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    num_open = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="No locks available; name a folder on a file system with locks") as raised:
        WriterLock(tmp_path)
    assert raised.value.filename == str(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == num_open


def test_a_look_says_whether_somebody_writes_and_keeps_no_writer_out(tmp_path: Path) -> None:
    assert has_writer(tmp_path / "nowhere") is None
    assert has_writer(tmp_path) is None
    assert not list(tmp_path.iterdir())
    with WriterLock(tmp_path):
        assert has_writer(tmp_path) is True
    assert has_writer(tmp_path) is False
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            has_writer(tmp_path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(300):
            WriterLock(tmp_path).close()
    finally:
        over.set()
        looking.join()
