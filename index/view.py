"""What one model made of the pictures and captions: encoded records, embeddings, and shortlists over them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.ragged import Half
from index.shortlist import Floats, Shortlist
from index.slab import Arrays, RowNumbers


class Counts(NamedTuple):
    """Rows that count: image rows are region slots, caption rows are caption slots."""

    images: int
    captions: int


class ViewMismatch(ValueError):
    """The folder holds the view of another model, layout or extractor; the message says which."""


class NoView(FileNotFoundError):
    """There is no view in the folder yet."""


class ViewWriter:
    """Builds a view. One writer at a time: hold the WriterLock."""

    def __init__(
        self,
        folder: Path,
        *,
        layout: Mapping[str, tuple[int, ...]],
        embed_dim: int,
        word_dim: int,
        digest: str,
        extractor: str,
        bools: Sequence[str] = ("mask",),
    ) -> None:
        """Open or create, and cut back what does not check; ViewMismatch for another digest, extractor, layout.

        `layout`: field -> shape of one image's record; fields named in `bools` are stored as bool, others fp16.
        """
        raise NotImplementedError

    def counts(self) -> Counts:
        """Rows that are safely there: continue at these."""
        raise NotImplementedError

    def add_images(self, at: int, records: Mapping[str, npt.NDArray[Any]], embeddings: Floats) -> None:
        """Append [n, ...] records and [n, E] embeddings as rows at .. at+n, then publish them.

        ValueError unless `at` is counts().images.
        """
        raise NotImplementedError

    def add_captions(
        self, at: int, words: Sequence[npt.NDArray[np.floating[Any]]], embeddings: Floats
    ) -> None:
        """Append [n, D] word arrays and their [len(words), E] embeddings, then publish them. As add_images."""
        raise NotImplementedError

    def cut_back(self, images: int, captions: int) -> None:
        """Forget rows past these counts (readers notice at their next refresh)."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the files."""
        raise NotImplementedError


class View:
    """Reads a view that another process may be extending. Safe from many threads."""

    digest: str
    extractor: str

    @classmethod
    def open(cls, folder: Path) -> "View":
        """Open; NoView when nothing was built there."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the files."""
        raise NotImplementedError

    def refresh(self) -> bool:
        """Pick up what was published since; True when there was something. Cheap when there was not."""
        raise NotImplementedError

    @property
    def counts(self) -> Counts:
        """Rows this view shows now."""
        raise NotImplementedError

    @property
    def images(self) -> Shortlist:
        """Over image embeddings; rows are region slots."""
        raise NotImplementedError

    @property
    def captions(self) -> Shortlist:
        """Over caption embeddings; rows are caption slots."""
        raise NotImplementedError

    def read_images(self, rows: RowNumbers, out: Mapping[str, npt.NDArray[Any]] | None = None) -> Arrays:
        """Encoded records, as Slab.read."""
        raise NotImplementedError

    def read_captions(self, rows: RowNumbers) -> list[Half]:
        """Encoded words, one [n, D] array a caption."""
        raise NotImplementedError

    def embedding_of(self, row: int) -> Floats:
        """[E] the stage-one embedding of an image row."""
        raise NotImplementedError
