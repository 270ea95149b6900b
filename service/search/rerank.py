"""Stage two: candidates' records read in chunks into one set of buffers, and scored or explained."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from index.records import Caption
from index.view import View
from models.batches import Words, tiles
from models.matching.matcher import EncodedImages, EncodedTexts, Matcher
from service.search.explain import explained
from service.search.types import Explained
from service.storage.region_records import Seen

Scores = npt.NDArray[np.float32]
RowNumbers = Sequence[int] | npt.NDArray[np.int64]

CHUNK = 64  # candidates at a time: what is computed for them stays in the processor's cache


def pictures(matcher: Matcher, view: View, rows: RowNumbers, chunk: int) -> Iterator[tuple[slice, EncodedImages]]:
    """Encoded pictures of `rows`, a chunk at a time; a chunk is overwritten by the next."""
    buffers = None
    for part in tiles(len(rows), chunk):
        records = view.read_images(rows[part], out=buffers)
        buffers = buffers or records
        yield part, matcher.images_from(records)


def captions(matcher: Matcher, view: View, rows: RowNumbers, chunk: int) -> Iterator[tuple[slice, EncodedTexts]]:
    """Encoded captions of `rows`, a chunk at a time, padded to the longest of the chunk."""
    for part in tiles(len(rows), chunk):
        stored = view.read_captions(rows[part])
        lengths = torch.tensor([len(words) for words in stored])
        width = int(lengths.max())
        vectors = np.zeros((len(stored), width, stored[0].shape[1]), dtype=np.float32)
        for padded, words in zip(vectors, stored, strict=True):
            padded[: len(words)] = words
        mask = torch.arange(width) < lengths[:, None]
        yield part, matcher.texts_from(Words(torch.from_numpy(vectors), mask).to(matcher.device))


def score_pictures(matcher: Matcher, view: View, rows: RowNumbers, words: EncodedTexts, chunk: int = CHUNK) -> Scores:
    """[len(rows)] how well each picture matches the one sentence."""
    scores = np.empty(len(rows), dtype=np.float32)
    for part, images in pictures(matcher, view, rows, chunk):
        scores[part] = matcher.score(images, words)[0].float().cpu().numpy()
    return scores


def score_captions(matcher: Matcher, view: View, rows: RowNumbers, images: EncodedImages, chunk: int = CHUNK) -> Scores:
    """[len(rows)] how well each caption matches the one picture."""
    scores = np.empty(len(rows), dtype=np.float32)
    for part, words in captions(matcher, view, rows, chunk):
        scores[part] = matcher.score(images, words)[:, 0].float().cpu().numpy()
    return scores


def explain_pictures(
    matcher: Matcher, view: View, rows: RowNumbers, words: EncodedTexts, tokens: Sequence[str], seen: Sequence[Seen]
) -> list[Explained]:
    """Why each picture of `rows` scored what it did; `seen` describes their regions in the same order."""
    reasons = []
    for part, images in pictures(matcher, view, rows, CHUNK):
        explanation = matcher.explain(images, words)
        reasons += [explained(explanation, 0, k, tokens, one) for k, one in enumerate(seen[part])]
    return reasons


def explain_captions(
    matcher: Matcher, view: View, found: Sequence[Caption], images: EncodedImages, seen: Seen
) -> list[Explained]:
    """Why each caption scored what it did with the one picture."""
    reasons: list[Explained] = []
    rows = [caption.slot for caption in found if caption.slot is not None]
    for part, words in captions(matcher, view, rows, CHUNK):
        explanation = matcher.explain(images, words)
        for q, caption in enumerate(found[part]):
            reasons.append(explained(explanation, q, 0, matcher.words(caption.text), seen))
    return reasons
