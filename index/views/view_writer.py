"""Extends a view: rows are appended, then published by the manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from index.fault_points import FaultPoint, reach
from index.files import make_folder, remove_strays
from index.views import view_manifest
from index.views.shortlist import Floats
from index.views.slab import Corrupt
from index.views.view_manifest import Counts, Manifest, NoView
from index.views.view_stores import Stores, refuse_past


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

        `layout`: field -> shape of one image's record. Fields named in `bools` are stored as bool; single numbers as
        fp32 (scores that differ by less than fp16 resolves are compared by them), as are fields named in `wide`; others
        as fp16. A view of an earlier release, which knew no `wide`, keeps its layout: see `wide_fields`.
        """
        new = Manifest(
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
            manifest = Manifest.parse(view_manifest.read(folder), folder)
        except (NoView, Corrupt):
            manifest = new  # nothing readable was published: start from no rows
        earlier = _layout(layout, bools, wide=())
        manifest.refuse_other(replace(new, layout=earlier) if manifest.layout == earlier else new, folder)
        self.stores = Stores(folder, manifest, write=True)
        self._manifest = manifest
        valid = self.stores.valid_counts(manifest.counts)
        if manifest is new or valid != manifest.counts:
            self.cut_back(*valid)

    @property
    def wide_fields(self) -> list[str]:
        """The fields of images that are stored as fp32."""
        return [name for name, (_, dtype) in self._manifest.layout.items() if dtype == "<f4"]

    def is_there(self) -> bool:
        """Whether the view still exists since it was opened."""
        return (self._folder / view_manifest.NAME).exists()

    def counts(self) -> Counts:
        """Numbers of rows published so far, and so the next rows to add."""
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
        """Write [n, ...] records and [n, E] embeddings over published rows, then publish their numbers.

        A concurrent search may read a row that is partly old and partly new. IndexError for a row that is not
        published.
        """
        counts = self.counts()
        refuse_past(rows, counts.images)
        _refuse_uneven({"rows": rows, "embeddings": embeddings, **records}, embeddings)
        self.stores.images.overwrite(rows, records)
        self.stores.image_embeddings.overwrite(rows, {"embedding": embeddings})
        self._publish(self._manifest.overwritten(rows))

    def cut_back(self, images: int, captions: int) -> None:
        """Drop the rows beyond these counts; readers follow at their next refresh."""
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
    """Raise ValueError unless the rows continue the view without a gap, each complete and findable."""
    if at != count:
        raise ValueError(f"the view has {count} rows, the next cannot be {at}")
    _refuse_uneven(fields, embeddings)


def _refuse_uneven(fields: Mapping[str, Any], embeddings: Floats) -> None:
    """Raise ValueError unless each row is complete and findable."""
    lengths = {name: len(rows) for name, rows in fields.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"rows of different number: {lengths}")
    if not np.isfinite(embeddings).all():
        raise ValueError("an embedding that is not finite would never be found")
