"""Real servers for tests, killable at any moment."""

import shutil
import subprocess
import time
from pathlib import Path

import redis

PATIENCE_S = 20.0


class RedisServer:
    """A redis-server without persistence: a kill loses everything."""

    def __init__(self, folder: Path, port: int, command: tuple[str, ...] = ("redis-server", "--save", "")) -> None:
        """`command` without port and folder; it does not start before `start`."""
        self.port = port
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers."""
        if self._process is not None and self._process.poll() is None:
            return
        program = shutil.which(self._command[0])
        assert program is not None, f"{self._command[0]} is not installed"
        place = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._folder))
        self._process = subprocess.Popen(
            [program, *self._command[1:], *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + PATIENCE_S
        with redis.Redis(port=self.port) as probe:
            while time.monotonic() < end:
                try:
                    probe.ping()
                    return
                except redis.ConnectionError:
                    assert self._process.poll() is None, "redis-server ended at once"
                    time.sleep(0.02)
        raise AssertionError(f"redis-server did not answer within {PATIENCE_S:g} s")

    def flush(self) -> None:
        """Forget everything, streams and groups included."""
        with redis.Redis(port=self.port) as client:
            client.flushall()

    def kill(self) -> None:
        """SIGKILL, unless it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
