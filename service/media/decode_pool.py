"""Decoding in child processes: a picture that crashes, hangs or swells a decoder costs that process alone."""

import logging
import math
import os
import queue
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import PIL.Image

from index.fault_points import FaultPoint, reach
from index.files import temporary_beside
from models.pictures import LONGEST_SIDE
from service.errors import UnreadablePicture
from service.media.decode_process import LARGEST_THUMBNAIL, DecodeLimits, DecodeProcess, NoDecoder, ProcessLost
from service.media.descriptions import LONGEST_CAPTION, LONGEST_KEYWORDS, shown
from service.media.file_type import EXTENSIONS
from service.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DecodedPicture:
    """An upright RGB picture of at most 1333 pixels a side; width and height are those of the full picture.

    Caption (empty where there is none) and keywords are those that the file holds.
    """

    picture: PIL.Image.Image
    width: int
    height: int
    taken_at: float | None
    caption: str = ""
    keywords: tuple[str, ...] = ()
    position: tuple[float, float] | None = None  # latitude and longitude, where they were asked for


class DecodeFailed(Exception):
    """A picture was not decoded, for `reason`, which may be shown; `final` when trying again cannot help.

    `timed_out` when it took the whole time that decoding may take.
    """

    def __init__(self, reason: str, final: bool, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final, self.timed_out = reason, final, timed_out


class ErasedMeanwhile(DecodeFailed):
    """The picture was deleted for good while it was being decoded."""


class DecodePool:
    """A few decoding processes, started when first needed. Safe to use from many threads."""

    def __init__(self, workers: int, limits: DecodeLimits, readable: Sequence[Path] = ()) -> None:
        """Processes can open files in the folders that are `readable` alone, where any are named."""
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
        """The pool that settings describe."""
        limits = DecodeLimits(
            timeout_s=settings.decode_timeout_s,
            memory_bytes=settings.decode_memory_bytes,
            max_pixels=settings.max_pixels,
            inspect_s=min(settings.decode_timeout_s, settings.inspect_timeout_s),
        )
        return cls(workers or settings.decode_workers, limits, readable)

    def submit(
        self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None, with_position: bool = False
    ) -> Future[DecodedPicture]:
        """`decode` in the background."""
        return self._threads.submit(self.decode, path, thumbnail, stripped, with_position)

    def decode(
        self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None, with_position: bool = False
    ) -> DecodedPicture:
        """The picture; its thumbnail, and its file without metadata, are written where they are named.

        Where it was taken is looked at only `with_position`. `stripped` names the file's own extension, and is written
        with `jpg` instead where the file is encoded again.
        DecodeFailed, or OSError for a failing disk.
        """
        request = {
            "pixels": True,
            "thumbnail": thumbnail is not None,
            "stripped": stripped and stripped.suffix[1:],
            "position": with_position,
        }
        message, parts = self._decode(path, request)
        width, height = message["size"]
        picture = PIL.Image.frombytes("RGB", tuple(message["reduced"]), bytes(parts[0]))
        if thumbnail is not None:
            _write_derived("thumbnail", thumbnail, parts[1], path)
        if stripped is not None:
            _write_derived("file to show", stripped.with_suffix(f".{message['stripped']}"), parts[-1], path)
        described = message["caption"], tuple(message["keywords"])
        position = message.get("position") and tuple(message["position"])
        return DecodedPicture(picture, width, height, message["taken_at"], *described, position)

    def strip(self, path: Path, stripped: Path) -> Path:
        """The path of the file without metadata, which is written to `stripped`, or beside it with another extension.

        DecodeFailed, or OSError for a failing disk.
        """
        message, parts = self._decode(path, {"pixels": False, "thumbnail": False, "stripped": stripped.suffix[1:]})
        place = stripped.with_suffix(f".{message['stripped']}")
        _write_derived("file to show", place, parts[0], path)
        return place

    def make_thumbnail(self, path: Path, thumbnail: Path) -> None:
        """Write the thumbnail of a file. DecodeFailed, or OSError for a failing disk."""
        _, parts = self._decode(path, {"pixels": False, "thumbnail": True, "stripped": None})
        _write_derived("thumbnail", thumbnail, parts[0], path)

    def inspect(self, path: Path) -> str:
        """The extension of a file's format, told from its header.

        UnreadablePicture says why it is refused, DecodeFailed that the look at it failed.
        """
        message, _ = self._send({"do": "inspect", "path": str(path.absolute())}, self._limits.inspect_s, _is_inspected)
        if "unreadable" in message:
            raise UnreadablePicture(message["unreadable"])
        return str(message["extension"])

    def protection(self) -> dict[str, str]:
        """Each protection of the decoding processes with "on", or why it is missing. NoDecoder where none starts."""
        process = self._take()
        try:
            process = process or DecodeProcess(self._limits, self._readable)
            return process.protection
        finally:
            self._idle.put(process)

    def _decode(self, path: Path, request: dict[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
        """The reply to a request to decode, and the parts of its body."""
        whole = {"do": "decode", "path": str(path.absolute()), **request}
        message, body = self._send(whole, self._limits.timeout_s, _is_decoded)
        parts, place = [], 0
        for length in message["parts"]:
            parts.append(memoryview(body)[place : place + length])
            place += length
        return message, parts

    def _send(self, request: dict[str, Any], seconds: float, is_valid: Any) -> tuple[dict[str, Any], bytearray]:
        process = self._take()
        try:
            if process is not None and process.ended:  # killed while it was idle, which is no picture's fault
                process.end()
                process = None
            process = process or DecodeProcess(self._limits, self._readable)
            message, body = process.send(request, seconds)
            if not _is_refused(message) and not is_valid(message, body, request):
                raise process.malformed()
        except ProcessLost:
            assert process is not None
            timed_out, ending, process = process.timed_out, process.end(), None
            raise DecodeFailed(f"Decoding the picture failed: {ending}.", final=False, timed_out=timed_out) from None
        except BaseException:  # its reply may be unread, and would be taken for that to the next request
            if process is not None:
                process.end(patience_s=0)
                process = None
            raise
        finally:
            self._idle.put(process)
        if "fault" in message:
            log.error("the decoding process failed at %s: %s", request["path"], message["fault"])
            raise DecodeFailed("Decoding the picture failed; the log says how.", final=False)
        if "reason" in message:
            raise DecodeFailed(message["reason"], message["final"])
        return message, body

    def _take(self) -> DecodeProcess | None:
        """A process that nobody uses, or None for one still to be started. NoDecoder once the pool is closed."""
        process = self._idle.get()
        if self._closed:
            self._idle.put(process)
            raise NoDecoder("the decoding processes have ended, since the service ends")
        return process

    def close(self) -> None:
        """End the processes, after the pictures in hand; whoever comes later gets NoDecoder, and does not wait."""
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


def _is_refused(message: dict[str, Any]) -> bool:
    if "fault" in message:
        return isinstance(message["fault"], str)
    return isinstance(message.get("reason"), str) and isinstance(message.get("final"), bool)


def _is_inspected(message: dict[str, Any], body: bytearray, request: dict[str, Any]) -> bool:
    return isinstance(message.get("unreadable"), str) or message.get("extension") in EXTENSIONS.values()


def _is_decoded(message: dict[str, Any], body: bytearray, request: dict[str, Any]) -> bool:
    """Whether the reply has the form that the request asks for: sizes and parts that agree with each other."""
    lengths = message.get("parts")
    wanted = request["pixels"] + request["thumbnail"] + (request["stripped"] is not None)
    if not isinstance(lengths, list) or len(lengths) != wanted or any(type(one) is not int for one in lengths):
        return False
    if min(lengths) < 0 or sum(lengths) != len(body):
        return False
    if request["thumbnail"] and lengths[int(request["pixels"])] > LARGEST_THUMBNAIL:
        return False
    if request["stripped"] is not None and message.get("stripped") not in (request["stripped"], "jpg"):
        return False
    return not request["pixels"] or _are_pixels(message, lengths, request)


def _are_pixels(message: dict[str, Any], lengths: list[int], request: dict[str, Any]) -> bool:
    taken = message.get("taken_at")
    is_time = taken is None or (type(taken) is float and math.isfinite(taken))
    if not (
        is_time
        and _is_description(message)
        and _is_position(message, request)
        and _is_size(message.get("size"), 2**31)
        and _is_size(message.get("reduced"), LONGEST_SIDE)
    ):
        return False
    width, height = message["reduced"]
    return bool(lengths[0] == 3 * width * height)


def _is_description(message: dict[str, Any]) -> bool:
    caption, keywords = message.get("caption"), message.get("keywords")
    if not (isinstance(keywords, list) and all(isinstance(one, str) for one in [caption, *keywords])):
        return False
    texts = [str(caption), *keywords]
    are_short = len(texts[0]) <= LONGEST_CAPTION and len("; ".join(keywords)) <= LONGEST_KEYWORDS
    return are_short and all(keywords) and all(text == shown(text) for text in texts)


def _is_position(message: dict[str, Any], request: dict[str, Any]) -> bool:
    position = message.get("position")
    if position is None:
        return True
    if not (request["position"] and isinstance(position, list) and [type(one) for one in position] == [float, float]):
        return False
    return bool(abs(position[0]) <= 90 and abs(position[1]) <= 180)


def _is_size(size: Any, most: int) -> bool:
    return isinstance(size, list) and len(size) == 2 and all(type(one) is int and 1 <= one <= most for one in size)


def _write_derived(name: str, path: Path, content: memoryview, original: Path) -> None:
    """Write a file that was made of an original, unless that is erased meanwhile: ErasedMeanwhile then."""
    _write(name, path, content)
    # An erasure removes the original first: it finds what was written before, and is noticed here otherwise.
    if not original.exists():
        path.unlink(missing_ok=True)
        raise ErasedMeanwhile("The picture was deleted meanwhile.", final=False)


def _write(name: str, path: Path, content: memoryview) -> None:
    """Write a file atomically; OSError says which. After a power cut it is whole or missing, and made again then."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(path) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # or the name could be left without the bytes, and be taken for the picture
            reach(FaultPoint.DERIVED_WRITTEN)
            Path(file.name).replace(path)
            reach(FaultPoint.DERIVED_RENAMED)
    except OSError as fault:
        raise OSError(fault.errno, f"the {name} cannot be written: {fault}") from fault
