"""Recall of a model that reads unknown words as near ones, and of the same model with <unk> for all of them.

python -m benchmarks.near_words --model models/weights/bfan-equal-gru --features features \
    --captions flickr8k/captions.jsonl --split dev

Sentence to picture, of the captions that hold a word the model never saw and of all.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import read_captions
from models.datasets.feature_store import open_features
from models.evaluation.evaluate import score_all_pairs
from models.evaluation.metrics import Recalls, text_to_image_ranks
from models.matching.checkpoint import load_matcher


def main() -> None:
    """Print recalls in percent as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    args = parser.parse_args()
    matcher = load_matcher(args.model)
    vocabulary = matcher.vocabulary  # before minutes of scoring: models that read by a pretrained encoder have none
    data = CaptionedFeatures.join(open_features(args.features), read_captions(args.captions, args.split))
    sentences, image_of = data.sentences()
    has_unknown = torch.tensor([bool(matcher.unknown_words(sentence)) for sentence in sentences])
    report: dict[str, Any] = {"captions": len(sentences), "with an unknown word": int(has_unknown.sum())}
    for way in ("read as near words", "read as <unk>"):
        ranks = text_to_image_ranks(score_all_pairs(matcher, data)[0].scores, image_of)
        report[way] = {
            "with an unknown word": Recalls.of(ranks[has_unknown.numpy()]).as_dict(),
            "all": Recalls.of(ranks).as_dict(),
        }
        matcher.reader = replace(vocabulary, near_words={})
    print(json.dumps(report))


if __name__ == "__main__":
    main()
