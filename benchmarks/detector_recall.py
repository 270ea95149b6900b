"""The share of pseudo-labelled boxes that a detector's regions cover, on photographs that it was not trained on.

python -m benchmarks.detector_recall --detector models/weights/detector --teacher yolox_nano.onnx \
    --captions flickr8k/captions.jsonl --split dev --lessons /tmp/lessons.jsonl
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import box_iou

from models.datasets.captions import read_captions
from models.datasets.photographs import open_upright
from models.extractors.base import Detections
from models.extractors.faster_rcnn.extractor import FasterRcnn, load_detector
from models.training.detector.pseudo_labels import (
    PseudoLabeler,
    PseudoLabels,
    begin_cache,
    label_photographs,
    read_pseudo_labels,
)
from models.training.inputs import digest_of_file

OVERLAP = 0.5
LARGE = 0.1  # share of the picture from which a box counts as large


def covered_boxes(labels: PseudoLabels, found: Detections, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Whether a region covers each of the N labelled boxes, and whether one of its class does: two [N] of bool."""
    boxes = torch.from_numpy(labels.boxes * np.tile(size, 2)).float()
    mask = found.mask[0]
    covers = box_iou(boxes, found.boxes[0, mask]) >= OVERLAP
    same_class = torch.from_numpy(labels.labels)[:, None] == found.labels[0, mask]
    return covers.any(1), (covers & same_class).any(1)


def disable_box_head(detector: FasterRcnn) -> None:
    """Set all box corrections to zero, so that proposals stay where they are."""
    detector.heads.box_predictor.corrections.weight.zero_()
    detector.heads.box_predictor.corrections.bias.zero_()


def main() -> None:
    """Print recalls in percent as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--detector", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--lessons", type=Path, required=True, help="cache of the pseudo-labels")
    parser.add_argument("--least-score", type=float, default=0.25)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--raw", action="store_true", help="without the box head's refinement of proposals")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    folder = args.captions.parent
    photographs = {line.image: folder / line.image for line in read_captions(args.captions, args.split)[: args.limit]}
    begin_cache(args.lessons, [digest_of_file(args.teacher)])
    for _ in label_photographs(PseudoLabeler(args.teacher, args.threads), photographs, args.lessons):
        pass
    labels_of = read_pseudo_labels(args.lessons)
    detector = load_detector(args.detector)
    if args.raw:
        disable_box_head(detector)
    any_class: list[Tensor] = []
    same_class: list[Tensor] = []
    areas: list[Tensor] = []
    began = time.perf_counter()
    for name, path in photographs.items():
        picture = open_upright(path)
        labels = labels_of[name].with_min_score(args.least_score)
        for collected, covered in zip(
            (any_class, same_class), covered_boxes(labels, detector.extract([picture]), picture.size), strict=True
        ):
            collected.append(covered)
        areas.append(torch.from_numpy((labels.boxes[:, 2:] - labels.boxes[:, :2]).prod(1)))
    seconds = time.perf_counter() - began
    large = torch.cat(areas) >= LARGE
    rows = {}
    for name, parts in (("any class", any_class), ("same class", same_class)):
        hits = torch.cat(parts).float()
        rows[name] = {"all": hits.mean(), "large": hits[large].mean(), "small": hits[~large].mean()}
    shown = {name: {size: round(100 * float(value), 1) for size, value in row.items()} for name, row in rows.items()}
    counts = {"pictures": len(photographs), "boxes": len(large), "large": int(large.sum())}
    print(json.dumps({**counts, "recall": shown, "ms a picture": round(1000 * seconds / len(photographs), 1)}))


if __name__ == "__main__":
    main()
