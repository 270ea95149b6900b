"""The record of the files that were sent to a service."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from index.files import replace_file
from regard_client import Client
from service.cli.terminal.output import print_note
from service.errors import UserError


class FileState(NamedTuple):
    """Size and modification time of a file, which counts as unchanged while both stay the same."""

    num_bytes: int
    modified_ns: int


def state_of(path: Path) -> FileState | None:
    """The state of a file; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns)


@dataclass
class _Sent:
    """The files that were sent to one collection, by path, and the ids of the contents that it knows, or None."""

    files: dict[str, tuple[FileState, str | None]] = field(default_factory=dict)
    contents: set[str | None] = field(default_factory=set)

    def add(self, file: str, state: FileState, content: str | None) -> None:
        self.files[file] = state, content
        self.contents.add(content)


class SentFiles:
    """The files that were sent to a service, with their states, recorded in a file of JSON lines.

    A line is written once the service has answered. A line cut off by a kill is ignored, and its picture is sent again,
    which is harmless: the service identifies pictures by their content. When most lines are outdated, the next start
    rewrites the file without them.

    Each line names the collection to which the file was sent; null if the service does not.
    """

    def __init__(self, path: Path) -> None:
        """`path` is created if missing. OSError if it is not writable."""
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
            sent = self._sent_to(entry.get("collection"))
            content = entry.get("content")
            if "file" in entry:
                sent.add(str(entry["file"]), FileState(int(entry["num_bytes"]), int(entry["modified_ns"])), content)
            sent.contents.add(content)
        except (ValueError, TypeError, KeyError, AttributeError):
            return

    def _entries(self) -> Iterator[Mapping[str, str | int | None]]:
        """A line for each file, in its latest state, and for each content."""
        for collection, sent in self._by_collection.items():
            for file, (state, content) in sent.files.items():
                yield {"file": file, **state._asdict(), "collection": collection, "content": content}
            others = sent.contents.difference({content for _, content in sent.files.values()}, [None])
            yield from ({"collection": collection, "content": content} for content in others)

    def _sent_to(self, collection: str | None) -> _Sent:
        return self._by_collection.setdefault(collection, _Sent())

    def switch_to(self, collection: str | None) -> bool:
        """Use this collection from now on; None if the service does not name it. Returns whether it was another."""
        before, self._collection = self._collection, collection
        self._sent = self._sent_to(collection)
        return before != collection

    def __len__(self) -> int:
        """The number of files that were sent to the collection."""
        return len(self._sent.files)

    def has(self, path: Path, state: FileState) -> bool:
        """Whether the file was sent to the collection in this state."""
        return self._sent.files.get(_key(path), [None])[0] == state

    def has_content(self, content: str) -> bool:
        """Whether the collection knew a file with this content id, under any name."""
        return content in self._sent.contents

    def content_of(self, path: Path) -> str | None:
        """The content id of a file that was sent, if the collection knew it."""
        return self._sent.files[_key(path)][1]

    def add(self, path: Path, state: FileState, content: str | None = None) -> None:
        """Record that the file was sent. `content` is its content id if it was accepted, or is deleted there."""
        self._sent.add(_key(path), state, content)
        self._write({"file": _key(path), **state._asdict(), "collection": self._collection, "content": content})

    def _write(self, entry: Mapping[str, str | int | None]) -> None:
        with self._path.open("a+b") as file:
            if file.tell() and not _ends_with_newline(file.fileno()):
                file.write(b"\n")
            file.write(json.dumps(entry).encode() + b"\n")


def _ends_with_newline(descriptor: int) -> bool:
    return os.pread(descriptor, 1, os.fstat(descriptor).st_size - 1) == b"\n"


def _key(path: Path) -> str:
    return str(path.absolute())


def open_sent_files(client: Client, folders: Sequence[Path], collection: str | None) -> SentFiles:
    """The record of files sent from these folders to this collection. UserError if it cannot be written."""
    try:
        path = sent_files_path(client.url, folders)
        sent = SentFiles(path)
    except RuntimeError as fault:  # from Path.home
        raise UserError(f"sent files are not recorded: {fault} XDG_STATE_HOME names a folder for that") from fault
    except OSError as fault:
        why = f"{path}, which records sent files, cannot be written: {fault.strerror}"
        raise UserError(f"{why}; XDG_STATE_HOME names another folder for it") from fault
    sent.switch_to(collection)
    if len(sent):
        print_note(f"left out if unchanged: {len(sent)} files sent before, listed in {path}")
    return sent


def sent_files_path(url: str, folders: Sequence[Path]) -> Path:
    """The file that records what was sent from these folders to this service, in the user's state folder (XDG)."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    state = given if given.is_absolute() else Path.home() / ".local" / "state"  # relative paths are invalid
    text = "\0".join([url, *sorted(str(folder.resolve()) for folder in folders)])
    return state / "regard" / f"sent-{hashlib.sha256(os.fsencode(text)).hexdigest()[:16]}.jsonl"
