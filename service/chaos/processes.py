"""The processes of one service, for starting, killing and restarting."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from service.processes.supervisor import REGARD, process_environment
from service.settings import Settings
from service.this_machine import LOOPBACK, held_port

ENDING_S = 60.0
REDIS_ANSWER_S = 10.0


class Processes:
    """Web process, worker and optionally Redis, on a data directory of their own. Safe to use from two threads."""

    def __init__(self, settings: Settings, folder: Path, with_redis: bool, grace_s: float) -> None:
        """Everything lies in `folder`, with logs beside the data."""
        self._resources = contextlib.ExitStack()
        self._redis_port = self._resources.enter_context(held_port()) if with_redis else None
        self.settings = settings.model_copy(
            update={
                "data_dir": folder / "data",
                "host": LOOPBACK,
                "port": self._resources.enter_context(held_port()),
                "redis_url": f"redis://{LOOPBACK}:{self._redis_port}/0" if with_redis else None,
                "delete_grace_s": grace_s,
            }
        )
        self.url = f"http://{LOOPBACK}:{self.settings.port}"
        self.roles: tuple[str, ...] = ("api", "worker", "redis") if with_redis else ("api", "worker")
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._folder, self._lock = folder, threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        """Start all processes."""
        for role in reversed(self.roles):
            self.start(role)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill them and their children at once."""
        self.kill(*self._running, with_children=True)
        self._resources.close()

    def _command(self, role: str) -> Sequence[str]:
        if role == "redis":
            place = ("--bind", LOOPBACK, "--port", str(self._redis_port), "--dir", str(self._folder))
            return ("redis-server", "--save", "", *place)
        command = ("compact",) if role == "compact" else ("serve", "--role", "worker" if role == "rival" else role)
        return (*REGARD, *command)

    def _environment(self) -> Mapping[str, str]:
        return process_environment(self.settings)

    def start(self, role: str, variables: Mapping[str, str] = MappingProxyType({})) -> "subprocess.Popen[bytes]":
        """Start a role, which must not be running, with additional environment variables.

        `compact` is a command that ends by itself, `rival` a second worker.
        """
        with self._lock:
            number = len(list(self.logs.iterdir()))
            with (self.logs / f"{number:04}-{role}.log").open("wb") as log:
                process = subprocess.Popen(
                    self._command(role),
                    env={**self._environment(), **variables},
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._running[role] = process
        if role == "redis":
            self._wait_for_redis()
        return process

    def _wait_for_redis(self) -> None:
        deadline = time.monotonic() + REDIS_ANSWER_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self._redis_port or 0), 1.0):
                return
            time.sleep(0.02)

    def kill(self, *roles: str, with_children: bool = False) -> int:
        """SIGKILL the running processes of the roles, all before waiting for any; returns how many.

        Their children end by themselves, unless `with_children` kills them, too.
        """
        with self._lock:
            ended = [self._running.pop(role) for role in roles if role in self._running]
        killed = [process for process in ended if process.poll() is None]
        for process in killed:
            if with_children:
                os.killpg(
                    process.pid, signal.SIGKILL
                )  # it leads its own group, and its id is valid until it is waited for
            else:
                process.kill()
        for process in ended:
            process.wait()
        return len(killed)

    def stop(self, role: str) -> int | None:
        """Send SIGTERM to a role; returns its status, None where it had to be killed."""
        with self._lock:
            process = self._running.pop(role)
        process.terminate()
        try:
            return process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None

    def pid(self, role: str) -> int:
        """The process id of a role; KeyError where it does not run."""
        with self._lock:
            return self._running[role].pid

    def ended(self) -> dict[str, int]:
        """The roles whose processes ended by themselves, with their statuses."""
        with self._lock:
            states = {role: process.poll() for role, process in self._running.items()}
        return {role: status for role, status in states.items() if status is not None}
