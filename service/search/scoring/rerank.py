"""Stage two: candidates' records are read in chunks into one set of buffers, and scored or explained."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from index.records import Caption
from index.views.view import Snapshot
from models.batches import Words, tiles
from models.matching.encoded import EncodedImages, EncodedTexts
from models.matching.matcher import Matcher
from models.text.reader import readable
from service.search.explain import explain_pair
from service.search.results import PairExplanation
from service.search.scoring.device_memory import split_once
from service.storage.regions.records import PictureRegions

Scores = npt.NDArray[np.float32]
RowNumbers = Sequence[int] | npt.NDArray[np.int64]

CHUNK = 64  # candidates at a time, so that intermediate results stay in the processor's cache


def read_pictures(
    matcher: Matcher, snapshot: Snapshot, rows: RowNumbers, chunk: int = CHUNK
) -> Iterator[tuple[slice, EncodedImages]]:
    """Encoded pictures of `rows`, a chunk at a time; a chunk is overwritten by the next."""
    buffers = None
    for part in tiles(len(rows), chunk):
        records = snapshot.read_images(rows[part], out=buffers)
        buffers = buffers or records
        yield part, matcher.images_from(records)


def read_captions(
    matcher: Matcher, snapshot: Snapshot, rows: RowNumbers, chunk: int = CHUNK
) -> Iterator[tuple[slice, EncodedTexts]]:
    """Encoded captions of `rows`, a chunk at a time, padded to the longest of the chunk."""
    for part in tiles(len(rows), chunk):
        stored = snapshot.read_captions(rows[part])
        lengths = torch.tensor([len(words) for words in stored])
        width = int(lengths.max())
        vectors = np.zeros((len(stored), width, stored[0].shape[1]), dtype=np.float32)
        for padded, words in zip(vectors, stored, strict=True):
            padded[: len(words)] = words
        mask = torch.arange(width) < lengths[:, None]
        yield part, matcher.texts_from(Words(torch.from_numpy(vectors), mask).to(matcher.device), asked=False)


def score_stored(matcher: Matcher, snapshot: Snapshot, rows: RowNumbers, texts: EncodedTexts) -> Scores | None:
    """`score_pictures` by the kernels; None without kernels, or where they do not know the model."""
    numbers = np.asarray(rows, np.int64)
    if len(numbers) and numbers.max() >= snapshot.counts.images:
        raise IndexError(f"the snapshot has {snapshot.counts.images} pictures, asked for {numbers.max()}")
    records = snapshot.images_in_place()

    def scored(size: int) -> Scores | None:
        parts: list[Scores] = []
        for part in tiles(len(numbers), size) or [slice(0, 0)]:
            scores = matcher.score_stored(records, numbers[part], texts)
            if scores is None:
                return None
            parts.append(scores[0].cpu().numpy())
        return np.concatenate(parts)

    return split_once(scored, max(1, len(numbers)))


def score_pictures(
    matcher: Matcher, snapshot: Snapshot, rows: RowNumbers, texts: EncodedTexts, chunk: int = CHUNK
) -> Scores:
    """[len(rows)] score of each picture with the one sentence: by the kernels, from the records in place, or by PyTorch
    from copies where the kernels do not know the model."""
    if (stored := score_stored(matcher, snapshot, rows, texts)) is not None:
        return stored

    def scored(size: int) -> Scores:
        scores = np.empty(len(rows), dtype=np.float32)
        for part, images in read_pictures(matcher, snapshot, rows, size):
            scores[part] = matcher.score(images, texts)[0].float().cpu().numpy()
        return scores

    return split_once(scored, chunk)


def score_captions(
    matcher: Matcher, snapshot: Snapshot, rows: RowNumbers, images: EncodedImages, chunk: int = CHUNK
) -> Scores:
    """[len(rows)] score of each caption with the one picture."""

    def scored(size: int) -> Scores:
        scores = np.empty(len(rows), dtype=np.float32)
        for part, texts in read_captions(matcher, snapshot, rows, size):
            scores[part] = matcher.score(images, texts)[:, 0].float().cpu().numpy()
        return scores

    return split_once(scored, chunk)


def explain_pictures(
    matcher: Matcher,
    snapshot: Snapshot,
    rows: RowNumbers,
    texts: EncodedTexts,
    tokens: Sequence[str],
    pictures: Sequence[PictureRegions],
) -> list[PairExplanation]:
    """The explanations of the scores of `rows`; `pictures` are their regions in the same order."""

    def explained(size: int) -> list[PairExplanation]:
        explanations = []
        for part, images in read_pictures(matcher, snapshot, rows, size):
            batch = matcher.explain(images, texts)
            explanations += [explain_pair(batch, 0, k, tokens, picture) for k, picture in enumerate(pictures[part])]
        return explanations

    return split_once(explained, CHUNK)


def explain_captions(
    matcher: Matcher, snapshot: Snapshot, captions: Sequence[Caption], images: EncodedImages, picture: PictureRegions
) -> list[PairExplanation]:
    """The explanation of each caption's score with the one picture."""
    rows = [caption.slot for caption in captions if caption.slot is not None]

    def explained(size: int) -> list[PairExplanation]:
        explanations: list[PairExplanation] = []
        for part, texts in read_captions(matcher, snapshot, rows, size):
            batch = matcher.explain(images, texts)
            for q, caption in enumerate(captions[part]):
                words = matcher.words(readable(matcher.words, caption.text))
                explanations.append(explain_pair(batch, q, 0, words, picture))
        return explanations

    return split_once(explained, CHUNK)
