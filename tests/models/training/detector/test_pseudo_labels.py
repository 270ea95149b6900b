"""The labelling detector's boxes, and the cache in which they are kept."""

import json
import os
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from models.extractors.coco_classes import COCO_CLASSES
from models.training.detector.pseudo_labels import (
    JointLabeler,
    PseudoLabeler,
    PseudoLabels,
    label_photographs,
    merge_pseudo_labels,
    read_pseudo_labels,
)
from models.training.detector.ssd_teacher import SsdLabeler, ssd_labels


class OneBoxLabeler(PseudoLabeler):
    """Finds one box, as wide as the photograph's first pixel is red."""

    def __init__(self) -> None:
        self.num_labelled = 0

    def label(self, photograph: PIL.Image.Image) -> PseudoLabels:
        self.num_labelled += 1
        red = np.asarray(photograph)[0, 0, 0] / 255
        return PseudoLabels(np.array([[0, 0, red, 1]], np.float32), np.array([3]), np.array([0.5], np.float32))


@pytest.fixture
def photographs(tmp_path: Path) -> dict[str, Path]:
    files = {f"{red}.png": tmp_path / f"{red}.png" for red in (51, 102, 204)}
    for red, path in zip((51, 102, 204), files.values(), strict=True):
        PIL.Image.new("RGB", (8, 8), (red, 0, 0)).save(path)
    return files


def test_a_photograph_is_labelled_once_even_over_a_kill(photographs: dict[str, Path], tmp_path: Path) -> None:
    cache = tmp_path / "labels.jsonl"
    first, second = OneBoxLabeler(), OneBoxLabeler()
    for name in label_photographs(first, photographs, cache):
        if name == "102.png":
            break
    with cache.open("a") as lines:
        lines.write('{"name": "204.png", "bo')  # what a kill leaves of a line
    assert list(label_photographs(second, photographs, cache)) == list(photographs)
    assert first.num_labelled + second.num_labelled == 3
    labels = read_pseudo_labels(cache)
    assert [labels[name].boxes[0, 2] for name in photographs] == pytest.approx([0.2, 0.4, 0.8])


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_kill_while_a_cut_line_is_removed_loses_no_whole_one(
    photographs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "labels.jsonl"
    assert list(label_photographs(OneBoxLabeler(), photographs, cache)) == list(photographs)
    whole = cache.read_bytes()
    cache.write_bytes(whole + b'{"name": "x.p')
    monkeypatch.setattr(os, "truncate", killed)
    with pytest.raises(KeyboardInterrupt):
        read_pseudo_labels(cache)
    assert cache.read_bytes().startswith(whole)
    monkeypatch.undo()
    assert len(read_pseudo_labels(cache)) == 3
    assert cache.read_bytes() == whole


def test_boxes_below_a_score_are_left_out() -> None:
    labels = PseudoLabels(np.eye(4, dtype=np.float32), np.arange(4), np.array([0.1, 0.6, 0.3, 0.9], np.float32))
    kept = labels.with_min_score(0.3)
    assert kept.labels.tolist() == [1, 2, 3]
    assert np.array_equal(kept.boxes, labels.boxes[1:])


def labels_of(*rows: tuple[list[float], int, float]) -> PseudoLabels:
    boxes, labels, scores = zip(*rows, strict=True) if rows else ((), (), ())
    return PseudoLabels(
        np.array(boxes, np.float32).reshape(-1, 4), np.array(labels, np.int64), np.array(scores, np.float32)
    )


def test_a_box_that_both_teachers_found_is_their_mean_and_surer_than_either() -> None:
    first = labels_of(([0, 0, 0.4, 0.4], 3, 0.5), ([0.5, 0.5, 1, 1], 7, 0.3), ([0, 0, 0.4, 0.42], 3, 0.6))
    second = labels_of(([0, 0, 0.4, 0.5], 3, 0.8), ([0.5, 0.5, 1, 1], 8, 0.2), ([0, 0.8, 0.1, 1], 3, 0.9))
    merged = merge_pseudo_labels(first, second)
    expected = labels_of(
        ([0, 0, 0.4, 0.4], 3, 0.5),
        ([0.5, 0.5, 1, 1], 7, 0.3),
        ([0, 0, 0.4, 0.46], 3, 0.92),
        ([0.5, 0.5, 1, 1], 8, 0.2),
        ([0, 0.8, 0.1, 1], 3, 0.9),
    )
    for found, wanted in zip(merged, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for one, other in ((first, labels_of()), (labels_of(), first)):
        assert all(np.array_equal(*pair) for pair in zip(merge_pseudo_labels(one, other), first, strict=True))


def test_two_labelers_label_as_one() -> None:
    joint = JointLabeler([OneBoxLabeler(), OneBoxLabeler()])
    labels = joint.label(PIL.Image.new("RGB", (8, 8), (102, 0, 0)))
    assert labels.boxes.tolist() == [pytest.approx([0, 0, 0.4, 1])]
    assert labels.scores.tolist() == [0.75]


def test_ssds_classes_are_cocos_ids() -> None:
    output = np.array(
        [
            [0, 18, 0.9, -0.1, 0.2, 0.5, 1.2],
            [0, 12, 0.9, 0, 0, 1, 1],  # an id that COCO never used
            [0, 90, 0.05, 0, 0, 1, 1],
            [0, 1, 0.4, 0.1, 0.1, 0.2, 0.2],
        ],
        np.float32,
    )
    labels = ssd_labels(output)
    assert [COCO_CLASSES[label] for label in labels.labels] == ["dog", "person"]
    assert labels.boxes[0].tolist() == pytest.approx([0, 0.2, 0.5, 1])
    assert labels.scores.tolist() == pytest.approx([0.9, 0.4])
    assert not len(ssd_labels(output[:0]).boxes)


def test_ssd_needs_its_description_and_a_graph(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    (tmp_path / "graph.pb").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="description"):
        SsdLabeler(tmp_path / "graph.pb", threads=1)
    (tmp_path / "graph.pbtxt").write_text("nothing")
    with pytest.raises(ValueError, match="cannot read"):
        SsdLabeler(tmp_path / "graph.pb", threads=1)


@pytest.mark.realdata
def test_the_shared_labelling_detector_finds_the_dogs_that_captions_name(data_dir: Path) -> None:
    labeler = PseudoLabeler(data_dir / "weights-yolox-nano" / "yolox_nano.onnx", threads=1)
    lines = [json.loads(line) for line in (data_dir / "flickr8k" / "captions.jsonl").read_text().splitlines()]
    dogs = [line["image"] for line in lines if all(" dog " in text.lower() for text in line["captions"])][:20]
    found = 0
    for name in dogs:
        with PIL.Image.open(data_dir / "flickr8k" / name) as photograph:
            labels = labeler.label(photograph.convert("RGB")).with_min_score(0.25)
        found += COCO_CLASSES.index("dog") in labels.labels
        assert (labels.boxes[:, 2:] > labels.boxes[:, :2]).all()
        assert ((labels.boxes >= 0) & (labels.boxes <= 1)).all()
    assert found >= 15
