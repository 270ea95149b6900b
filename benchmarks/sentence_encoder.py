"""The shipped sentence encoder beside the published one: sibling captions, cosines, and milliseconds a sentence.

    python -m benchmarks.sentence_encoder PUBLISHED --captions flickr8k/captions.jsonl --split dev

A caption's sibling is another caption of its picture. Found first: the nearest of all other captions is one.
"""

import argparse
import time
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from models.datasets.captions import read_captions
from models.text.bert_encoder import load_bert_encoder
from models.text.pretrained_reader import SENTENCE_ENCODER, load_pretrained_reader


def siblings_first(vectors: Tensor, image_of: Tensor) -> float:
    """Percentage of captions whose nearest other caption is of the same picture."""
    similarities = (vectors @ vectors.T).fill_diagonal_(-torch.inf)
    return float((image_of[similarities.argmax(1)] == image_of).float().mean() * 100)


def main() -> None:
    """Print one figure a line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("published", type=Path)
    arguments.add_argument("--captions", type=Path, required=True)
    arguments.add_argument("--split", default="dev")
    arguments.add_argument("--pictures", type=int, default=500)
    args = arguments.parse_args()
    torch.set_num_threads(1)
    lines = read_captions(args.captions, args.split)[: args.pictures]
    captions = [text for line in lines for text in line.captions]
    image_of = torch.tensor([number for number, line in enumerate(lines) for _ in line.captions])
    reader = load_pretrained_reader(SENTENCE_ENCODER)
    published, shipped = load_bert_encoder(args.published).embed(captions), reader.encoder.embed(captions)
    cosines = (published * shipped).sum(1)
    print(f"{len(captions)} captions: sibling first, published {siblings_first(published, image_of):.1f} %")
    print(f"sibling first, shipped {siblings_first(shipped, image_of):.1f} %")
    print(f"cosine of both: mean {float(cosines.mean()):.4f}, least {float(cosines.min()):.4f}")
    seconds = []
    for caption in captions[:500]:
        start = time.perf_counter()
        reader.encode([caption])
        seconds.append(time.perf_counter() - start)
    seconds.sort()
    print(f"states of one caption on one thread: median {1e3 * median(seconds):.1f} ms", end=", ")
    print(f"95 % below {1e3 * seconds[int(0.95 * len(seconds))]:.1f} ms")


if __name__ == "__main__":
    main()
