"""Scores of all pictures with all captions, with the precision of the authors' evaluation."""

from collections.abc import Callable, Iterator
from copy import deepcopy

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.batches import Regions, tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.matching.encoded import EncodedImages, EncodedTexts
from models.matching.ensemble import EnsembleRows
from models.matching.matcher import Matcher
from models.matching.single_matcher import SingleMatcher

ENCODING_BATCH = 256  # pictures, or sentences


def encode_in_batches(
    matcher: Matcher, sentences: list[str], batch: int
) -> Iterator[tuple[Int64[Tensor, " B"], EncodedTexts, Float[Tensor, "B E"]]]:
    """Indices, encoded sentences and embeddings, batch by batch; short sentences first, to limit padding."""
    lengths = torch.tensor([len(matcher.words(sentence)) for sentence in sentences], dtype=torch.int64)
    order = lengths.argsort(stable=True)
    for rows in tiles(len(sentences), batch):
        chosen = order[rows]
        texts, embeddings = matcher.encode_sentences([sentences[place] for place in chosen.tolist()])
        yield chosen, texts, embeddings


@torch.no_grad()
def score_all(
    matcher: Matcher,
    data: CaptionedFeatures,
    sentences: list[str],
    report_progress: Callable[[int], object] = lambda num_images: None,
    asked: bool = False,
) -> Float[np.ndarray, "K Q"]:
    """float64 scores of all pictures of `data` with `sentences`.

    As in the authors' evaluation, encoders compute in float32, everything after them in float64. Sentences are scored
    as questions if `asked`, else as answers; short ones may score differently. `report_progress` is called with the
    number of pictures scored so far.
    """
    exact = deepcopy(matcher).double()
    texts = [
        (chosen, exact.texts_from(encoded.words.to(dtype=torch.float64), asked))
        for chosen, encoded, _ in encode_in_batches(matcher, sentences, ENCODING_BATCH)
    ]
    scores = np.empty((len(data), len(sentences)))
    for tile in tiles(len(data), ENCODING_BATCH):
        images = _exact_images(matcher, exact, data.regions(tile).to(matcher.device))
        for chosen, encoded in texts:
            scores[tile, chosen.numpy()] = exact.score_in_blocks(images, encoded).T.cpu().numpy()
        report_progress(tile.stop)
    return scores


def _exact_images(matcher: Matcher, exact: Matcher, regions: Regions) -> EncodedImages:
    """Pictures encoded by a matcher's encoders, then by the other parts of its float64 copy `exact`."""
    members = [
        double.encode_projected(single.reranker.project(regions).to(dtype=torch.float64))
        for single, double in zip(_singles(matcher), _singles(exact), strict=True)
    ]
    return members[0] if isinstance(matcher, SingleMatcher) else EncodedImages(EnsembleRows(tuple(members)))


def _singles(matcher: Matcher) -> Iterator[SingleMatcher]:
    return (module for module in matcher.modules() if isinstance(module, SingleMatcher))
