"""A port that several processes share, and what the first one tells the others."""

import contextlib
import io
import os
import socket
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from service.auth.api_keys import ApiKey, create_key
from service.auth.permissions import Permission
from service.errors import UserError
from service.processes import web_processes
from service.processes.shared_port import ConnectionCounts
from service.processes.web_processes import (
    FirstProcess,
    PortShare,
    begin_beside,
    inherited_port,
    processes_beside,
    shared_metrics,
)
from service.serve import listening_socket
from service.settings import Settings
from tests.support.processes import wait_until

WRITES_WHAT_IT_IS_TOLD = """
import os, sys
from pathlib import Path
told = sys.stdin.readline()
inherited = [os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in range(3, 20)
             if os.path.exists(f"/proc/self/fd/{number}") or os.path.islink(f"/proc/self/fd/{number}")]
said = f"{os.environ['REGARD_PORT']} {inherited.count('socket')} {told}"
Path(os.environ["REGARD_DATA_DIR"], str(os.getpid())).write_text(said)
sys.stdin.read()
"""


def is_there(host: str) -> bool:
    """Whether this machine has the address; containers often have none of IPv6."""
    try:
        with listening_socket(host, 0):
            return True
    except UserError:
        return False


LOOPBACKS = ["127.0.0.1", *filter(is_there, ["::1"])]


def told(*own_keys: ApiKey) -> FirstProcess:
    return FirstProcess("release 1", "a collection", list(own_keys), keys_required=True)


@pytest.mark.parametrize("host", LOOPBACKS)
def test_a_port_is_shared_with_own_processes_alone(host: str) -> None:
    with listening_socket(host, 0) as first, contextlib.ExitStack() as stack:
        file = ConnectionCounts.new_file(2)
        stack.callback(os.close, file)
        share = PortShare(os.dup(first.fileno()), os.dup(file), place=1, processes=2)
        with inherited_port(share) as (second, _):
            assert second.getsockname() == first.getsockname()
            assert second.proto == socket.IPPROTO_TCP  # by which answers are sent without delay
            second.listen()
            with pytest.raises(UserError, match="in use"), listening_socket(host, first.getsockname()[1]):
                pass


def test_the_others_are_told_the_port_and_keys_and_end_with_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_processes, "REGARD", (sys.executable, "-c", WRITES_WHAT_IT_IS_TOLD))
    first = told(create_key("serve --photos", Permission.WRITE, 1.0)[1])
    with listening_socket("127.0.0.1", 0) as listening:
        settings = Settings(data_dir=tmp_path, port=0, web_processes=3)
        with processes_beside(settings, listening, lambda: first) as others:
            wait_until(lambda: sum(path.stat().st_size > 0 for path in tmp_path.iterdir()) == 2)
            others.stop()
        port = listening.getsockname()[1]
    processes = [int(path.name) for path in tmp_path.iterdir()]
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]
    places = set()
    for path in tmp_path.iterdir():
        said_port, num_sockets, said = path.read_text().split(" ", 2)
        assert (int(said_port), int(num_sockets)) == (port, 1)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(said.encode())))
        monkeypatch.setattr(web_processes, "end_with_stdin", lambda: None)
        heard = begin_beside()
        assert heard.port is not None
        assert replace(heard, port=None) == first
        places.add(heard.port.place)
    assert places == {1, 2}


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
