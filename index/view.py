"""Views: the pictures and captions as one model encodes them, with shortlists over their embeddings.

One `ViewWriter` extends a view; any number of `View`s read it, also in other processes. A query takes one `Snapshot`
and keeps it to the end, so that everything it reads belongs to the same state.
"""

import logging
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from index import view_manifest
from index.fault_points import FaultPoint, reach
from index.files import make_folder, remove_strays
from index.ragged import Half, RaggedSlab
from index.shortlist import IVF_FROM, Floats, Part, Shortlist, inverted_part
from index.shortlist_files import load_part, one_builder, save_part
from index.slab import Arrays, Corrupt, RowNumbers, Slab
from index.view_manifest import Counts, Manifest, NoView, ViewMismatch

__all__ = [
    "Counts",
    "NoView",
    "Snapshot",
    "View",
    "ViewMismatch",
    "ViewWriter",
    "opened_stores",
    "remove_shortlists",
]

NAMES = IMAGES, CAPTIONS = "images", "captions"
SHORTLISTS = "shortlists"  # the folder of stored shortlists

log = logging.getLogger(__name__)


class Stores:
    """The slabs of a view: records and embeddings of images, words and embeddings of captions."""

    def __init__(self, folder: Path, about: Manifest, write: bool) -> None:
        """Open, and create when `write`."""
        embedding = {"embedding": ((about.embed_dim,), "<f4")}
        self.images = Slab.open(folder / "images", about.layout, write)
        self.image_embeddings = Slab.open(folder / "image_embeddings", embedding, write)
        self.captions = RaggedSlab.open(folder / "captions", about.word_dim, write)
        self.caption_embeddings = Slab.open(folder / "caption_embeddings", embedding, write)

    def embeddings(self, name: str, count: int) -> Floats:
        """[count, E] embeddings of the first images or captions, where they are mapped. IndexError for fewer."""
        slab = self.image_embeddings if name == IMAGES else self.caption_embeddings
        mapped: Floats = slab.in_place(count)["embedding"][:count]
        return mapped

    def valid_counts(self, counts: Counts) -> Counts:
        """The counts without damaged tails."""
        images = self.image_embeddings.valid_prefix(self.images.valid_prefix(counts.images))
        captions = self.caption_embeddings.valid_prefix(self.captions.valid_prefix(counts.captions))
        return Counts(images, captions)

    def check_image(self, row: int) -> None:
        """Raise Corrupt where what is stored of a picture is damaged."""
        self.images.check(row)
        self.image_embeddings.check(row)

    def check_caption(self, row: int) -> None:
        """Raise Corrupt where what is stored of a caption is damaged."""
        self.captions.check(row)
        self.caption_embeddings.check(row)

    def blank(self, images: Sequence[int], captions: Sequence[int]) -> int:
        """Overwrite rows with zeros; how many were not so before. A killed blanking may have done a part of a row."""
        return max(self.image_embeddings.blank(images), self.images.blank(images)) + max(
            self.caption_embeddings.blank(captions), self.captions.blank(captions)
        )

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
        wide: Sequence[str] = (),
    ) -> None:
        """Open or create, and cut back damaged rows; ViewMismatch for another digest, extractor or layout.

        `layout`: field -> shape of one image's record; fields named in `bools` are stored as bool, single numbers
        as fp32 (scores that differ by less than fp16 tells apart would be compared by them), as are fields named in
        `wide`, others as fp16. A view of an earlier release, which knew no `wide`, stays as it is: see `wide_fields`.
        """
        wanted = Manifest(
            digest=digest,
            extractor=extractor,
            embed_dim=embed_dim,
            word_dim=word_dim,
            layout=_layout(layout, bools, wide),
        )
        make_folder(folder)
        remove_strays(folder)
        self._folder = folder
        try:
            found = Manifest.parse(view_manifest.read(folder), folder)
        except (NoView, Corrupt):
            found = wanted  # nothing, or nothing known, was published: start from no rows
        earlier = _layout(layout, bools, wide=())
        found.refuse_other(replace(wanted, layout=earlier) if found.layout == earlier else wanted, folder)
        self.stores = Stores(folder, found, write=True)
        self._manifest = found
        valid = self.stores.valid_counts(found.counts)
        if found is wanted or valid != found.counts:
            self.cut_back(*valid)

    @property
    def wide_fields(self) -> list[str]:
        """The fields of images that are stored as fp32."""
        return [name for name, (_, dtype) in self._manifest.layout.items() if dtype == "<f4"]

    def counts(self) -> Counts:
        """Rows published so far: the next rows to add."""
        return self._manifest.counts

    def add_images(self, at: int, records: Mapping[str, npt.NDArray[Any]], embeddings: Floats) -> None:
        """Append [n, ...] records and [n, E] embeddings as rows at .. at+n, then publish them.

        ValueError unless `at` is counts().images.
        """
        counts = self.counts()
        _refuse_gap(at, counts.images, {"embeddings": embeddings, **records}, embeddings)
        self.stores.images.append(at, records)
        self.stores.image_embeddings.append(at, {"embedding": embeddings})
        self._publish(self._manifest.at(counts._replace(images=at + len(embeddings))))

    def add_captions(self, at: int, words: Sequence[npt.NDArray[np.floating[Any]]], embeddings: Floats) -> None:
        """Append [n, D] word arrays and their [len(words), E] embeddings as rows at .. at+len(words), then publish.

        ValueError unless `at` is counts().captions.
        """
        counts = self.counts()
        _refuse_gap(at, counts.captions, {"embeddings": embeddings, "words": words}, embeddings)
        self.stores.captions.append(at, words)
        self.stores.caption_embeddings.append(at, {"embedding": embeddings})
        self._publish(self._manifest.at(counts._replace(captions=at + len(embeddings))))

    def replace_images(self, rows: Sequence[int], records: Mapping[str, npt.NDArray[Any]], embeddings: Floats) -> None:
        """Write [n, ...] records and [n, E] embeddings over published rows; readers load the view afresh.

        A search may meanwhile read a row that is half the old one. IndexError for a row that is not published.
        """
        counts = self.counts()
        _refuse_past(rows, counts.images)
        _refuse_uneven({"rows": rows, "embeddings": embeddings, **records}, embeddings)
        for place, row in enumerate(rows):
            part = slice(place, place + 1)
            self.stores.images.append(row, {name: array[part] for name, array in records.items()})
            self.stores.image_embeddings.append(row, {"embedding": embeddings[part]})
        self._publish(self._manifest.renewed(counts))

    def cut_back(self, images: int, captions: int) -> None:
        """Drop the rows past these counts; readers follow at their next refresh."""
        counts = self.counts()
        if images > counts.images or captions > counts.captions:
            raise ValueError(f"cannot cut {counts} back to {images}, {captions}")
        self._publish(self._manifest.renewed(Counts(images, captions)))

    def _publish(self, new: Manifest) -> None:
        reach(FaultPoint.ROWS_MANIFEST)
        new.save(self._folder)
        self._manifest = new

    def close(self) -> None:
        """Close the files."""
        self.stores.close()


def _layout(
    shapes: Mapping[str, tuple[int, ...]], bools: Sequence[str], wide: Sequence[str]
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Field -> shape and numpy dtype of one image's record."""

    def kind(name: str) -> str:
        if name in bools:
            return "|b1"
        return "<f4" if name in wide or not shapes[name] else "<f2"

    return {name: (tuple(shape), kind(name)) for name, shape in shapes.items()}


def _refuse_gap(at: int, count: int, fields: Mapping[str, Any], embeddings: Floats) -> None:
    """ValueError unless the rows continue the view without a gap, each complete and findable."""
    if at != count:
        raise ValueError(f"the view has {count} rows, the next cannot be {at}")
    _refuse_uneven(fields, embeddings)


def _refuse_uneven(fields: Mapping[str, Any], embeddings: Floats) -> None:
    """ValueError unless each row is complete and findable."""
    lengths = {name: len(rows) for name, rows in fields.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"rows of different number: {lengths}")
    if not np.isfinite(embeddings).all():
        raise ValueError("an embedding that is not finite would never be found")


@dataclass(frozen=True)
class Snapshot:
    """One state of a view, with everything that reads it. Immutable: newer states are other snapshots."""

    manifest: Manifest
    stores: Stores
    images: Shortlist  # over image embeddings; rows are region slots
    captions: Shortlist  # over caption embeddings; rows are caption slots

    @property
    def digest(self) -> str:
        """Digest of the model that made the view."""
        return self.manifest.digest

    @property
    def extractor(self) -> str:
        """Digest of the extractor whose features the view was made from."""
        return self.manifest.extractor

    @property
    def counts(self) -> Counts:
        """Rows that can be searched and read."""
        return Counts(len(self.images), len(self.captions))

    def read_images(self, rows: RowNumbers, out: Mapping[str, npt.NDArray[Any]] | None = None) -> Arrays:
        """Encoded records [len(rows), ...] a field, into `out` where given; IndexError past the counts."""
        _refuse_past(rows, len(self.images))
        return self.stores.images.read(rows, out)

    def images_in_place(self) -> Arrays:
        """Encoded records of at least all images that count, [n, ...] a field, where they are mapped; read-only."""
        return self.stores.images.in_place(len(self.images))

    def read_captions(self, rows: RowNumbers) -> list[Half]:
        """Encoded words, one [n, D] array a caption; IndexError past the counts."""
        _refuse_past(rows, len(self.captions))
        return self.stores.captions.read(rows)

    def extended(self, manifest: Manifest, counts: Counts) -> Self:
        """The state with the rows up to the counts, which are not fewer than this one's."""
        images, captions = (
            shortlist.extended(self.stores.embeddings(name, count)[len(shortlist) :])
            for name, shortlist, count in zip(NAMES, (self.images, self.captions), counts, strict=True)
        )
        return type(self)(manifest, self.stores, images, captions)

    def shortlist(self, name: str) -> Shortlist:
        """The shortlist over the embeddings of images or of captions."""
        return self.images if name == IMAGES else self.captions

    def indexed(self, name: str, part: Part) -> Self:
        """The state with an index of the first images or captions, see Shortlist.indexed."""
        if name == IMAGES:
            return replace(self, images=self.images.indexed(part))
        return replace(self, captions=self.captions.indexed(part))


class View:
    """Reads a view that another process may be extending.

    `snapshot` costs nothing and may be called from any thread. `refresh` copies what is new, and `build_index` may take
    minutes: each belongs to a background thread of its own, while searches use the snapshot of before.
    """

    def __init__(self, folder: Path, ivf_from: int = IVF_FROM) -> None:
        """Open with what is published now; NoView where nothing was built there. `ivf_from`: see Shortlist."""
        self._folder = folder
        self._ivf_from = ivf_from
        self._refreshing = threading.Lock()
        self._content = view_manifest.read(folder)
        self._snapshot = self._load(Manifest.parse(self._content, folder))

    def close(self) -> None:
        """Close the files."""
        self._snapshot.stores.close()

    def snapshot(self) -> Snapshot:
        """The newest state that is complete."""
        return self._snapshot

    def refresh(self, patience_s: float = -1) -> bool:
        """Take up what was published since; True when there was something. Cheap when there was not.

        False also where another thread is at it for longer than `patience_s`, if that is not negative. NoView when the
        view was removed; the last snapshot stays.
        """
        if not self._refreshing.acquire(timeout=patience_s):
            return False
        try:
            content = view_manifest.read(self._folder)
            if content == self._content:
                return False
            manifest, before = Manifest.parse(content, self._folder), self._snapshot
            if manifest.generation == before.manifest.generation:
                self._snapshot = before.extended(manifest, manifest.counts)
            else:  # older snapshots may still read the old files, which close when the last of them is gone
                self._snapshot = self._load(manifest)
            self._content = content
            return True
        finally:
            self._refreshing.release()

    def build_index(self) -> bool:
        """Build the indexes that are due, of images and of captions; True when one was.

        Rows are searched exactly until then, and all others while it lasts. False also while another process builds
        one, which is taken up once that is done.
        """
        if not any(self._snapshot.shortlist(name).index_is_due for name in NAMES):
            return False
        with one_builder(self._folder / SHORTLISTS) as may_build:
            built = [self._build(name) for name in NAMES if may_build]
        return any(built)

    def _build(self, name: str) -> bool:
        snapshot = self._snapshot
        shortlist = snapshot.shortlist(name)
        if not shortlist.index_is_due:
            return False
        manifest, exact = snapshot.manifest, snapshot.stores.embeddings(name, len(shortlist))
        part = self._stored_part(name, manifest, exact)  # another process may have built it
        if part is None or shortlist.indexed(part).index_is_due:
            part = self._kept(name, manifest, inverted_part(exact))
        with self._refreshing:
            now = self._snapshot
            if now.manifest.generation == manifest.generation:  # otherwise rows were cut meanwhile
                self._snapshot = now.indexed(name, part)
        return True

    def _load(self, manifest: Manifest) -> Snapshot:
        """Everything that counts and is undamaged (the writer may not have cut a damaged tail back yet)."""
        stores = Stores(self._folder, manifest, write=False)
        counts = stores.valid_counts(manifest.counts)
        images, captions = (
            self._stored_shortlist(name, manifest, stores.embeddings(name, count))
            for name, count in zip(NAMES, counts, strict=True)
        )
        return Snapshot(manifest, stores, images, captions).extended(manifest, counts)

    def _stored_shortlist(self, name: str, manifest: Manifest, exact: Floats) -> Shortlist:
        part = self._stored_part(name, manifest, exact)
        return Shortlist(manifest.embed_dim, [] if part is None else [part], self._ivf_from)

    def _stored_part(self, name: str, manifest: Manifest, exact: Floats) -> Part | None:
        return load_part(self._folder / SHORTLISTS, name, generation=manifest.generation, exact=exact)

    def _kept(self, name: str, manifest: Manifest, built: Part) -> Part:
        """The part as it is stored, whose memory other processes share; as it was built where it cannot be."""
        try:
            save_part(self._folder / SHORTLISTS, name, built, manifest.generation)
        except OSError as fault:  # a full or read-only disk: it is built again at the next opening
            log.warning("the shortlist of %s is not stored: %s", self._folder, fault)
            return built
        stored = self._stored_part(name, manifest, built.vectors())
        return built if stored is None else stored


def _refuse_past(rows: RowNumbers, count: int) -> None:
    if len(rows) and not 0 <= min(rows) <= max(rows) < count:
        raise IndexError(f"the snapshot has rows 0 .. {count - 1}, asked for {min(rows)} .. {max(rows)}")


@contextmanager
def opened_stores(folder: Path, write: bool) -> Iterator[tuple[Stores, Counts]]:
    """The slabs of a view, whatever its model, and how many of their rows count. NoView, Corrupt, ViewMismatch."""
    about = Manifest.parse(view_manifest.read(folder), folder)
    stores = Stores(folder, about, write)
    try:
        yield stores, about.counts
    finally:
        stores.close()


def remove_shortlists(folder: Path) -> None:
    """Remove a view's stored shortlists, which are trained anew at the next opening."""
    shutil.rmtree(folder / SHORTLISTS, ignore_errors=True)
