"""Recall by the vectors of whole pictures: of each network of a detector, and of both together.

    python -m benchmarks.whole_pictures --captions flickr8k/captions.jsonl [--detector DIR] [--share 0 0.55 1]

Each picture has one vector, which is compared with the sentence encoder's vectors of captions by the cosine, without a
model above it and without hubness correction. A share of 0 is the detector's own map alone, 1 its second network alone.
Printed is rsum of the first half of the split's pictures, of the second, and of all as one gallery.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from models.batches import tiles
from models.datasets.captions import CaptionLine, half_slices, read_captions
from models.datasets.photographs import open_upright
from models.extractors.faster_rcnn.extractor import FasterRcnn, load_detector
from models.matching.checkpoint import WEIGHTS
from models.text.bert_encoder import load_bert_encoder
from models.text.pretrained_reader import SENTENCE_ENCODER
from models.training.backbone.sentence_head import whole_picture_recalls
from service.model_names import DETECTOR

AT_ONCE = 32


def whole_vectors(detector: FasterRcnn, folder: Path, lines: Sequence[CaptionLine]) -> Float[Tensor, "K D"]:
    """Unit vectors of whole pictures: the first region's, without its concepts."""
    parts = []
    for tile in tiles(len(lines), AT_ONCE):
        pictures = [open_upright(folder / line.image) for line in lines[tile]]
        parts.append(detector.extract(pictures).features[:, 0, : detector.config.concept_dim])
    return normalize(torch.cat(parts), dim=1)


def main() -> None:
    """Print a row for each share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True, help="JSON lines beside the pictures they name")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--detector", type=Path, default=WEIGHTS / DETECTOR)
    parser.add_argument("--share", type=float, nargs="+", default=[0.0, 0.55, 1.0])
    args = parser.parse_args()
    lines = read_captions(args.captions, args.split)
    sentences = load_bert_encoder(SENTENCE_ENCODER).embed([text for line in lines for text in line.captions])
    image_of = torch.tensor([number for number, line in enumerate(lines) for _ in line.captions])
    for share in args.share:
        vectors = whole_vectors(load_detector(args.detector, picture_share=share), args.captions.parent, lines)
        sums = []
        for part in (*half_slices(len(lines)).values(), slice(0, len(lines))):
            inside = (image_of >= part.start) & (image_of < part.stop)
            sums.append(whole_picture_recalls(vectors[part], sentences[inside], lines[part])["rsum"])
        print(f"share {share:g}: rsum {' '.join(f'{each:.1f}' for each in sums)}")


if __name__ == "__main__":
    main()
