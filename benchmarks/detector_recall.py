"""How many of the teacher's boxes the regions of a detector cover, on photographs neither was trained on.

python -m benchmarks.detector_recall --detector models/weights/detector --teacher yolox_nano.onnx \
    --captions flickr8k/captions.jsonl --split dev
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import PIL.Image
import torch
from torch import Tensor
from torchvision.ops import box_iou

from models.datasets.captions import read_captions
from models.extractors.base import Detections
from models.extractors.faster_rcnn import FasterRcnn, load_detector
from models.training.detector.pseudo_labels import Lesson, Teacher, look_at_all, read_lessons

OVERLAP = 0.5
LARGE = 0.1  # share of the picture above which a box counts as large


def covered(lesson: Lesson, found: Detections, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Which of the teacher's boxes [N] a region overlaps enough, and which one of the same class does."""
    boxes = torch.from_numpy(lesson.boxes * np.tile(size, 2)).float()
    regions = found.mask[0]
    enough = box_iou(boxes, found.boxes[0, regions]) >= OVERLAP
    same = torch.from_numpy(lesson.labels)[:, None] == found.labels[0, regions]
    return enough.any(1), (enough & same).any(1)


def without_box_head(detector: FasterRcnn) -> None:
    """Leaves the proposals where they are, to see what refining them is worth."""
    detector.heads.box_predictor.corrections.weight.zero_()
    detector.heads.box_predictor.corrections.bias.zero_()


def main() -> None:
    """Prints recalls in percent as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--detector", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--lessons", type=Path, default=Path("lessons.jsonl"), help="cache of the teacher's boxes")
    parser.add_argument("--least-score", type=float, default=0.25)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--raw", action="store_true", help="proposals as they are, not refined by the box head")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.set_grad_enabled(False)
    folder = given.captions.parent
    photographs = {
        line.image: folder / line.image for line in read_captions(given.captions, given.split)[: given.limit]
    }
    for _ in look_at_all(Teacher(given.teacher, given.threads), photographs, given.lessons):
        pass
    lessons = read_lessons(given.lessons)
    detector = load_detector(given.detector)
    if given.raw:
        without_box_head(detector)
    places, classes, shares = [], [], []
    began = time.perf_counter()
    for name, path in photographs.items():
        picture = PIL.Image.open(path).convert("RGB")
        lesson = lessons[name].above(given.least_score)
        for collected, one in zip(
            (places, classes), covered(lesson, detector.extract([picture]), picture.size), strict=True
        ):
            collected.append(one)
        shares.append(torch.from_numpy((lesson.boxes[:, 2:] - lesson.boxes[:, :2]).prod(1)))
    seconds = time.perf_counter() - began
    large = torch.cat(shares) >= LARGE
    rows = {}
    for name, parts in (("any class", places), ("same class", classes)):
        hits = torch.cat(parts).float()
        rows[name] = {"all": hits.mean(), "large": hits[large].mean(), "small": hits[~large].mean()}
    shown = {name: {size: round(100 * float(value), 1) for size, value in row.items()} for name, row in rows.items()}
    counts = {"pictures": len(photographs), "boxes": len(large), "large": int(large.sum())}
    print(json.dumps({**counts, "recall": shown, "ms a picture": round(1000 * seconds / len(photographs), 1)}))


if __name__ == "__main__":
    main()
