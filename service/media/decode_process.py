"""The parent's side of a decoding process: a program without environment, and the pipes to it.

Its output is not trusted, since it reads untrusted files. Lengths are checked before memory is allocated, and a
malformed reply ends the process.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from service import PACKAGES_FOLDER
from service.media.decode_messages import LARGEST_BODY, STARTED, DecodeRequest, InspectRequest
from service.media.decode_worker import FRAME_HEADER, write_frame

STARTUP_S = 60.0  # a loaded machine starts processes slowly, and waiting does no harm
EXIT_PATIENCE_S = 1.0
LARGEST_MESSAGE = 64 * 1024

_R = TypeVar("_R")


@dataclass(frozen=True, kw_only=True)
class DecodeLimits:
    """Limits for decoding one picture, and for inspecting a file's header."""

    timeout_s: float
    memory_bytes: int
    max_pixels: int
    inspect_s: float = 5.0


class NoDecoder(RuntimeError):
    """A decoding process could not be started, through no fault of a picture."""


class ProcessLost(Exception):
    """The decoding process ended, timed out, or sent a malformed reply."""


class DecodeProcess:
    """A decoding process and the pipes to it."""

    def __init__(self, limits: DecodeLimits, readable: Sequence[Path] = ()) -> None:
        """Start the process; if `readable` is not empty and the kernel supports it, it can read only these folders.

        NoDecoder when it does not start.
        """
        # Twice the time: the process's own timer is only for the case that its parent is gone.
        arguments = [str(limits.memory_bytes), str(limits.max_pixels), str(2 * limits.timeout_s)]
        command = [sys.executable, "-m", "service.media.decode_worker", *arguments, *map(str, readable)]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, cwd=PACKAGES_FOLDER, env={})
        except OSError as fault:  # a limit on processes or memory
            raise NoDecoder(f"the decoding process did not start: {fault}") from fault
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout.fileno()
        self._readable = select.poll()
        self._readable.register(self._replies, select.POLLIN)
        self._waited_s = STARTUP_S
        self._malformed = False
        self.timed_out = False
        try:
            started, _ = self._receive(STARTUP_S, STARTED)
        except ProcessLost:
            raise NoDecoder(f"the decoding process did not start: {self.end()}") from None
        self.protection = started.protection
        """Each protection of `sandbox.py` with "on", or why it is missing."""

    def send(
        self, request: InspectRequest | DecodeRequest, seconds: float, form: TypeAdapter[_R]
    ) -> tuple[_R, bytearray]:
        """The reply to one request, and its body; ProcessLost when it times out, or is malformed."""
        try:
            write_frame(self._requests, asdict(request))
        except BrokenPipeError:
            raise ProcessLost from None
        return self._receive(seconds, form)

    def _receive(self, seconds: float, form: TypeAdapter[_R]) -> tuple[_R, bytearray]:
        self._waited_s = seconds
        deadline = time.monotonic() + seconds
        message_bytes, body_bytes = FRAME_HEADER.unpack(self._exactly(FRAME_HEADER.size, deadline))
        if message_bytes > LARGEST_MESSAGE or body_bytes > LARGEST_BODY:
            raise self.malformed()
        try:
            reply = form.validate_json(self._exactly(message_bytes, deadline))
        except ValidationError:
            raise self.malformed() from None
        return reply, self._exactly(body_bytes, deadline)

    def _exactly(self, count: int, deadline: float) -> bytearray:
        received, place = bytearray(count), 0
        while place < count:
            seconds_left = deadline - time.monotonic()
            ready = seconds_left > 0 and self._readable.poll(1000 * seconds_left)
            if not ready:
                self.timed_out = True
                raise ProcessLost
            num_read = os.readv(self._replies, [memoryview(received)[place:]])
            if not num_read:
                raise ProcessLost
            place += num_read
        return received

    def malformed(self) -> ProcessLost:
        """Mark the reply as malformed; returns the exception to raise."""
        self._malformed = True
        return ProcessLost()

    @property
    def ended(self) -> bool:
        """Whether the process has ended, or has closed its pipe and is about to end."""
        return self._process.poll() is not None or bool(self._readable.poll(0))

    def end(self, patience_s: float = EXIT_PATIENCE_S) -> str:
        """End the process; returns a description of how it ended or why it was ended.

        A process that closed its pipe gets a moment to exit by itself, so that its exit status is known.
        """
        try:
            status = self._process.wait(0 if self._malformed or self.timed_out else patience_s)
        except subprocess.TimeoutExpired:
            status = None
        self._process.kill()
        with self._process:  # waits, and closes the pipes
            pass
        if self._malformed:
            return "its process answered in another form than it was asked for"
        if self.timed_out:
            return f"it took longer than {self._waited_s:g} s"
        if status is None:
            return "its process closed its pipe"
        return f"its process ended with signal {-status}" if status < 0 else f"its process ended with {status}"
