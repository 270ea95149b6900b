"""Anchors and proposals, against the listed numbers and the published method in loops."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from models.extractors.bottom_up.proposals import cell_anchors, decode_boxes, propose_boxes
from tests.support import caffe_reference as caffe


def test_anchors_are_the_published_twelve_in_their_order() -> None:
    assert cell_anchors().tolist() == caffe.ANCHORS


@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    scale=st.floats(0.2, 3),
    spread=st.floats(0, 1.5),
    seed=st.integers(0, 10**6),
)
def test_proposals_are_the_published_ones_in_loops(
    rows: int, columns: int, scale: float, spread: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, columns, 12, generator=generator, dtype=torch.float64)
    deltas = torch.randn(rows, columns, 12, 4, generator=generator, dtype=torch.float64) * spread
    size = (16 * rows - 5, 16 * columns - 9)
    found = []
    for row in range(rows):
        for column in range(columns):
            for anchor in range(12):
                shifted = [float(edge) + 16 * (column, row)[k % 2] for k, edge in enumerate(caffe.ANCHORS[anchor])]
                box = caffe.decode(shifted, deltas[row, column, anchor].tolist())
                box = [min(max(edge, 0), size[1 - k % 2] - 1) for k, edge in enumerate(box)]
                if min(box[2] - box[0], box[3] - box[1]) + 1 >= 16 * scale:
                    found.append((float(logits[row, column, anchor]), box))
    found.sort(key=lambda each: -each[0])
    expected = [box for _, box in caffe.suppress(found[:6000], 0.7)][:300]
    boxes = propose_boxes(logits, deltas, size, scale)
    if expected:
        torch.testing.assert_close(boxes, torch.tensor(expected, dtype=torch.float64))
    else:
        assert boxes.tolist() == [[0, 0, size[1] - 1, size[0] - 1]]


def test_there_are_at_most_three_hundred_the_surest_first() -> None:
    logits = torch.randn(40, 60, 12, generator=torch.Generator().manual_seed(0))
    boxes = propose_boxes(logits, torch.zeros(40, 60, 12, 4), (640, 960), 1.0)
    assert boxes.shape == (300, 4)
    row, column, anchor = torch.unravel_index(logits.argmax(), logits.shape)
    best = decode_boxes(cell_anchors()[anchor] + 16 * torch.stack([column, row, column, row]), torch.zeros(4))
    assert boxes[0].tolist() == best.clamp(min=0).minimum(torch.tensor([959, 639] * 2)).tolist()


def test_no_correction_leaves_sides_that_count_the_last_pixel() -> None:
    # x2 of the Caffe code's decoding is the centre plus half a side: one more than the anchor's own.
    moved = decode_boxes(torch.tensor([0.0, 0, 15, 31]), torch.zeros(4))
    assert moved.tolist() == [0, 0, 16, 32]
