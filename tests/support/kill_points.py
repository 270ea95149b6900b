"""Kills a process, in effect, before any of its durable steps: a write, an fsync, a commit, a rename, a removal."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from types import TracebackType
from typing import Any, Self

import PIL.Image
import pytest

from index.schema import Database
from service.media.decode_pool import DecodedPicture, DecodeFailed
from service.worker import process


class Killed(BaseException):
    """Nothing catches it but the test."""


class KillPoints:
    """Counts durable steps from `arm` on, and raises Killed before the one it was armed for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self._deadly: int | None = None
        writing = Database.writing

        @contextmanager
        def committing(database: Database) -> Iterator[Connection]:
            with writing(database) as db:
                yield db
                self._step()

        monkeypatch.setattr(Database, "writing", committing)
        for name in ("pwrite", "fsync"):
            monkeypatch.setattr(os, name, self._before(getattr(os, name)))
        monkeypatch.setattr(shutil, "rmtree", self._before(shutil.rmtree))
        for name in ("unlink", "rmdir", "replace"):
            monkeypatch.setattr(Path, name, self._before(getattr(Path, name)))

    def arm(self, deadly: int | None) -> None:
        """Begin to count; None kills nobody."""
        self.steps, self._deadly = 0, deadly

    def _before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*arguments: Any, **options: Any) -> Any:
            self._step()
            return call(*arguments, **options)

        return stepping

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self._deadly:
            raise Killed


class DecodeHere:
    """Decodes in the worker's own process, which starts at once."""

    @classmethod
    def from_settings(cls, settings: object, **options: object) -> Self:
        return cls()

    def decode(self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None) -> DecodedPicture:
        try:
            with PIL.Image.open(path) as picture:
                return DecodedPicture(picture.convert("RGB"), picture.width, picture.height, None)
        except OSError:
            raise DecodeFailed("The file is damaged.", final=True) from None

    def strip(self, path: Path, stripped: Path) -> Path:
        """Pictures are not shown here."""
        return path

    def submit(
        self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None, with_position: bool = False
    ) -> Any:
        decoded = self.decode

        class Later:
            def result(self) -> DecodedPicture:
                return decoded(path, thumbnail)

            def cancel(self) -> None:
                """Nothing runs."""

        return Later()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was started."""


def decode_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers decode without processes of their own."""
    monkeypatch.setattr(process, "DecodePool", DecodeHere)
