"""What one model made of the pictures and captions: encoded records, embeddings, and shortlists over them."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from index import view_manifest as manifest
from index.files import make_folder, remove_strays
from index.ragged import Half, RaggedSlab
from index.shortlist import Floats, Shortlist
from index.slab import Arrays, Corrupt, RowNumbers, Slab
from index.view_manifest import Counts, Manifest, NoView, ViewMismatch

__all__ = ["Counts", "NoView", "View", "ViewMismatch", "ViewWriter"]


class Stores:
    """The slabs of a view: records and embeddings of images, words and embeddings of captions."""

    def __init__(self, folder: Path, about: Manifest, write: bool) -> None:
        """Open, and create when `write`."""
        embedding = {"embedding": ((about.embed_dim,), "<f4")}
        self.images = Slab.open(folder / "images", about.layout, write)
        self.image_embeddings = Slab.open(folder / "image_embeddings", embedding, write)
        self.captions = RaggedSlab.open(folder / "captions", about.word_dim, write)
        self.caption_embeddings = Slab.open(folder / "caption_embeddings", embedding, write)

    def sound(self, counts: Counts) -> Counts:
        """What is left of the counts when tails that do not check are cut off."""
        images = self.image_embeddings.sound_length(self.images.sound_length(counts.images))
        captions = self.caption_embeddings.sound_length(self.captions.sound_length(counts.captions))
        return Counts(images, captions)

    def close(self) -> None:
        """Close the files."""
        for slab in (self.images, self.image_embeddings, self.captions, self.caption_embeddings):
            slab.close()


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

        `layout`: field -> shape of one image's record; fields named in `bools` are stored as bool, single numbers
        as fp32 (scores that differ by less than fp16 tells apart would be compared by them), others as fp16.
        """
        wanted = Manifest(
            digest=digest,
            extractor=extractor,
            embed_dim=embed_dim,
            word_dim=word_dim,
            layout={
                name: (tuple(shape), "|b1" if name in bools else "<f2" if shape else "<f4")
                for name, shape in layout.items()
            },
        )
        make_folder(folder)
        remove_strays(folder)
        self._folder = folder
        try:
            found = Manifest.parse(manifest.read(folder), folder)
        except (NoView, Corrupt):
            found = wanted  # nothing, or nothing known, was published: start from no rows
        found.refuse_other(wanted, folder)
        self._stores = Stores(folder, found, write=True)
        self._manifest = found
        sound = self._stores.sound(found.counts)
        if found is wanted or sound != found.counts:
            self.cut_back(*sound)

    def counts(self) -> Counts:
        """Rows that are safely there: continue at these."""
        return self._manifest.counts

    def add_images(self, at: int, records: Mapping[str, npt.NDArray[Any]], embeddings: Floats) -> None:
        """Append [n, ...] records and [n, E] embeddings as rows at .. at+n, then publish them.

        ValueError unless `at` is counts().images.
        """
        counts = self.counts()
        _refuse_gap(at, counts.images, {"embeddings": embeddings, **records}, embeddings)
        self._stores.images.append(at, records)
        self._stores.image_embeddings.append(at, {"embedding": embeddings})
        self._publish(self._manifest.at(counts._replace(images=at + len(embeddings))))

    def add_captions(self, at: int, words: Sequence[npt.NDArray[np.floating[Any]]], embeddings: Floats) -> None:
        """Append [n, D] word arrays and their [len(words), E] embeddings, then publish. As add_images."""
        counts = self.counts()
        _refuse_gap(at, counts.captions, {"embeddings": embeddings, "words": words}, embeddings)
        self._stores.captions.append(at, words)
        self._stores.caption_embeddings.append(at, {"embedding": embeddings})
        self._publish(self._manifest.at(counts._replace(captions=at + len(embeddings))))

    def cut_back(self, images: int, captions: int) -> None:
        """Forget rows past these counts (readers notice at their next refresh)."""
        counts = self.counts()
        if images > counts.images or captions > counts.captions:
            raise ValueError(f"cannot cut {counts} back to {images}, {captions}")
        self._publish(self._manifest.cut(Counts(images, captions)))

    def _publish(self, new: Manifest) -> None:
        new.save(self._folder)
        self._manifest = new

    def close(self) -> None:
        """Close the files."""
        self._stores.close()


def _refuse_gap(at: int, count: int, fields: Mapping[str, Any], embeddings: Floats) -> None:
    """A view has a row for every slot, each whole and findable."""
    if at != count:
        raise ValueError(f"the view has {count} rows, the next cannot be {at}")
    lengths = {name: len(rows) for name, rows in fields.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"rows of different number: {lengths}")
    if not np.isfinite(embeddings).all():
        raise ValueError("an embedding that is not finite would never be found")


@dataclass(frozen=True)
class Snapshot:
    """What a view shows at one moment; never changed, only replaced."""

    about: Manifest
    stores: Stores
    images: Shortlist
    captions: Shortlist

    @classmethod
    def load(cls, folder: Path, about: Manifest) -> Self:
        """Everything that counts and checks (the writer may not have cut a damaged tail back yet)."""
        stores = Stores(folder, about, write=False)
        empty = Shortlist.empty(about.embed_dim)
        return cls(about, stores, empty, empty).caught_up(about, stores.sound(about.counts))

    def caught_up(self, about: Manifest, counts: Counts) -> Self:
        """With the rows up to the counts, which are not fewer than before."""
        images = _extended(self.images, self.stores.image_embeddings, counts.images)
        captions = _extended(self.captions, self.stores.caption_embeddings, counts.captions)
        return type(self)(about, self.stores, images, captions)


def _extended(shortlist: Shortlist, embeddings: Slab, count: int) -> Shortlist:
    return shortlist.extended(embeddings.field("embedding", len(shortlist), count))


class View:
    """Reads a view that another process may be extending. Safe from many threads."""

    def __init__(self, folder: Path, content: bytes) -> None:
        """Use View.open."""
        self._folder = folder
        self._refreshing = threading.Lock()
        self._seen = content
        self._now = Snapshot.load(folder, Manifest.parse(content, folder))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open; NoView when nothing was built there."""
        return cls(folder, manifest.read(folder))

    def close(self) -> None:
        """Close the files."""
        self._now.stores.close()

    def refresh(self) -> bool:
        """Pick up what was published since; True when there was something. Cheap when there was not.

        NoView when the view was removed; what was shown before is still shown.
        """
        with self._refreshing:
            content = manifest.read(self._folder)
            if content == self._seen:
                return False
            about = Manifest.parse(content, self._folder)
            now = self._now
            if about.generation == now.about.generation:
                self._now = now.caught_up(about, about.counts)
            else:  # others may still read the old files: they close when the last of those has ended
                self._now = Snapshot.load(self._folder, about)
            self._seen = content
            return True

    @property
    def digest(self) -> str:
        """Of the model that made the view."""
        return self._now.about.digest

    @property
    def extractor(self) -> str:
        """Digest of the extractor that made the features it was made from."""
        return self._now.about.extractor

    @property
    def counts(self) -> Counts:
        """Rows this view shows now."""
        now = self._now
        return Counts(len(now.images), len(now.captions))

    @property
    def images(self) -> Shortlist:
        """Over image embeddings; rows are region slots."""
        return self._now.images

    @property
    def captions(self) -> Shortlist:
        """Over caption embeddings; rows are caption slots."""
        return self._now.captions

    def read_images(self, rows: RowNumbers, out: Mapping[str, npt.NDArray[Any]] | None = None) -> Arrays:
        """Encoded records, as Slab.read."""
        now = self._now
        _refuse_past(rows, len(now.images))
        return now.stores.images.read(rows, out)

    def read_captions(self, rows: RowNumbers) -> list[Half]:
        """Encoded words, one [n, D] array a caption."""
        now = self._now
        _refuse_past(rows, len(now.captions))
        return now.stores.captions.read(rows)

    def embedding_of(self, row: int) -> Floats:
        """[E] the stage-one embedding of an image row."""
        now = self._now
        _refuse_past([row], len(now.images))
        embedding: Floats = now.stores.image_embeddings.field("embedding", row, row + 1)[0]
        return embedding


def _refuse_past(rows: RowNumbers, count: int) -> None:
    if len(rows) and not 0 <= min(rows) <= max(rows) < count:
        raise IndexError(f"the view shows rows 0 .. {count - 1}, asked for {min(rows)} .. {max(rows)}")
