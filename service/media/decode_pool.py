"""Decoding in child processes: a picture that crashes, hangs or swells a decoder costs that process alone."""

import json
import os
import queue
import select
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import PIL.Image

from service import PACKAGES_FOLDER
from service.media.decode_worker import FRAME_HEADER, write_frame
from service.settings import Settings

STARTUP_S = 60.0  # a machine under load starts a process slowly, and nothing is lost by waiting


@dataclass(frozen=True)
class DecodedPicture:
    """An upright RGB picture of at most 1333 pixels a side; width and height are those of the full picture."""

    picture: PIL.Image.Image
    width: int
    height: int
    taken_at: float | None


class DecodeFailed(Exception):
    """A picture was not decoded, for `reason`, which may be shown; `final` when trying again cannot help."""

    def __init__(self, reason: str, final: bool) -> None:
        super().__init__(reason)
        self.reason, self.final = reason, final


@dataclass(frozen=True, kw_only=True)
class DecodeLimits:
    """What one picture may cost."""

    timeout_s: float
    memory_bytes: int
    max_pixels: int


class _ProcessLost(Exception):
    """The decoding process ended, or did not answer in time."""


class _DecodeProcess:
    """One decoding process and the pipes to it."""

    def __init__(self, limits: DecodeLimits) -> None:
        """Start it; RuntimeError when it does not come up, which is no picture's fault."""
        self._limits = limits
        # Twice the time: its own clock matters only once nobody is left to end it.
        arguments = [str(limits.memory_bytes), str(limits.max_pixels), str(2 * limits.timeout_s)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "service.media.decode_worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=PACKAGES_FOLDER,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout.fileno()
        self._readable = select.poll()
        self._readable.register(self._replies, select.POLLIN)
        try:
            self._receive(STARTUP_S)
        except _ProcessLost:
            raise RuntimeError(f"the decoding process did not start: {self.end()}") from None

    def send(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytearray]:
        """The reply to one request; _ProcessLost when there is none."""
        try:
            write_frame(self._requests, request)
        except BrokenPipeError:
            raise _ProcessLost from None
        return self._receive(self._limits.timeout_s)

    def _receive(self, seconds: float) -> tuple[dict[str, Any], bytearray]:
        deadline = time.monotonic() + seconds
        text, body = FRAME_HEADER.unpack(self._exactly(FRAME_HEADER.size, deadline))
        return json.loads(self._exactly(text, deadline)), self._exactly(body, deadline)

    def _exactly(self, count: int, deadline: float) -> bytearray:
        received, place = bytearray(count), 0
        while place < count:
            left = deadline - time.monotonic()
            ready = left > 0 and self._readable.poll(1000 * left)
            read = os.readv(self._replies, [memoryview(received)[place:]]) if ready else 0
            if not read:
                raise _ProcessLost
            place += read
        return received

    def end(self) -> str:
        """End it at once; returns in words how it ended or why it was ended."""
        try:  # one that closed its pipe is about to end by itself, and how is worth knowing
            status = self._process.wait(0 if self._readable.poll(0) == [] else 1)
        except subprocess.TimeoutExpired:
            status = None
        self._process.kill()
        with self._process:  # waits, and closes the pipes
            pass
        if status is None:
            return f"it took longer than {self._limits.timeout_s:g} s"
        return f"its process ended with signal {-status}" if status < 0 else f"its process ended with {status}"


class DecodePool:
    """A few decoding processes, started when first needed. Safe to use from many threads."""

    def __init__(self, workers: int, limits: DecodeLimits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="decode")
        self._idle: queue.LifoQueue[_DecodeProcess | None] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(None)
        self._workers = workers

    @classmethod
    def from_settings(cls, settings: Settings, workers: int | None = None) -> "DecodePool":
        """The pool that settings describe."""
        limits = DecodeLimits(
            timeout_s=settings.decode_timeout_s,
            memory_bytes=settings.decode_memory_bytes,
            max_pixels=settings.max_pixels,
        )
        return cls(workers or settings.decode_workers, limits)

    def submit(self, path: Path, thumbnail: Path | None = None) -> Future[DecodedPicture]:
        """`decode` in the background."""
        return self._threads.submit(self.decode, path, thumbnail)

    def decode(self, path: Path, thumbnail: Path | None = None) -> DecodedPicture:
        """The picture; its thumbnail is written where one is named. DecodeFailed, or OSError for a failing disk."""
        message, body = self._send(path, thumbnail, render=False)
        if "disk" in message:
            raise OSError(f"the thumbnail cannot be written: {message['disk']}")
        width, height = message["size"]
        picture = PIL.Image.frombuffer("RGB", tuple(message["reduced"]), body, "raw", "RGB", 0, 1)
        return DecodedPicture(picture, width, height, message["taken_at"])

    def render_jpeg(self, path: Path) -> bytes:
        """The whole picture, upright, as a JPEG without metadata; DecodeFailed."""
        return bytes(self._send(path, None, render=True)[1])

    def _send(self, path: Path, thumbnail: Path | None, render: bool) -> tuple[dict[str, Any], bytearray]:
        request = {
            "path": str(path.absolute()),
            "thumbnail": None if thumbnail is None else str(thumbnail.absolute()),
            "render": render,
        }
        process = self._idle.get()
        try:
            process = process or _DecodeProcess(self._limits)
            message, body = process.send(request)
        except _ProcessLost:
            assert process is not None
            ending, process = process.end(), None
            raise DecodeFailed(f"Decoding the picture failed: {ending}.", final=False) from None
        finally:
            self._idle.put(process)
        if "reason" in message:
            raise DecodeFailed(message["reason"], message["final"])
        return message, body

    def close(self) -> None:
        """End the processes, after the pictures in hand."""
        self._threads.shutdown(cancel_futures=True)
        for _ in range(self._workers):
            if (process := self._idle.get()) is not None:
                process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
