"""Kills a process, in effect, before any of its durable steps: a write, an fsync, a commit, a rename, a removal."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import PIL.Image
import pytest

from index.catalog.database.connection import Database
from service.media.decode_pool import DecodedPicture, DecodeFailed, DecodePool
from service.settings import Settings
from service.worker import process


class Killed(BaseException):
    """Raised instead of a kill; only the test catches it."""


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
        """Start to count, and kill before the step of this number; None for no kill."""
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


class DecodedWhenAsked(Future[DecodedPicture]):
    """A picture that is decoded when its result is asked for."""

    def __init__(self, decode: Callable[[], DecodedPicture]) -> None:
        super().__init__()
        self._decode = decode

    def result(self, timeout: float | None = None) -> DecodedPicture:
        return self._decode()

    def done(self) -> bool:
        """Whoever asks need not wait."""
        return True

    def cancel(self) -> bool:
        """Nothing runs."""
        return True


class DecodeHere(DecodePool):
    """Decodes in the worker's own process, which starts at once."""

    def __init__(self) -> None:
        """Starts no process, and no thread either."""

    @classmethod
    def from_settings(
        cls, settings: Settings, workers: int | None = None, readable: Sequence[Path] = ()
    ) -> "DecodeHere":
        return cls()

    def decode(
        self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None, with_coordinates: bool = False
    ) -> DecodedPicture:
        try:
            with PIL.Image.open(path) as picture:
                return DecodedPicture(picture.convert("RGB"), picture.width, picture.height, None)
        except OSError:
            raise DecodeFailed("The file is damaged.", final=True) from None

    def strip(self, path: Path, stripped: Path) -> Path:
        """Pictures are not shown here."""
        return path

    def make_thumbnail(self, path: Path, thumbnail: Path) -> None:
        """Pictures are not shown here."""

    def submit(
        self, path: Path, thumbnail: Path | None = None, stripped: Path | None = None, with_coordinates: bool = False
    ) -> Future[DecodedPicture]:
        return DecodedWhenAsked(lambda: self.decode(path, thumbnail, stripped, with_coordinates))

    def close(self) -> None:
        """Nothing was started."""


def decode_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers decode without processes of their own."""
    monkeypatch.setattr(process, "DecodePool", DecodeHere)
