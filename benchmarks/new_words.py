"""Recall of captions that hold a word which no training caption holds, beside that of the others.

python -m benchmarks.new_words --model models/weights/bfan-equal --features FEATURES \
    --captions flickr8k/captions.jsonl --trained-on flickr8k/captions.jsonl

Sentence to picture, every pair scored. `--trained-on` holds the captions learnt from, which may be of more pictures
than have features.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import read_captions
from models.datasets.feature_store import open_features
from models.evaluation.evaluate import score_all_pairs
from models.evaluation.metrics import Recalls, text_to_image_ranks
from models.matching.checkpoint import load_matcher
from models.text.reader import SentenceReader


def words_of(reader: SentenceReader, sentences: Iterable[str]) -> set[str]:
    """All words of the sentences, as the reader splits them."""
    return {word for sentence in sentences for word in reader.tokens(sentence)}


def with_new_word(reader: SentenceReader, sentences: Sequence[str], known: set[str]) -> np.ndarray:
    """Whether each sentence holds a word that is not among `known`, [Q]."""
    return np.array([not known.issuperset(reader.tokens(sentence)) for sentence in sentences], bool)


def report_of(ranks: np.ndarray, new: np.ndarray) -> dict[str, Any]:
    """Recalls in percent of captions with and without new words, and the ratio of their R@10. Ranks count from 0."""
    kinds = {"with a new word": ranks[new], "others": ranks[~new]}
    recalls = {kind: Recalls.of(subset).as_dict() | {"captions": len(subset)} for kind, subset in kinds.items()}
    return recalls | {"ratio of R@10": recalls["with a new word"]["r10"] / recalls["others"]["r10"]}


def main() -> None:
    """Print the report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--model", "--features", "--captions", "--trained-on"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--trained-on-split", default="train")
    args = parser.parse_args()
    matcher = load_matcher(args.model)
    data = CaptionedFeatures.join(open_features(args.features), read_captions(args.captions, args.split))
    trained_on = read_captions(args.trained_on, args.trained_on_split)
    known = words_of(matcher.reader, (text for line in trained_on for text in line.captions))
    sentences, image_of = data.sentences()
    ranks = text_to_image_ranks(score_all_pairs(matcher, data)[0].scores, image_of)
    print(json.dumps(report_of(ranks, with_new_word(matcher.reader, sentences, known))))


if __name__ == "__main__":
    main()
