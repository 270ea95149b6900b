"""Views: pictures and captions as encoded by one model, with shortlists over their embeddings.

One `ViewWriter` extends a view; any number of `View`s read it, also in other processes. A query takes one `Snapshot`
and keeps it to the end, so that everything it reads belongs to the same state.
"""

import logging
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy.typing as npt

from index.views import view_manifest
from index.views.ragged import Half
from index.views.shortlist import IVF_FROM, Floats, Part, Shortlist, inverted_part
from index.views.shortlist_files import LOCK, Building, load_part, one_builder, remove_part, save_part
from index.views.slab import Arrays, RowNumbers
from index.views.view_manifest import Counts, Manifest
from index.views.view_stores import IMAGES, NAMES, Stores, refuse_past

SHORTLISTS = "shortlists"  # the folder of stored shortlists

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """One state of a view, and access to its data. Immutable: newer states are other snapshots."""

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
        """Digest of the extractor that found the view's features."""
        return self.manifest.extractor

    @property
    def counts(self) -> Counts:
        """Rows that can be searched and read."""
        return Counts(len(self.images), len(self.captions))

    def read_images(self, rows: RowNumbers, out: Mapping[str, npt.NDArray[Any]] | None = None) -> Arrays:
        """Encoded records [len(rows), ...] for each field, into `out` if given; IndexError past the counts."""
        refuse_past(rows, len(self.images))
        return self.stores.images.read(rows, out)

    def images_in_place(self) -> Arrays:
        """Encoded records of at least all counted images, [n, ...] for each field, mapped and read-only."""
        return self.stores.images.in_place(len(self.images))

    def read_captions(self, rows: RowNumbers) -> list[Half]:
        """Encoded words, an [n, D] array for each caption; IndexError past the counts."""
        refuse_past(rows, len(self.captions))
        return self.stores.captions.read(rows)

    def extended(self, manifest: Manifest, counts: Counts) -> Self:
        """The state with the rows up to the counts, which are no fewer than this one's."""
        images, captions = (
            shortlist.extended(self.stores.embeddings(name, count)[len(shortlist) :])
            for name, shortlist, count in zip(NAMES, (self.images, self.captions), counts, strict=True)
        )
        return type(self)(manifest, self.stores, images, captions)

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows of its manifest; otherwise the last rows were damaged, or being overwritten."""
        return self.counts == self.manifest.counts

    def followed(self, manifest: Manifest) -> Self:
        """The state with the rows of a newer manifest of the same generation.

        Where this state stops before a damaged row, it grows only up to the first row that still fails its checksum, so
        that usually a single row is checked.
        """
        counts = manifest.counts
        if not self.is_whole:
            counts = self.stores.undamaged_counts(self.counts, counts)
        replaced = manifest.replaced[len(self.manifest.replaced) :]
        return self.overwritten(IMAGES, replaced).extended(manifest, counts)

    def overwritten(self, name: str, rows: Sequence[int]) -> Self:
        """The state with the current embeddings of these rows of images or captions."""
        if not rows:
            return self
        shortlist = self.shortlist(name)
        return self._with(name, shortlist.overwritten(rows, self.stores.embeddings(name, len(shortlist))))

    def shortlist(self, name: str) -> Shortlist:
        """The shortlist over the embeddings of images or of captions."""
        return self.images if name == IMAGES else self.captions

    def indexed(self, name: str, part: Part) -> Self:
        """The state with an index of the first images or captions; see Shortlist.indexed."""
        return self._with(name, self.shortlist(name).indexed(part))

    def _with(self, name: str, shortlist: Shortlist) -> Self:
        return replace(self, images=shortlist) if name == IMAGES else replace(self, captions=shortlist)


class View:
    """Reads a view that another process may be extending.

    `snapshot` is free and may be called from any thread. `refresh` copies new rows, and `build_index` may take minutes:
    each belongs in a background thread of its own, while searches use the previous snapshot.
    """

    def __init__(self, folder: Path, ivf_from: int = IVF_FROM) -> None:
        """Open the published view; NoView where none was built. `ivf_from`: see Shortlist."""
        self._folder = folder
        self._ivf_from = ivf_from
        self._refreshing = threading.Lock()
        self._content = view_manifest.read(folder)
        self._snapshot = self._load(Manifest.parse(self._content, folder))

    def close(self) -> None:
        """Close the files."""
        self._snapshot.stores.close()

    def snapshot(self) -> Snapshot:
        """The latest complete state."""
        return self._snapshot

    def refresh(self, patience_s: float = threading.TIMEOUT_MAX) -> bool:
        """Load what was published since; True if there was anything. Cheap if not.

        Rows that failed their checksums are loaded once they match: a compaction, which writes zeros before checksums,
        publishes nothing when it is done. Returns False also where another thread refreshes for longer than
        `patience_s`; reloading a view from scratch is left to callers without a limit. NoView when the view was
        removed; the last snapshot then stays.
        """
        if not self._refreshing.acquire(timeout=patience_s):
            return False
        try:
            content, snapshot = view_manifest.read(self._folder), self._snapshot
            is_new = content != self._content
            if not is_new and snapshot.is_whole:
                return False
            manifest = Manifest.parse(content, self._folder)
            if manifest.generation == snapshot.manifest.generation:
                self._snapshot = snapshot.followed(manifest)
            elif patience_s < threading.TIMEOUT_MAX:
                return False
            else:  # older snapshots may still read the old files, which close when the last of them is gone
                self._snapshot = self._load(manifest)
            self._content = content
            return is_new or self._snapshot.counts != snapshot.counts
        finally:
            self._refreshing.release()

    def build_index(self) -> bool:
        """Build the indexes that are due, of images and of captions; True if any was built.

        Rows are searched exactly until it is done. False also while another process builds one, which is loaded once it
        is done, and where rows were overwritten in the meantime, whose old vectors the index may hold.
        """
        if not any(self._snapshot.shortlist(name).index_is_due for name in NAMES):
            return False
        with one_builder(self._folder / SHORTLISTS) as building:
            built = [self._index(name, building) for name in NAMES if building is not None and not building.is_void]
        return any(built)

    def _index(self, name: str, building: Building) -> bool:
        """Put an index of all images or captions in place, if one is due; False if none was put there."""
        snapshot = self._snapshot
        part = self._new_part(name, snapshot, building) if snapshot.shortlist(name).index_is_due else None
        if part is None:
            return False
        with self._refreshing:
            now, earlier = self._snapshot, snapshot.manifest
            if now.manifest.generation == earlier.generation:  # otherwise rows were cut in the meantime
                replaced = replaced_rows(name, now.manifest)[len(replaced_rows(name, earlier)) :]
                self._snapshot = now.indexed(name, part).overwritten(name, replaced)
        return True

    def _new_part(self, name: str, snapshot: Snapshot, building: Building) -> Part | None:
        """The part that another process has stored, else one built and stored here; None if the right to build became
        void."""
        shortlist, manifest = snapshot.shortlist(name), snapshot.manifest
        exact = snapshot.stores.embeddings(name, len(shortlist))
        stored = self._stored_part(name, manifest, exact)
        if stored is not None and not shortlist.indexed(stored).index_is_due:
            return stored
        built = inverted_part(exact)
        if building.is_void:
            return None
        part = self._store(name, manifest, built)
        if building.is_void:  # emptied just now; had it been later, that would have removed this part too
            remove_part(self._folder / SHORTLISTS, name)
            return None
        return part

    def _load(self, manifest: Manifest) -> Snapshot:
        """Everything that is published and undamaged (the writer may not have cut back a damaged tail yet)."""
        stores = Stores(self._folder, manifest, write=False)
        counts = stores.valid_counts(manifest.counts)
        if counts != manifest.counts:
            log.warning(
                "the view in %s has damaged rows: it is searched up to %d of %d pictures and %d of %d captions until"
                " these are whole",
                self._folder,
                *(number for pair in zip(counts, manifest.counts, strict=True) for number in pair),
            )
        images, captions = (
            self._stored_shortlist(name, manifest, stores.embeddings(name, count))
            for name, count in zip(NAMES, counts, strict=True)
        )
        return Snapshot(manifest, stores, images, captions).extended(manifest, counts)

    def _stored_shortlist(self, name: str, manifest: Manifest, exact: Floats) -> Shortlist:
        part = self._stored_part(name, manifest, exact)
        return Shortlist(manifest.embed_dim, [] if part is None else [part], self._ivf_from)

    def _stored_part(self, name: str, manifest: Manifest, exact: Floats) -> Part | None:
        replaced = replaced_rows(name, manifest)
        return load_part(
            self._folder / SHORTLISTS, name, generation=manifest.generation, exact=exact, replaced=replaced
        )

    def _store(self, name: str, manifest: Manifest, built: Part) -> Part:
        """Store a part, and return it as stored, whose memory other processes share; or as built, where that fails."""
        try:
            num_replaced = len(replaced_rows(name, manifest))
            save_part(self._folder / SHORTLISTS, name, built, manifest.generation, num_replaced)
        except OSError as fault:  # a full or read-only disk: it is built again at the next opening
            log.warning("the shortlist of %s is not stored: %s", self._folder, fault)
            return built
        stored = self._stored_part(name, manifest, built.vectors())
        return built if stored is None else stored


def replaced_rows(name: str, manifest: Manifest) -> tuple[int, ...]:
    """The rows of images or captions that were replaced in the manifest's generation; captions never are."""
    return manifest.replaced if name == IMAGES else ()


def remove_shortlists(folder: Path) -> None:
    """Remove a view's stored shortlists, which are trained again at the next opening."""
    # First: a process that stores a part after the folder was listed then finds its right void.
    (folder / SHORTLISTS / LOCK).unlink(missing_ok=True)
    shutil.rmtree(folder / SHORTLISTS, ignore_errors=True)
