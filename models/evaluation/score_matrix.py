"""Scores of all pictures with all captions, to the precision of the authors' own evaluation."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.batches import Regions, Words, tiles
from models.datasets.captions import read_lines
from models.matching.checkpoint import load_matcher
from models.matching.matcher import Matcher
from models.rerankers.base import score_in_blocks

BATCH = 256


def encoded_sentences(
    matcher: Matcher, sentences: list[str], batch: int
) -> Iterator[tuple[Int64[Tensor, " B"], Words, Float[Tensor, "B E"]]]:
    """Places, words and embeddings, batch by batch, the short sentences first: hardly any padding is held."""
    order = matcher.tokenize(sentences).mask.sum(1).argsort(stable=True)
    for rows in tiles(len(sentences), batch):
        chosen = order[rows]
        words, embeddings = matcher.encode_sentences([sentences[place] for place in chosen.tolist()])
        yield chosen, words, embeddings


@torch.no_grad()
def score_all(
    weights: Path,
    features: Path,
    captions: Path,
    device: torch.device | str = "cpu",
    done: Callable[[int], object] = lambda num_images: None,
) -> Float[np.ndarray, "K Q"]:
    """float64 scores of `features` (.npy, [K R F]) with `captions` (one a line) by the checkpoint in `weights`.

    As the authors evaluate: encoders compute in float32, everything after them in float64. `done` hears how many
    pictures are. ValueError where the arrays do not fit the checkpoint.
    """
    matcher = load_matcher(weights, device)
    arrays = np.load(features, mmap_mode="r")
    if arrays.ndim != 3 or not arrays.shape[1] or arrays.shape[2] != matcher.encoders.feature_dim:
        expected = f"(pictures, regions, {matcher.encoders.feature_dim})"
        raise ValueError(f"{features} has shape {arrays.shape}; {weights} scores features of shape {expected}")
    sentences = read_lines(captions)
    texts = [(chosen, words) for chosen, words, _ in encoded_sentences(matcher, sentences, BATCH)]
    exact = deepcopy(matcher.reranker).double()
    scores = np.empty((len(arrays), len(sentences)))
    for tile in tiles(len(arrays), BATCH):
        vectors = torch.from_numpy(arrays[tile].astype(np.float32))
        bad = (~vectors.isfinite().flatten(1).all(1)).nonzero()
        if len(bad):
            raise ValueError(f"{features}: picture {tile.start + int(bad[0])} holds numbers that are not finite")
        regions = Regions(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool)).to(device)
        images = exact.precompute(matcher.reranker.project(regions).to(dtype=torch.float64))
        for chosen, words in texts:
            block = score_in_blocks(exact, images, words.to(dtype=torch.float64))
            scores[tile, chosen.numpy()] = block.T.cpu().numpy()
        done(tile.stop)
    return scores
