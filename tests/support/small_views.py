"""Small views whose every row is known from its number."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from index.views.view import Snapshot
from index.views.view_manifest import Counts
from index.views.view_writer import ViewWriter

EMBED, WORD = 4, 3
ABOUT: dict[str, Any] = {
    "layout": {"vectors": (2, 3), "mask": (2,), "hubness": ()},
    "embed_dim": EMBED,
    "word_dim": WORD,
    "digest": "model-1",
    "extractor": "detector-1",
}
Records = dict[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float32]


def images(start: int, stop: int) -> tuple[Records, Floats]:
    """The records and embeddings that rows start .. stop have in every test."""
    drawn = [np.random.default_rng([1, row]) for row in range(start, stop)]
    vectors = np.array([one.normal(size=(2, 3)) for one in drawn]).astype(np.float16).reshape(-1, 2, 3)
    mask = np.array([one.random(2) < 0.5 for one in drawn], np.bool_).reshape(-1, 2)
    embeddings = np.array([one.integers(-9, 9, EMBED) for one in drawn], np.float32).reshape(-1, EMBED)
    hubness = np.array([one.random() for one in drawn], np.float32)  # as fine as it comes: a score is less by it
    return {"vectors": vectors, "mask": mask, "hubness": hubness}, embeddings


def captions(start: int, stop: int) -> tuple[list[npt.NDArray[np.float16]], Floats]:
    """The words and embeddings that caption rows start .. stop have in every test."""
    words = [np.full((1 + row % 5, WORD), row, np.float16) for row in range(start, stop)]
    return words, np.array([[row, 1, 0, 0] for row in range(start, stop)], np.float32).reshape(-1, EMBED)


def build(folder: Path, num_images: int, num_captions: int) -> ViewWriter:
    """A view whose writer caught up from where it stood."""
    writer = ViewWriter(folder, **ABOUT)
    at = writer.counts()
    writer.add_images(at.images, *images(at.images, num_images))
    writer.add_captions(at.captions, *captions(at.captions, num_captions))
    return writer


def embedding_of(view: Snapshot, row: int) -> Floats:
    """[E] stage-one embedding of an image row."""
    embedding: Floats = view.stores.embeddings("images", row + 1)[row]
    return embedding


def check(view: Snapshot, num_images: int, num_captions: int) -> None:
    """The snapshot has exactly these rows, each as it was written."""
    assert view.counts == Counts(num_images, num_captions) == (len(view.images), len(view.captions))
    records, embeddings = images(0, num_images)
    found = view.read_images(range(num_images))
    for name, array in records.items():
        np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(view.images_in_place()[name][:num_images], array)
    words, sentences = captions(0, num_captions)
    for one, other in zip(view.read_captions(range(num_captions)), words, strict=True):
        np.testing.assert_array_equal(one, other)
    query = np.random.default_rng(0).integers(-9, 9, (2, EMBED)).astype(np.float32)
    for shortlist, rows in ((view.images, embeddings), (view.captions, sentences)):
        scores, _ = shortlist.search(query, len(rows) + 1)
        np.testing.assert_array_equal(scores[:, :-1], -np.sort(-query @ rows.T, axis=1))
    if num_images:
        np.testing.assert_array_equal(embedding_of(view, num_images - 1), embeddings[-1])
    for read in (view.read_images, view.read_captions):
        for row in (max(num_images, num_captions), -1):
            with pytest.raises(IndexError):
                read([row])
