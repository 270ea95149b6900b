"""Pseudo-labels: boxes and COCO classes from trained detectors for photographs without labels.

The first of them is YOLOX (ONNX). Layout of its file: input [1, 3, 416, 416] in BGR, 0 to 255, letterboxed at the top
left on grey 114; output [1, 3549, 85], for each cell of strides 8, 16 and 32: centre and log size in cells, objectness,
classes.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import PIL.Image
import torch
from torchvision.ops import batched_nms, box_iou

from models.datasets.photographs import open_upright
from models.training.checkpoints import UnusableCheckpoint

INPUT_SIDE = 416
GREY = (114, 114, 114)
MIN_SCORE = 0.1  # of boxes in the cache; trainings have a higher threshold
NMS_OVERLAP = 0.5
AGREEMENT = 0.5  # intersection over union from which boxes of two detectors are one object
PHOTOGRAPH_ASPECTS = (4 / 3, 3 / 4)  # likely aspects of photographs that were squashed to a square


class PseudoLabels(NamedTuple):
    """The N boxes that the labelling detector finds in one photograph."""

    boxes: np.ndarray
    """[N 4] x1 y1 x2 y2 as fractions of width and height, float32."""
    labels: np.ndarray
    """[N] indices into COCO_CLASSES, int64."""
    scores: np.ndarray
    """[N] float32, between 0 and 1."""

    def with_min_score(self, score: float) -> "PseudoLabels":
        """The boxes of at least this score."""
        kept = self.scores >= score
        return PseudoLabels(self.boxes[kept], self.labels[kept], self.scores[kept])


@runtime_checkable
class Labeler(Protocol):
    """A detector that labels photographs."""

    def label(self, photograph: PIL.Image.Image, /) -> PseudoLabels: ...


class PseudoLabeler:
    """A YOLOX detector that labels a photograph, stretched to several aspects."""

    def __init__(self, file: Path, threads: int) -> None:
        import onnxruntime  # noqa: PLC0415  # needed for training a detector alone

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self._cells, self._strides = _output_grid()

    def label(self, photograph: PIL.Image.Image) -> PseudoLabels:
        """The boxes found with the photograph stretched to each of the aspects (width / height), without duplicates."""
        parts = [self._label_once(photograph, aspect) for aspect in PHOTOGRAPH_ASPECTS]
        return _class_wise_nms(PseudoLabels(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))))

    def _label_once(self, photograph: PIL.Image.Image, aspect: float) -> PseudoLabels:
        width, height = (
            (INPUT_SIDE, round(INPUT_SIDE / aspect)) if aspect >= 1 else (round(INPUT_SIDE * aspect), INPUT_SIDE)
        )
        canvas = PIL.Image.new("RGB", (INPUT_SIDE, INPUT_SIDE), GREY)
        canvas.paste(photograph.resize((width, height), PIL.Image.Resampling.BILINEAR), (0, 0))
        pixels = np.asarray(canvas, dtype=np.float32)[:, :, ::-1].transpose(2, 0, 1)
        output = self._session.run(None, {"images": np.ascontiguousarray(pixels)[None]})[0][0]
        scores = output[:, 4:5] * output[:, 5:]
        labels = scores.argmax(1)
        best = scores.max(1)
        kept = best >= MIN_SCORE
        centre = (output[kept, :2] + self._cells[kept]) * self._strides[kept]
        half = np.exp(output[kept, 2:4]) * self._strides[kept] / 2
        boxes = np.concatenate([centre - half, centre + half], 1) / [width, height, width, height]
        return PseudoLabels(boxes.clip(0, 1).astype(np.float32), labels[kept], best[kept])


def _output_grid() -> tuple[np.ndarray, np.ndarray]:
    """Column and row [3549 2] and stride [3549 1] of every cell."""
    cells, strides = [], []
    for stride in (8, 16, 32):
        side = INPUT_SIDE // stride
        rows, columns = np.divmod(np.arange(side * side), side)
        cells.append(np.stack([columns, rows], 1))
        strides.append(np.full((side * side, 1), stride))
    return np.concatenate(cells).astype(np.float32), np.concatenate(strides).astype(np.float32)


def _class_wise_nms(candidates: PseudoLabels) -> PseudoLabels:
    """The boxes left after non-maximum suppression within each class."""
    boxes, labels, scores = (torch.from_numpy(np.ascontiguousarray(part)) for part in candidates)
    kept = batched_nms(boxes, scores, labels, NMS_OVERLAP).numpy()
    return PseudoLabels(candidates.boxes[kept], candidates.labels[kept], candidates.scores[kept])


class JointLabeler:
    """Several detectors whose labels are merged."""

    def __init__(self, labelers: Sequence[Labeler]) -> None:
        self._labelers = labelers

    def label(self, photograph: PIL.Image.Image) -> PseudoLabels:
        """The boxes of all detectors, without duplicates."""
        first, *others = (labeler.label(photograph) for labeler in self._labelers)
        for labels in others:
            first = merge_pseudo_labels(first, labels)
        return first


def merge_pseudo_labels(first: PseudoLabels, second: PseudoLabels) -> PseudoLabels:
    """The boxes of two detectors in one photograph.

    Boxes of one class that overlap by at least AGREEMENT are merged: the mean box, with score 1 - (1 - a)(1 - b). In
    descending order of scores, each box of the first takes the nearest one left of the second. All others are kept.
    """
    overlaps = box_iou(torch.from_numpy(first.boxes), torch.from_numpy(second.boxes)).numpy()
    overlaps[first.labels[:, None] != second.labels] = 0
    boxes, scores = first.boxes.copy(), first.scores.copy()
    alone = np.ones(len(second.boxes), bool)
    for number in np.argsort(-first.scores, kind="stable") if len(second.boxes) else ():
        nearest = int(overlaps[number].argmax())
        if overlaps[number, nearest] >= AGREEMENT:
            boxes[number] = (boxes[number] + second.boxes[nearest]) / 2
            scores[number] = 1 - (1 - scores[number]) * (1 - second.scores[nearest])
            alone[nearest] = False
            overlaps[:, nearest] = 0
    return PseudoLabels(
        np.concatenate([boxes, second.boxes[alone]]),
        np.concatenate([first.labels, second.labels[alone]]),
        np.concatenate([scores, second.scores[alone]]),
    )


def begin_cache(cache: Path, teachers: Sequence[str]) -> None:
    """Begin a file of labels with the digests of the teachers. Raises UnusableCheckpoint if it is of other teachers.

    Files of earlier releases do not name the teachers, and are accepted.
    """
    first = ""
    if cache.exists():
        with cache.open(encoding="utf-8") as lines:
            first = lines.readline()
    if not first.endswith("\n"):  # new, or with a first line that a kill truncated
        cache.write_text(json.dumps({"teachers": list(teachers)}) + "\n", encoding="utf-8")
    elif json.loads(first).get("teachers", list(teachers)) != list(teachers):
        raise UnusableCheckpoint(f"{cache} holds labels of other teachers; choose another folder")


def label_photographs(labeler: Labeler, photographs: Mapping[str, Path], cache: Path) -> Iterator[str]:
    """Write one JSON line for each photograph (name -> file) to `cache`, resuming an earlier run.

    Yields the name of each photograph once its labels are in the cache.
    """
    done = set(read_pseudo_labels(cache)) if cache.exists() else set()
    with cache.open("a", encoding="utf-8") as lines:
        for name, path in photographs.items():
            if name not in done:
                labels = labeler.label(open_upright(path))
                parts = zip(labels._fields, (part.astype(float).round(4).tolist() for part in labels), strict=True)
                lines.write(json.dumps({"name": name, **dict(parts)}) + "\n")
            yield name


def read_pseudo_labels(cache: Path) -> dict[str, PseudoLabels]:
    """Name of a photograph -> labels in the cache; a last line that a kill truncated is removed from the file."""
    content = cache.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        os.truncate(cache, len(whole))  # not rewritten, which a second kill could truncate too
    labels = {}
    for line in whole.decode("utf-8").splitlines():
        row = json.loads(line)
        if "teachers" in row:
            continue
        labels[row["name"]] = PseudoLabels(
            np.array(row["boxes"], np.float32).reshape(-1, 4),
            np.array(row["labels"], np.int64),
            np.array(row["scores"], np.float32),
        )
    return labels
