"""Scores of all pictures with all captions, to the precision of the authors' own evaluation."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import read_scored_sentences
from models.datasets.feature_store import MANIFEST_FILE, open_features
from models.datasets.npy_files import open_regions
from models.matching.checkpoint import load_matcher
from models.matching.encoded import EncodedTexts
from models.matching.matcher import Matcher

ENCODING_BATCH = 256  # pictures, or sentences
UNKNOWN = ""  # the extractor of an array that stands by itself


def features_to_score(path: Path, regions: int | None = None) -> CaptionedFeatures:
    """The pictures of an array (.npy, [K R F]) without captions, with `regions` only so many regions of each.

    In a folder of extracted features the masks of its regions and its extractor are read too. ValueError.
    """
    digest = UNKNOWN
    vectors: np.ndarray = open_regions(path)
    mask = np.ones(vectors.shape[:2], dtype=bool)
    if path.name == "features.npy" and (path.parent / MANIFEST_FILE).is_file():
        stored = open_features(path.parent)
        vectors, mask, digest = stored.features, stored.mask, stored.digest
    data = CaptionedFeatures.from_arrays(vectors, mask, [()] * len(vectors), digest)
    return data.first_regions(regions) if regions else data


def refuse_other_features(matcher: Matcher, data: CaptionedFeatures, weights: Path, features: Path) -> None:
    """ValueError where `features` are none that the model in `weights` reads, as far as they tell."""
    if data.feature_dim != matcher.feature_dim:
        expected = f"(pictures, regions, {matcher.feature_dim})"
        raise ValueError(f"{features} has shape {data.features.shape}; {weights} scores features of shape {expected}")
    wanted, made, num = matcher.extractor_digest, data.extractor_digest, data.features.shape[1]
    whole, _, few = wanted.rpartition("-first-")  # as `CaptionedFeatures.first_regions` names them
    made_of = made.removesuffix(f"-first-{num}")
    if wanted in (made, made_of) or (made_of == UNKNOWN and (not whole or int(few) == num)):
        return
    if whole and made_of in (UNKNOWN, whole):
        raise ValueError(f"{weights} was trained on the first regions alone: give --regions {few}")
    raise ValueError(f"{weights} reads features of detector {wanted}, and {features} is of {made}")


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
    regions: int | None = None,
) -> Float[np.ndarray, "K Q"]:
    """float64 scores of `features` (as `features_to_score` reads them) with `captions` by the checkpoint in `weights`.

    Captions are those of `read_scored_sentences`: one a line, or of JSON lines, all or a split's. As the authors
    evaluate: encoders compute in float32, everything after them in float64. Captions are scored as answers: a short
    one, asked as a question, may have other scores. `report_progress` is called with the number of pictures scored so
    far. ValueError where the arrays do not fit the checkpoint.
    """
    matcher = load_matcher(weights, device)
    data = features_to_score(features, regions)
    refuse_other_features(matcher, data, weights, features)
    sentences = read_scored_sentences(captions, split)
    exact = deepcopy(matcher).double()
    texts = [
        (chosen, exact.texts_from(encoded.words.to(dtype=torch.float64), asked=False))
        for chosen, encoded, _ in encode_in_batches(matcher, sentences, ENCODING_BATCH)
    ]
    scores = np.empty((len(data), len(sentences)))
    for tile in tiles(len(data), ENCODING_BATCH):
        own = data.regions(tile)
        bad = (~own.vectors.isfinite().flatten(1).all(1)).nonzero()
        if len(bad):
            raise ValueError(f"{features}: picture {tile.start + int(bad[0])} holds numbers that are not finite")
        images = exact.encode_projected(matcher.reranker.project(own.to(device)).to(dtype=torch.float64))
        for chosen, encoded in texts:
            scores[tile, chosen.numpy()] = exact.score_in_blocks(images, encoded).T.cpu().numpy()
        report_progress(tile.stop)
    return scores
