"""The listening socket, and how the threads of PyTorch wait."""

import asyncio
import os
import socket
import subprocess
import sys

from service.serve import listening_socket
from tests.support.project_files import ROOT


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
