"""Scores of all pictures with all captions, to the precision of the authors' own evaluation."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.batches import Regions, tiles
from models.datasets.captions import read_scored_sentences
from models.datasets.npy_files import open_array
from models.matching.checkpoint import load_matcher
from models.matching.encoded import EncodedTexts
from models.matching.matcher import Matcher

ENCODING_BATCH = 256  # pictures, or sentences


def encode_in_batches(
    matcher: Matcher, sentences: list[str], batch: int
) -> Iterator[tuple[Int64[Tensor, " B"], EncodedTexts, Float[Tensor, "B E"]]]:
    """Places, encoded sentences and embeddings, batch by batch; short sentences first, so that little is padding."""
    lengths = torch.tensor([len(matcher.words(sentence)) for sentence in sentences], dtype=torch.int64)
    order = lengths.argsort(stable=True)
    for rows in tiles(len(sentences), batch):
        chosen = order[rows]
        texts, embeddings = matcher.encode_sentences([sentences[place] for place in chosen.tolist()])
        yield chosen, texts, embeddings


@torch.no_grad()
def score_all(
    weights: Path,
    features: Path,
    captions: Path,
    device: torch.device | str = "cpu",
    report_progress: Callable[[int], object] = lambda num_images: None,
    split: str | None = None,
) -> Float[np.ndarray, "K Q"]:
    """float64 scores of `features` (.npy, [K R F]) with `captions` by the checkpoint in `weights`.

    Captions are those of `read_scored_sentences`: one a line, or of JSON lines, all or a split's. As the authors
    evaluate: encoders compute in float32, everything after them in float64. Captions are scored as answers: a short
    one, asked as a question, may have other scores. `report_progress` is called with the number of pictures scored so
    far. ValueError where the arrays do not fit the checkpoint.
    """
    matcher = load_matcher(weights, device)
    arrays = open_array(features)
    if arrays.ndim != 3 or not arrays.shape[1] or arrays.shape[2] != matcher.feature_dim:
        expected = f"(pictures, regions, {matcher.feature_dim})"
        raise ValueError(f"{features} has shape {arrays.shape}; {weights} scores features of shape {expected}")
    sentences = read_scored_sentences(captions, split)
    exact = deepcopy(matcher).double()
    texts = [
        (chosen, exact.texts_from(encoded.words.to(dtype=torch.float64), asked=False))
        for chosen, encoded, _ in encode_in_batches(matcher, sentences, ENCODING_BATCH)
    ]
    scores = np.empty((len(arrays), len(sentences)))
    for tile in tiles(len(arrays), ENCODING_BATCH):
        vectors = torch.from_numpy(arrays[tile].astype(np.float32))
        bad = (~vectors.isfinite().flatten(1).all(1)).nonzero()
        if len(bad):
            raise ValueError(f"{features}: picture {tile.start + int(bad[0])} holds numbers that are not finite")
        regions = Regions(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool)).to(device)
        images = exact.encode_projected(matcher.reranker.project(regions).to(dtype=torch.float64))
        for chosen, encoded in texts:
            scores[tile, chosen.numpy()] = exact.score_in_blocks(images, encoded).T.cpu().numpy()
        report_progress(tile.stop)
    return scores
