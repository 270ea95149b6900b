"""Pseudo-labels of TensorFlow's SSD-MobileNetV2 trained on COCO, a frozen graph that OpenCV reads.

The model is `ssd_mobilenet_v2_coco_2018_03_29` of TensorFlow's detection models (Apache-2.0): a .pb file, with OpenCV's
description of it in a .pbtxt file beside it. Its input is RGB, stretched to 300 x 300, whatever the aspect.
"""

from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from models.extractors.coco_classes import COCO_CATEGORY_IDS
from models.training.detector.pseudo_labels import MIN_SCORE, PseudoLabels

SSD_SIDE = 300


class SsdLabeler:
    """An SSD detector that labels photographs."""

    def __init__(self, file: Path, threads: int) -> None:
        """Load the graph. Raises ValueError unless there is one description, or if OpenCV cannot read the graph."""
        import cv2  # noqa: PLC0415  # needed for training a detector alone

        descriptions = sorted(file.parent.glob("*.pbtxt"))
        if len(descriptions) != 1:
            raise ValueError(f"beside {file} stands not one description (.pbtxt), but {len(descriptions)}")
        cv2.setNumThreads(threads)
        try:
            self._network: Any = cv2.dnn.readNetFromTensorflow(str(file), str(descriptions[0]))
        except cv2.error as fault:
            raise ValueError(f"OpenCV cannot read {file}: {fault}") from None

    def label(self, photograph: PIL.Image.Image) -> PseudoLabels:
        """The boxes found in a photograph."""
        resized = photograph.resize((SSD_SIDE, SSD_SIDE), PIL.Image.Resampling.BILINEAR)
        pixels = np.asarray(resized, dtype=np.float32).transpose(2, 0, 1)
        self._network.setInput(np.ascontiguousarray(pixels)[None])
        return ssd_labels(self._network.forward()[0, 0])


def ssd_labels(output: np.ndarray) -> PseudoLabels:
    """Labels from the network's output [N 7]: picture, COCO's id of the class, score, x1 y1 x2 y2 as fractions."""
    number_of = {category: number for number, category in enumerate(COCO_CATEGORY_IDS)}
    kept = output[[row[1] in number_of and row[2] >= MIN_SCORE for row in output]]
    labels = np.array([number_of[row[1]] for row in kept], np.int64)
    return PseudoLabels(kept[:, 3:].clip(0, 1).astype(np.float32), labels, kept[:, 2].astype(np.float32))
