"""A port that several processes share, and what the first one tells the others."""

import io
import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from service import web_processes
from service.auth.api_keys import ApiKey, create_key
from service.auth.permissions import Permission
from service.errors import UserError
from service.serve import listening_socket
from service.settings import Settings
from service.web_processes import FirstProcess, begin_beside, joined_socket, processes_beside, shared_metrics
from tests.support.processes import wait_until

WRITES_WHAT_IT_IS_TOLD = """
import os, sys
from pathlib import Path
told = sys.stdin.readline()
Path(os.environ["REGARD_DATA_DIR"], str(os.getpid())).write_text(os.environ["REGARD_PORT"] + " " + told)
sys.stdin.read()
"""


def told(*own_keys: ApiKey) -> FirstProcess:
    return FirstProcess("release 1", "a collection", list(own_keys), keys_required=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_is_shared_with_own_processes_alone(host: str) -> None:
    with listening_socket(host, 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use"), joined_socket(host, port):
            pass
        with socket.create_connection((host, port)) as client, first.accept()[0]:  # as of one who waited for the start
            with processes_beside(Settings(), first, told), pytest.raises(OSError, match="in use"):
                joined_socket(host, port).__enter__()
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            with joined_socket(host, port) as second:
                second.listen()
                with pytest.raises(UserError, match="in use"), listening_socket(host, port):
                    pass
                assert client.getpeername()[1] == port


def test_the_others_are_told_the_port_and_keys_and_end_with_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_processes, "REGARD", (sys.executable, "-c", WRITES_WHAT_IT_IS_TOLD))
    first = told(create_key("serve --photos", Permission.WRITE, 1.0)[1])
    with listening_socket("127.0.0.1", 0) as listening:
        settings = Settings(data_dir=tmp_path, port=0, web_processes=3)
        with processes_beside(settings, listening, lambda: first) as stop:
            wait_until(lambda: sum(path.stat().st_size > 0 for path in tmp_path.iterdir()) == 2)
            stop()
        port = listening.getsockname()[1]
    processes = [int(path.name) for path in tmp_path.iterdir()]
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]
    for path in tmp_path.iterdir():
        said_port, _, said = path.read_text().partition(" ")
        assert int(said_port) == port
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(said.encode())))
        monkeypatch.setattr(web_processes, "end_with_stdin", lambda: None)
        assert begin_beside() == first


def test_folders_of_counters_that_a_kill_left_are_removed_and_those_in_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(web_processes.METRICS_FOLDER, "")  # given back at the end
    left = tmp_path / "regard-metrics-left"
    left.mkdir()
    (left / "counter_1.db").write_bytes(b"counts")
    os.utime(left, (0, 0))
    with shared_metrics():
        (first,) = tmp_path.iterdir()
        assert os.environ[web_processes.METRICS_FOLDER] == str(first) != str(left)
        with shared_metrics():
            assert first in [*tmp_path.iterdir()]
    assert list(tmp_path.iterdir()) == []
