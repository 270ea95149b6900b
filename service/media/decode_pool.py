"""Decoding in child processes: a picture that makes a decoder crash, hang or run out of memory affects only that
process."""

import logging
import os
import queue
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import PIL.Image
from pydantic import TypeAdapter

from index.fault_points import FaultPoint
from index.files import NO_ROOM, replacement_of
from service.errors import UnreadablePicture
from service.media.decode_messages import (
    DECODED,
    DECODED_PIXELS,
    INSPECTED,
    DecodedParts,
    DecodeReply,
    DecodeRequest,
    Failed,
    InspectRequest,
    Refused,
)
from service.media.decode_process import DecodeLimits, DecodeProcess, NoDecoder, ProcessLost
from service.settings import Settings

_R = TypeVar("_R", bound=DecodeReply)
_D = TypeVar("_D", bound=DecodedParts)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DecodedPicture:
    """An upright RGB picture of at most 1333 pixels a side; width and height are those of the full picture.

    Caption (empty if missing) and keywords come from the file.
    """

    picture: PIL.Image.Image
    width: int
    height: int
    taken_at: float | None
    caption: str = ""
    keywords: tuple[str, ...] = ()
    coordinates: tuple[float, float] | None = None  # latitude and longitude, if requested


class DecodeFailed(Exception):
    """A picture was not decoded, for a displayable `reason`; `final` when retrying cannot help.

    `timed_out` when the time limit of decoding was reached.
    """

    def __init__(self, reason: str, final: bool, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final, self.timed_out = reason, final, timed_out


class ErasedMeanwhile(DecodeFailed):
    """The picture was erased while it was being decoded."""


class DecodePool:
    """A few decoding processes, started when first needed. Safe to share between threads."""

    def __init__(self, workers: int, limits: DecodeLimits, readable: Sequence[Path] = ()) -> None:
        """If `readable` is not empty, the processes can open files only in these folders."""
        self._limits, self._readable = limits, [folder.absolute() for folder in readable]
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="decode")
        self._idle: queue.LifoQueue[DecodeProcess | None] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(None)
        self._workers = workers
        self._closed = False

    @classmethod
    def from_settings(
        cls, settings: Settings, workers: int | None = None, readable: Sequence[Path] = ()
    ) -> "DecodePool":
        """The pool configured by the settings."""
        limits = DecodeLimits(
            timeout_s=settings.decode_timeout_s,
            memory_bytes=settings.decode_memory_bytes,
            max_pixels=settings.max_pixels,
            inspect_s=min(settings.decode_timeout_s, settings.inspect_timeout_s),
        )
        return cls(workers or settings.decode_workers, limits, readable)

    def submit(
        self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None, with_coordinates: bool = False
    ) -> Future[DecodedPicture]:
        """`decode` in the background."""
        return self._threads.submit(self.decode, path, thumbnail, stripped, with_coordinates)

    def decode(
        self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None, with_coordinates: bool = False
    ) -> DecodedPicture:
        """The picture; its thumbnail, and its file without metadata, are written to the given paths.

        Coordinates are read only `with_coordinates`. `stripped` has the file's own extension; a re-encoded file is
        written with `jpg` instead. A file that cannot be written is logged and skipped. Raises DecodeFailed, or OSError
        for a full disk.
        """
        request = DecodeRequest(
            path=str(path.absolute()),
            pixels=True,
            thumbnail=thumbnail is not None,
            stripped=None if stripped is None else stripped.suffix[1:],
            coordinates=with_coordinates,
        )
        reply, parts = self._decode(request, DECODED_PIXELS)
        picture = PIL.Image.frombytes("RGB", reply.reduced, bytes(parts[0]))
        if thumbnail is not None:
            _write_if_possible("thumbnail", thumbnail, parts[1], path)
        if stripped is not None:
            _write_if_possible("file to show", stripped.with_suffix(f".{reply.stripped}"), parts[-1], path)
        return DecodedPicture(picture, *reply.size, reply.taken_at, reply.caption, reply.keywords, reply.coordinates)

    def strip(self, path: Path, stripped: Path) -> Path:
        """The path of the file without metadata, which is written to `stripped`, or beside it with another extension.

        Raises DecodeFailed, or OSError for a failing disk.
        """
        reply, parts = self._decode(DecodeRequest(path=str(path.absolute()), stripped=stripped.suffix[1:]), DECODED)
        place = stripped.with_suffix(f".{reply.stripped}")
        _write_derived("file to show", place, parts[0], path)
        return place

    def make_thumbnail(self, path: Path, thumbnail: Path) -> None:
        """Write the thumbnail of a file. Raises DecodeFailed, or OSError for a failing disk."""
        _, parts = self._decode(DecodeRequest(path=str(path.absolute()), thumbnail=True), DECODED)
        _write_derived("thumbnail", thumbnail, parts[0], path)

    def inspect(self, path: Path) -> str:
        """The extension of a file's format, from its header.

        UnreadablePicture says why the file is refused, DecodeFailed that the inspection failed.
        """
        reply, _ = self._send(InspectRequest(path=str(path.absolute())), self._limits.inspect_s, INSPECTED)
        if reply.extension is None:
            raise UnreadablePicture(str(reply.unreadable))
        return reply.extension

    def protection(self) -> dict[str, str]:
        """Each protection of the decoding processes with "on", or why it is missing. NoDecoder if none starts."""
        process = self._take()
        try:
            process = process or DecodeProcess(self._limits, self._readable)
            return process.protection
        finally:
            self._idle.put(process)

    def _decode(self, request: DecodeRequest, form: TypeAdapter[Failed | Refused | _D]) -> tuple[_D, list[memoryview]]:
        """The reply to a decode request, and the parts of its body."""
        reply, body = self._send(request, self._limits.timeout_s, form)
        return reply, reply.parts_of(body)

    def _send(
        self, request: InspectRequest | DecodeRequest, seconds: float, form: TypeAdapter[Failed | Refused | _R]
    ) -> tuple[_R, bytearray]:
        process = self._take()
        try:
            if process is not None and process.ended:  # killed while it was idle, through no fault of a picture
                process.end()
                process = None
            process = process or DecodeProcess(self._limits, self._readable)
            reply, body = process.send(request, seconds, form)
            if isinstance(request, DecodeRequest) and isinstance(reply, DecodedParts) and not reply.fits(request, body):
                raise process.malformed()
        except ProcessLost:
            assert process is not None
            timed_out, ending, process = process.timed_out, process.end(), None
            raise DecodeFailed(f"Decoding the picture failed: {ending}.", final=False, timed_out=timed_out) from None
        except BaseException:  # an unread reply would be taken for that to the next request
            if process is not None:
                process.end(patience_s=0)
                process = None
            raise
        finally:
            self._idle.put(process)
        if isinstance(reply, Failed):
            log.error("the decoding process failed at %s: %s", request.path, reply.fault)
            raise DecodeFailed("Decoding the picture failed; the log says how.", final=False)
        if isinstance(reply, Refused):
            raise DecodeFailed(reply.reason, reply.final)
        return reply, body

    def _take(self) -> DecodeProcess | None:
        """An idle process, or None for one that is still to be started. NoDecoder once the pool is closed."""
        process = self._idle.get()
        if self._closed:
            self._idle.put(process)
            raise NoDecoder("the decoding processes have ended, since the service ends")
        return process

    def close(self) -> None:
        """End the processes, after the pictures in progress; later callers get NoDecoder at once."""
        self._threads.shutdown(cancel_futures=True)
        self._closed = True
        for process in [self._idle.get() for _ in range(self._workers)]:
            if process is not None:
                process.end(patience_s=0)
            self._idle.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _write_derived(name: str, path: Path, content: memoryview, original: Path) -> None:
    """Write a file derived from an original. ErasedMeanwhile where the original was erased in the meantime."""
    if not _is_linked(path, content, original):
        _write(name, path, content)
    # Erasure removes the original first, then derived files. If it missed this one, the original is gone by now.
    if not original.exists():
        path.unlink(missing_ok=True)
        raise ErasedMeanwhile("The picture was deleted meanwhile.", final=False)


def _is_linked(path: Path, content: memoryview, original: Path) -> bool:
    """Whether the path could be hard-linked to the original, which has exactly this content: this takes no space."""
    with suppress(OSError), original.open("rb") as file:  # raised by a file system without links, for example
        if os.fstat(file.fileno()).st_size == len(content) and file.read() == content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.hardlink_to(original)
            # False where another copy replaced the original meanwhile.
            return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    return False


def _write_if_possible(name: str, path: Path, content: memoryview, original: Path) -> None:
    """`_write_derived` for a file that is made again later: a failure is logged, unless the disk is full, where nothing
    else can be written either."""
    try:
        _write_derived(name, path, content, original)
    except OSError as fault:
        if fault.errno in NO_ROOM:
            raise
        log.error("picture %s: %s", original.stem, fault)


def _write(name: str, path: Path, content: memoryview) -> None:
    """Write a file atomically; OSError names it. After a power cut it is complete or missing, and then made again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacement_of(path, written=FaultPoint.DERIVED_WRITTEN, renamed=FaultPoint.DERIVED_RENAMED) as file:
            file.write(content)
    except OSError as fault:
        raise OSError(fault.errno, f"the {name} cannot be written: {fault}") from fault
