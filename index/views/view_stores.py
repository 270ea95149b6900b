"""The files of a view: the stored rows of its images and captions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from index.views import view_manifest
from index.views.ragged import RaggedSlab
from index.views.shortlist import Floats
from index.views.slab import RowNumbers, Slab, first_damaged
from index.views.view_manifest import Counts, Manifest

NAMES = IMAGES, CAPTIONS = "images", "captions"


class Stores:
    """The slabs of a view: records and embeddings of images, words and embeddings of captions."""

    def __init__(self, folder: Path, manifest: Manifest, write: bool) -> None:
        """Open the slabs, creating them when `write`."""
        embedding = {"embedding": ((manifest.embed_dim,), "<f4")}
        self.images = Slab.open(folder / "images", manifest.layout, write)
        self.image_embeddings = Slab.open(folder / "image_embeddings", embedding, write)
        self.captions = RaggedSlab(folder / "captions", manifest.word_dim, write)
        self.caption_embeddings = Slab.open(folder / "caption_embeddings", embedding, write)

    def embeddings(self, name: str, count: int) -> Floats:
        """[count, E] embeddings of the first images or captions, mapped. IndexError for fewer."""
        slab = self.image_embeddings if name == IMAGES else self.caption_embeddings
        mapped: Floats = slab.in_place(count)["embedding"][:count]
        return mapped

    def valid_counts(self, counts: Counts) -> Counts:
        """The counts without damaged rows at the end."""
        images = self.image_embeddings.valid_prefix(self.images.valid_prefix(counts.images))
        captions = self.caption_embeddings.valid_prefix(self.captions.valid_prefix(counts.captions))
        return Counts(images, captions)

    def undamaged_counts(self, start: Counts, stop: Counts) -> Counts:
        """The counts from `start` up to the first damaged rows; `stop` where there are none."""
        images = first_damaged(self.check_image, start.images, stop.images)
        return Counts(images, first_damaged(self.check_caption, start.captions, stop.captions))

    def check_image(self, row: int) -> None:
        """Raise Corrupt where the stored rows of a picture are damaged."""
        self.images.check(row)
        self.image_embeddings.check(row)

    def check_caption(self, row: int) -> None:
        """Raise Corrupt where the stored rows of a caption are damaged."""
        self.captions.check(row)
        self.caption_embeddings.check(row)

    def blank(self, images: Sequence[int], captions: Sequence[int]) -> int:
        """Overwrite rows with zeros. Returns how many were not blank already.

        A process killed in between may have blanked a row in one of its slabs and not in the other.
        """
        return max(self.image_embeddings.blank(images), self.images.blank(images)) + max(
            self.caption_embeddings.blank(captions), self.captions.blank(captions)
        )

    def close(self) -> None:
        """Close the files."""
        for slab in (self.images, self.image_embeddings, self.captions, self.caption_embeddings):
            slab.close()


@contextmanager
def opened_stores(folder: Path, write: bool) -> Iterator[tuple[Stores, Counts]]:
    """The slabs of a view of any model, and its published counts. Raises NoView where there is none yet, Corrupt where
    it is damaged, ViewMismatch for another format."""
    manifest = Manifest.parse(view_manifest.read(folder), folder)
    stores = Stores(folder, manifest, write)
    try:
        yield stores, manifest.counts
    finally:
        stores.close()


def refuse_past(rows: RowNumbers, count: int) -> None:
    """Raise IndexError for rows that are not among the first `count`."""
    if len(rows) and not 0 <= min(rows) <= max(rows) < count:
        raise IndexError(f"the snapshot has rows 0 .. {count - 1}, asked for {min(rows)} .. {max(rows)}")
