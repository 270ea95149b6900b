"""Files of watched folders that wait to be sent: the new and the changed ones that have stopped growing."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from index.files import replace_file

OWNER = "collection_of_earlier_lines"  # of those that name none


class FileState(NamedTuple):
    """Size and time of change of a file: while neither differs, it is taken for the same file."""

    num_bytes: int
    modified_ns: int


def state_of(path: Path) -> FileState | None:
    """The state of a file; None for one that is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns)


@dataclass
class _Sent:
    """The files that one collection was sent, by their paths, and the ids of the contents that it accepted."""

    files: dict[str, FileState] = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)


class SentFiles:
    """The files that a service was sent, in the state in which it got them; kept in a file of a line each.

    A line is written once the service has answered. One that a kill cut off is passed over when the file is read, and
    its picture sent again: the service knows pictures by their content. Once most lines are of states that files were
    in before, the next start writes the file anew without them.

    What was sent to one collection was not to another: each line names its own. Lines that name none, as those of
    earlier versions, are of the first collection that is named after them.
    """

    def __init__(self, path: Path) -> None:
        """`path` is made where it is not there. OSError where it cannot be written, before anything is sent."""
        self._path = path
        self._collection: str | None = None
        self._sent = _Sent()
        self._by_collection: dict[str | None, _Sent] = {None: self._sent}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for line in lines:
            self._read(line)
        if len(lines) > 2 * len(kept := list(self._entries())):
            replace_file(path, b"".join(json.dumps(entry).encode() + b"\n" for entry in kept))

    def _read(self, line: str) -> None:
        try:
            entry = json.loads(line)
            if entry.get(OWNER) is not None:
                self._give_to(str(entry[OWNER]))
                return
            sent = self._of(entry.get("collection"))
            if "file" in entry:
                sent.files[str(entry["file"])] = FileState(int(entry["num_bytes"]), int(entry["modified_ns"]))
            if entry.get("content") is not None:
                sent.contents.add(entry["content"])
        except (ValueError, TypeError, KeyError, AttributeError):
            return

    def _entries(self) -> Iterator[Mapping[str, str | int]]:
        """A line for each file and each content that was read, without the states that files were in before."""
        for collection, sent in self._by_collection.items():
            named = {} if collection is None else {"collection": collection}
            yield from ({"file": file, **state._asdict(), **named} for file, state in sent.files.items())
            yield from ({"content": content, **named} for content in sent.contents)

    def _of(self, collection: str | None) -> _Sent:
        return self._by_collection.setdefault(collection, _Sent())

    def _give_to(self, collection: str) -> None:
        owner, given = self._of(collection), self._by_collection[None]
        owner.files.update(given.files)
        owner.contents.update(given.contents)
        self._by_collection[None] = _Sent()

    def turn_to(self, collection: str | None) -> bool:
        """Let all else be about this collection, None where the service tells none; whether it was another before."""
        if collection is not None and self._by_collection[None].files:
            self._write({OWNER: collection})
            self._give_to(collection)
        was, self._collection = self._collection, collection
        self._sent = self._of(collection)
        return was != collection

    def __len__(self) -> int:
        """The number of files that were sent to the collection."""
        return len(self._sent.files)

    def has(self, path: Path, state: FileState) -> bool:
        """Whether the file was sent to the collection as it is now."""
        return self._sent.files.get(_key(path)) == state

    def has_content(self, content: str) -> bool:
        """Whether the collection accepted a file of these bytes, under whatever name; earlier versions kept no ids."""
        return content in self._sent.contents

    def add(self, path: Path, state: FileState, content: str | None = None) -> None:
        """Note that the file was sent; `content` is the id of bytes that were accepted."""
        more = {"collection": self._collection, "content": content}
        said = {name: value for name, value in more.items() if value is not None}
        self._write({"file": _key(path), **state._asdict(), **said})
        self._sent.files[_key(path)] = state
        if content is not None:
            self._sent.contents.add(content)

    def _write(self, entry: Mapping[str, str | int]) -> None:
        with self._path.open("a+b") as file:
            if file.tell() and not _ends_its_line(file.fileno()):
                file.write(b"\n")
            file.write(json.dumps(entry).encode() + b"\n")


def _ends_its_line(descriptor: int) -> bool:
    return os.pread(descriptor, 1, os.fstat(descriptor).st_size - 1) == b"\n"


def _key(path: Path) -> str:
    return str(path.absolute())


class StillFiles:
    """The files among those found that have not changed for a while and were not sent as they are."""

    def __init__(self, sent: SentFiles, still_for_s: float, clock: Callable[[], float]) -> None:
        """A file is still when size and time of change stayed the same for `still_for_s` seconds of `clock`."""
        self._sent = sent
        self._still_for_s = still_for_s
        self._clock = clock
        self._since: dict[Path, tuple[FileState, float]] = {}

    def look(self, paths: Iterable[Path]) -> dict[Path, FileState]:
        """The files among these that wait to be sent, in their order, each with the state that it was seen in."""
        now, before, ready = self._clock(), self._since, dict[Path, FileState]()
        self._since = {}
        for path in paths:
            state = state_of(path)
            if state is None or self._sent.has(path, state):
                continue
            seen, since = before.get(path, (None, now))
            self._since[path] = (state, since if seen == state else now)
            if now - self._since[path][1] >= self._still_for_s:
                ready[path] = state
        return ready

    @property
    def num_unsent(self) -> int:
        """The number of files of the last look that were not sent yet, still or not."""
        return sum(not self._sent.has(path, state) for path, (state, _) in self._since.items())
