"""Comparison of region features: recall of a linear map from them to caption words, and milliseconds a picture.

python -m benchmarks.region_features --detector models/weights/detector --captions flickr8k/captions.jsonl
"""

import argparse
import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from models.datasets.captions import CaptionLine, read_captions
from models.datasets.photographs import open_upright
from models.evaluation.metrics import Recalls, image_to_text_ranks, rsum, text_to_image_ranks
from models.extractors.faster_rcnn.extractor import FasterRcnn, load_detector
from models.extractors.faster_rcnn.region_features import FeatureKind, region_features
from models.text.vocabulary import tokenize

VARIANTS: tuple[tuple[FeatureKind, int], ...] = (("map", 4), ("map", 7), ("region", 7), ("region", 10), ("region", 14))
RIDGES = (0.03, 0.1, 0.3, 1.0)  # times the mean eigenvalue; each variant is given its best


def mean_features(
    detector: FasterRcnn, lines: Sequence[CaptionLine], folder: Path
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Variant -> [N 2560] of the whole picture's feature and the mean of all regions; variant -> ms a picture."""
    vectors: dict[str, list[Tensor]] = {}
    seconds: dict[str, float] = defaultdict(float)
    for line in lines:
        picture = open_upright(folder / line.image)
        sizes = detector._sizes(picture)
        pixels, half = (detector._pixels([picture], size) for size in (sizes[:2], sizes[2:4]))
        scales = (detector._maps(pixels), detector._maps(half))
        regions = detector._find_regions(scales[0], pixels)
        for kind, cells in VARIANTS:
            began = time.perf_counter()
            features = region_features(detector.backbone, kind, cells, scales, regions.boxes, regions.mask)
            seconds[f"{kind} {cells}"] += time.perf_counter() - began
            mean = features.sum(1) / regions.mask.sum(1, keepdim=True)
            vectors.setdefault(f"{kind} {cells}", []).append(torch.cat([features[:, 0], mean], 1))
    joined = {name: torch.cat(parts) for name, parts in vectors.items()}
    return joined, {name: 1000 * total / len(lines) for name, total in seconds.items()}


def word_vectors(lines: Sequence[CaptionLine], vocabulary: dict[str, int], rarity: Tensor) -> Tensor:
    """Unit tf-idf vectors [Q V] of all captions, in the pictures' order; `rarity` is the idf."""
    captions = [caption for line in lines for caption in line.captions]
    counts = torch.zeros(len(captions), len(vocabulary))
    for row, caption in enumerate(captions):
        for word in tokenize(caption):
            if word in vocabulary:
                counts[row, vocabulary[word]] += 1
    return torch.nn.functional.normalize(counts * rarity, dim=1)


def recall(train: Tensor, dev: Tensor, words: Tensor, dev_words: Tensor, captions: int) -> dict[str, float]:
    """Recalls in both directions of ridge regression from features to the mean word vector of a picture."""
    mean, spread = train.mean(0), train.std(0).clamp(min=1e-6)
    train, dev = (train - mean) / spread, (dev - mean) / spread
    target = words.view(len(train), captions, -1).mean(1)
    centre = target.mean(0)
    gram = train.T @ train
    image_of = torch.arange(len(dev)).repeat_interleave(captions)
    best: dict[str, float] = {}
    for ridge in RIDGES:
        penalty = ridge * gram.trace() / len(gram) * torch.eye(len(gram))
        weight = torch.linalg.solve(gram + penalty, train.T @ (target - centre))
        guess = torch.nn.functional.normalize(dev @ weight, dim=1)
        scores = dev_words @ guess.T
        texts, images = (
            Recalls.of(ranks)
            for ranks in (text_to_image_ranks(scores, image_of), image_to_text_ranks(scores, image_of))
        )
        row = {
            "rsum": rsum(texts, images),
            "t2i r1": texts.r1,
            "t2i r10": texts.r10,
            "i2t r1": images.r1,
            "i2t r10": images.r10,
            "ridge": ridge,
        }
        best = max(best, row, key=lambda each: each.get("rsum", 0.0))
    return best


def main() -> None:
    """Print a line for each variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--detector", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--dev", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.set_grad_enabled(False)
    detector = load_detector(given.detector)
    lines = [read_captions(given.captions, "train")[: given.train], read_captions(given.captions, "dev")[: given.dev]]
    (train, ms), (dev, _) = (mean_features(detector, each, given.captions.parent) for each in lines)
    counts = Counter(word for line in lines[0] for caption in line.captions for word in set(tokenize(caption)))
    known = [word for word, count in counts.items() if count >= 4]
    vocabulary = {word: column for column, word in enumerate(known)}
    rarity = torch.tensor([math.log(5 * len(lines[0]) / counts[word]) for word in vocabulary])
    words, dev_words = (word_vectors(each, vocabulary, rarity) for each in lines)
    for name, vectors in train.items():
        for part, columns in (("mean", slice(1280, None)), ("whole and mean", slice(None))):
            row = recall(vectors[:, columns], dev[name][:, columns], words, dev_words, 5)
            shown = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
            print(f"{name:10} {ms[name]:6.1f} ms  {part:15} {shown}", flush=True)


if __name__ == "__main__":
    main()
