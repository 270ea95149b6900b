"""The listening socket, a data directory that is taken, and how the threads of PyTorch wait."""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from index.catalog.catalog import Catalog
from index.lock import WriterLock
from index.records import NewPicture
from service import serve
from service.cli.commands import doctor
from service.cluster.shards.node import replica_folder
from service.serve import listening_socket, tell_of_queued
from service.settings import Settings
from service.storage import data_dir_lock
from tests.support.cli_runner import Regard
from tests.support.project_files import ROOT
from tests.support.without_privilege import output_without_privilege

ENTERING = """
import json, pathlib, sys
from service import serve
from service.cli.commands.doctor import CHECKS, run_check
from service.errors import Misconfigured
from service.settings import Settings
from service.storage.data_dir_lock import lock_data_dir, require_no_catalog
settings = Settings(data_dir=pathlib.Path(sys.argv[1]), port=0)
told = {}
for name, begin in {
    "serve": lambda: serve.run_api(settings, with_worker=True),
    "worker": lambda: serve.run_worker(settings, end_with_stdin=False),
    "lock": lambda: lock_data_dir(settings.data_dir),
    "cluster": lambda: require_no_catalog(settings.data_dir),
}.items():
    try:
        begin()
    except Misconfigured as fault:
        told[name] = str(fault)
for name in ("catalog", "weights", "data", "regions", "keys"):
    told[name] = run_check(name, CHECKS[name], settings)["found"]
print(json.dumps(told))
"""


async def accepted_option(listening: socket.socket) -> int:
    """TCP_NODELAY of a connection that asyncio accepted on the socket."""
    option: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted: socket.socket = writer.get_extra_info("socket")
        option.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(look, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
        found = await option
        writer.close()
        await writer.wait_closed()
    return found


def test_answers_leave_without_waiting_for_more() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        assert asyncio.run(accepted_option(listening)) == 1


@pytest.mark.slow
def test_idle_threads_sleep_in_whatever_imports_the_service() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    told = subprocess.run(
        [sys.executable, "-c", "import service, torch"],
        cwd=ROOT,
        env={**environment, "OMP_DISPLAY_ENV": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in told.stderr


def test_a_second_one_on_the_same_data_says_who_has_it_and_what_to_do(
    regard: Regard, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_dir_lock, "PATIENCE_S", 0.0)
    with WriterLock(tmp_path):
        status, said, noted = regard("serve", "--data-dir", tmp_path, "--port", free_port)
    assert (status, said) == (1, "")
    assert noted == (
        f"regard: {tmp_path} is already written by process {os.getpid()} on {socket.gethostname()}; only one worker may"
        " write a data directory: end the `regard serve` or `regard worker` that it belongs to, name another"
        " --data-dir, or search this one beside it with `regard serve --role api`\n"
    )


def test_who_starts_and_who_stops_it_hears_what_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "catalog.sqlite"
    with closing(Catalog(path)) as catalog:
        tell_of_queued(path, "they are stored")
        assert caplog.text == ""
        said: dict[str, Any] = {"extension": "png", "num_bytes": 1, "captions": [], "tags": {}, "taken_at": None}
        new = [NewPicture(image_id=name, filename=f"{name}.png", **said) for name in ("a", "b")]
        catalog.take_in(new, 1.0)
    tell_of_queued(path, "they are stored")
    assert "2 pictures wait for their regions: they are stored" in caplog.text
    monkeypatch.setattr("index.catalog.database.connection.is_writable", lambda path: False)  # as on a read-only disk
    tell_of_queued(path, "the worker goes on with them")
    assert "2 pictures wait for their regions: they wait for a service that may write here" in caplog.text
    assert "the worker goes on" not in caplog.text


LOSING_THE_EXIT = """
import os, signal, socket, sys
from pathlib import Path
from service.serve import _WebSide, exit_on_signals
from service.settings import Settings

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

exit_on_signals()
one = Finalized()
del one
print("still there", flush=True)
with socket.create_server(("127.0.0.1", 0)) as listening:
    _WebSide(None, None, Settings(data_dir=Path(sys.argv[1])), "").answer(listening, lambda: os._exit(3))
"""


def test_a_signal_that_comes_in_a_finalizer_ends_it_all_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOSING_THE_EXIT, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "still there\n"
    assert "Exception ignored" in ended.stderr


@pytest.mark.parametrize("role", ["all", "api", "worker"])
def test_what_a_killed_restore_left_is_not_served(regard: Regard, tmp_path: Path, role: str) -> None:
    (tmp_path / "catalog.unchecked").write_bytes(b"half a catalog")
    status, _, noted = regard("serve", "--data-dir", tmp_path, "--role", role)
    assert (status, "a restore into" in noted, "remove that folder" in noted) == (1, True, True)
    assert [path.name for path in tmp_path.iterdir()] == ["catalog.unchecked"]


def test_who_ends_it_while_it_loads_hears_what_waits_too(
    tmp_path: Path, free_port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        catalog.take_in([NewPicture(image_id="a", filename="a.png", extension="png", num_bytes=1)], now=1.0)

    def end(*_: object) -> None:
        raise SystemExit(0)  # as the handler of SIGTERM does

    monkeypatch.setattr(serve, "exit_on_signals", lambda: None)
    monkeypatch.setattr(serve, "_web_side", end)
    with pytest.raises(SystemExit):
        serve.run_api(Settings(data_dir=tmp_path, port=free_port), with_worker=False)
    assert "1 pictures wait for their regions: they are stored, and the next start goes on with them" in caplog.text


@pytest.mark.parametrize("closed", [".", "data"])
def test_a_data_directory_that_may_not_be_entered_is_named(tmp_path: Path, closed: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / closed).chmod(0)
    told = json.loads(output_without_privilege("-c", ENTERING, str(tmp_path / "data")))
    (tmp_path / closed).chmod(0o700)
    assert list(told) == ["serve", "worker", "lock", "cluster", "catalog", "weights", "data", "regions", "keys"]
    for name, words in told.items():
        assert words.startswith(f"{tmp_path / 'data'} may not be entered: "), name


@pytest.mark.parametrize("command", [["serve"], ["serve", "--role", "api"], ["worker"]])
def test_the_data_directory_of_a_cluster_is_no_empty_collection(
    regard: Regard, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    status, _, noted = regard(*command, "--data-dir", tmp_path)
    assert (status, "is the data directory of a cluster" in noted, "`regard cluster up" in noted) == (1, True, True)
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]
    for part, words in (("data", "belongs to a cluster's head"), ("catalog", "each replica of the cluster")):
        found = doctor.run_check(part, doctor.CHECKS[part], Settings(data_dir=tmp_path, disk_reserve_bytes=0))
        assert (found["ok"], words in found["found"]) == (True, True)


def test_the_data_directory_of_a_cluster_s_node_is_no_empty_collection(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_web_side", lambda *_: pytest.fail("it is served"))
    replica_folder(tmp_path, 0, 1).mkdir(parents=True)
    status, _, noted = regard("serve", "--data-dir", tmp_path)
    assert (status, "is the data directory of a cluster's node" in noted) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]
    for part, words in (("data", "belongs to a cluster's node"), ("catalog", "each replica of the cluster")):
        found = doctor.run_check(part, doctor.CHECKS[part], Settings(data_dir=tmp_path, disk_reserve_bytes=0))
        assert (found["ok"], words in found["found"]) == (True, True)
    Catalog(tmp_path / "catalog.sqlite").close()  # a collection of its own, which it shows
    assert doctor.CHECKS["data"](Settings(data_dir=tmp_path, disk_reserve_bytes=0)).startswith(
        f"{tmp_path} is writable"
    )
