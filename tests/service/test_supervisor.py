"""A process that is started again when it ends, and that ends with the one that started it."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.processes import supervisor
from service.processes.supervisor import Supervised, process_environment
from service.settings import Settings
from service.this_machine import is_running
from tests.support.processes import wait_until
from tests.support.project_files import ROOT

PATIENCE_S = 60.0
ENDS_WITH_STDIN = "import sys; print('up', flush=True); sys.stdin.read()"


def test_what_ends_is_started_again_and_ends_with_the_block() -> None:
    command = [sys.executable, "-c", ENDS_WITH_STDIN]
    with Supervised("worker", command, os.environ, first_delay_s=0.01) as supervised:
        seen: list[int] = []
        for _ in range(3):
            wait_until(lambda: supervised.pid not in {None, *seen})
            assert supervised.pid is not None
            seen.append(supervised.pid)
            os.kill(seen[-1], signal.SIGKILL)
        wait_until(lambda: supervised.pid not in {None, *seen})
        last = supervised.pid
    assert last is not None
    assert not is_running(last)
    assert supervised.pid is None


def test_one_that_does_not_end_is_waited_for_and_killed_in_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SILENT_S", 0.05)
    monkeypatch.setattr(supervisor, "POLITE_S", 0.1)
    caplog.set_level(logging.INFO)
    hangs = f"import signal; signal.signal(15, signal.SIG_IGN); open({str(tmp_path / 'up')!r}, 'w'); signal.pause()"
    with Supervised("worker", [sys.executable, "-c", hangs], os.environ) as supervised:
        wait_until((tmp_path / "up").exists)
        pid = supervised.pid
    assert [record.getMessage() for record in caplog.records] == [
        f"waiting for the worker (process {pid}) to finish what it is at, for at most 0.1 s",
        f"the worker (process {pid}) does not end: it is killed, which loses nothing that was accepted",
    ]


def test_what_fails_at_once_is_not_started_all_the_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", f"open({str(log)!r}, 'a').write('x'); raise SystemExit(1)"]
    with Supervised("worker", command, os.environ, first_delay_s=3600):
        wait_until(lambda: "next in 3600 s" in caplog.text)
        time.sleep(1.0)  # in which it would have been started again by one that does not wait
    assert log.read_text() == "x"


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), 2)", "os.kill(os.getpid(), 15)"])
def test_one_that_a_stop_ended_with_this_process_is_no_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    """A signal to all processes may end it before it is told to stop here."""
    log = tmp_path / "log"
    program = f"import os, signal, sys; signal.signal(2, signal.SIG_DFL); open({str(log)!r}, 'a').write('x'); {end}"
    with Supervised("worker", [sys.executable, "-c", program], os.environ, first_delay_s=3600) as supervised:
        wait_until(lambda: log.exists() and supervised.pid is None)
        time.sleep(0.5)  # in which its end is noticed
    assert caplog.text == ""
    assert log.read_text() == "x"


def test_one_that_is_told_to_end_alone_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    with Supervised("worker", [sys.executable, "-c", "pass"], os.environ, first_delay_s=0.01):
        wait_until(lambda: "next" in caplog.text)
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_what_cannot_be_started_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    program = tmp_path / "worker"
    with Supervised("worker", [str(program)], os.environ, first_delay_s=0.01) as supervised:
        wait_until(lambda: "cannot be started" in caplog.text)
        assert supervised.pid is None
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import sys; sys.stdin.read()'\n")
        program.chmod(0o700)
        wait_until(lambda: supervised.pid is not None)


def test_a_start_without_a_handshake_is_tried_again() -> None:
    faults = [sqlite3.OperationalError("disk I/O error"), OSError("no memory")]

    def handshake() -> bytes:
        if faults:
            raise faults.pop()
        return b"hello\n"

    command = [sys.executable, "-c", ENDS_WITH_STDIN]
    with Supervised("worker", command, os.environ, first_delay_s=0.01, handshake=handshake) as supervised:
        wait_until(lambda: supervised.pid is not None)


def test_it_ends_when_its_parent_is_killed() -> None:
    parent = f"""
import os, sys, time
from service.processes.supervisor import Supervised
with Supervised("worker", [sys.executable, "-c", {ENDS_WITH_STDIN!r}], os.environ, 1.0) as supervised:
    while supervised.pid is None:
        time.sleep(0.01)
    print(supervised.pid, flush=True)
    time.sleep(3600)
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        child = int(next(line for line in process.stdout if line.strip().isdigit()))
        process.kill()
        wait_until(lambda: not is_running(child))


def test_a_worker_gets_the_settings_of_its_parent() -> None:
    settings = Settings(data_dir=Path("x"), models=("a", "b"), views=("a",), threads=3, port=1234)
    environment = process_environment(settings)
    given = {name: value for name, value in environment.items() if name.startswith("REGARD_")}
    assert given["REGARD_MODELS"] == "a,b"
    assert given["REGARD_THREADS"] == "3"
    assert "REGARD_REDIS_URL" not in given
    code = "from service.settings import Settings; print(Settings().model_dump_json(), end='')"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True, cwd="/"
    )
    assert Settings.model_validate_json(ran.stdout) == settings
