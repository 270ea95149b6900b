"""A trained YOLOX detector (ONNX) as a teacher: boxes and COCO classes of photographs that have none.

Layout of the file: input [1, 3, 416, 416] in BGR, 0 to 255, letterboxed at the top left on grey 114;
output [1, 3549, 85], for each cell of strides 8, 16 and 32: centre and log size in cells, objectness, classes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image
import torch
from torchvision.ops import batched_nms

SIDE = 416
GREY = (114, 114, 114)
LEAST_SCORE = 0.1  # kept in the cache; a training chooses a higher bar of its own
OVERLAP = 0.5
ASPECTS = (4 / 3, 3 / 4)  # a photograph squashed to a square was most likely one of these


class Lesson(NamedTuple):
    """What the teacher sees in one photograph."""

    boxes: np.ndarray
    """[N 4] x1 y1 x2 y2 as fractions of width and height, float32."""
    labels: np.ndarray
    """[N] indices into COCO_CLASSES, int64."""
    scores: np.ndarray
    """[N] float32."""

    def above(self, score: float) -> "Lesson":
        """The boxes that the teacher is at least so sure of."""
        sure = self.scores >= score
        return Lesson(self.boxes[sure], self.labels[sure], self.scores[sure])


class Teacher:
    """Looks at a photograph in several aspects and merges what it saw."""

    def __init__(self, file: Path, threads: int) -> None:
        import onnxruntime  # noqa: PLC0415  # only who trains a detector needs it

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self._cells, self._strides = _grid()

    def look(self, photograph: PIL.Image.Image, aspects: Sequence[float] = ASPECTS) -> Lesson:
        """Boxes found when the photograph is stretched to each of `aspects` (width / height)."""
        seen = [self._look_once(photograph, aspect) for aspect in aspects]
        return _distinct(Lesson(*(np.concatenate(parts) for parts in zip(*seen, strict=True))))

    def _look_once(self, photograph: PIL.Image.Image, aspect: float) -> Lesson:
        width, height = (SIDE, round(SIDE / aspect)) if aspect >= 1 else (round(SIDE * aspect), SIDE)
        canvas = PIL.Image.new("RGB", (SIDE, SIDE), GREY)
        canvas.paste(photograph.resize((width, height), PIL.Image.Resampling.BILINEAR), (0, 0))
        pixels = np.asarray(canvas, dtype=np.float32)[:, :, ::-1].transpose(2, 0, 1)
        raw = self._session.run(None, {"images": np.ascontiguousarray(pixels)[None]})[0][0]
        scores = raw[:, 4:5] * raw[:, 5:]
        labels = scores.argmax(1)
        best = scores.max(1)
        sure = best >= LEAST_SCORE
        centre = (raw[sure, :2] + self._cells[sure]) * self._strides[sure]
        half = np.exp(raw[sure, 2:4]) * self._strides[sure] / 2
        boxes = np.concatenate([centre - half, centre + half], 1) / [width, height, width, height]
        return Lesson(boxes.clip(0, 1).astype(np.float32), labels[sure], best[sure])


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Column and row [3549 2] and stride [3549 1] of every cell."""
    cells, strides = [], []
    for stride in (8, 16, 32):
        side = SIDE // stride
        rows, columns = np.divmod(np.arange(side * side), side)
        cells.append(np.stack([columns, rows], 1))
        strides.append(np.full((side * side, 1), stride))
    return np.concatenate(cells).astype(np.float32), np.concatenate(strides).astype(np.float32)


def _distinct(lesson: Lesson) -> Lesson:
    """One box for each thing: non-maximum suppression within a class."""
    boxes, labels, scores = (torch.from_numpy(np.ascontiguousarray(part)) for part in lesson)
    kept = batched_nms(boxes, scores, labels, OVERLAP).numpy()
    return Lesson(lesson.boxes[kept], lesson.labels[kept], lesson.scores[kept])


def look_at_all(teacher: Teacher, photographs: Mapping[str, Path], cache: Path) -> Iterable[str]:
    """Writes one JSON line a photograph to `cache`, goes on where an earlier run ended; yields names done."""
    done = set(read_lessons(cache)) if cache.exists() else set()
    with cache.open("a", encoding="utf-8") as lines:
        for name, path in photographs.items():
            if name not in done:
                with PIL.Image.open(path) as photograph:
                    lesson = teacher.look(photograph.convert("RGB"))
                parts = zip(lesson._fields, (part.astype(float).round(4).tolist() for part in lesson), strict=True)
                lines.write(json.dumps({"name": name, **dict(parts)}) + "\n")
            yield name


def read_lessons(cache: Path) -> dict[str, Lesson]:
    """Photograph name -> what the teacher saw; a last line cut short by a kill is left out and removed."""
    text = cache.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        cache.write_text(whole, encoding="utf-8")
    lessons = {}
    for line in whole.splitlines():
        row = json.loads(line)
        lessons[row["name"]] = Lesson(
            np.array(row["boxes"], np.float32).reshape(-1, 4),
            np.array(row["labels"], np.int64),
            np.array(row["scores"], np.float32),
        )
    return lessons
