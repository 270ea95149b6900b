"""YOLOX-nano's network, its input and its boxes; random weights but where the published ones are named."""

import PIL.Image
import pytest
import torch

from models.extractors.faster_rcnn.yolox import (
    BORDER,
    LetterboxedPicture,
    YoloxNano,
    canvas_size,
    cells_of_canvas,
    letterbox,
    letterboxed_size,
)


@pytest.fixture(scope="module")
def network() -> YoloxNano:
    torch.manual_seed(0)
    return YoloxNano(3).eval().requires_grad_(False)


@pytest.mark.parametrize(
    ("picture", "size", "canvas"),
    [
        ((640, 480), (416, 312), (416, 320)),
        ((480, 640), (312, 416), (320, 416)),
        ((100, 100), (416, 416), (416, 416)),
        ((3000, 10), (416, 1), (416, 32)),
        ((1, 1), (416, 416), (416, 416)),
    ],
)
def test_the_longer_side_is_given_and_the_canvas_no_larger_than_it_must_be(
    picture: tuple[int, int], size: tuple[int, int], canvas: tuple[int, int]
) -> None:
    assert letterboxed_size(*picture, 416) == size
    assert canvas_size(*picture, 416) == canvas
    boxed = letterbox(PIL.Image.new("RGB", picture, (200, 10, 20)), 416)
    assert boxed.size == size
    assert boxed.pixels.shape == (3, canvas[1], canvas[0])
    assert boxed.pixels[:, 0, 0].tolist() == [200, 10, 20]
    assert (boxed.pixels[:, size[1] :] == BORDER).all()
    assert (boxed.pixels[:, :, size[0] :] == BORDER).all()


def test_cells_go_row_by_row_from_the_finest_stride() -> None:
    cells = cells_of_canvas(64, 32)
    assert len(cells) == 8 * 4 + 4 * 2 + 2 * 1
    assert cells[:2].tolist() == [[0, 0, 8], [1, 0, 8]]
    assert cells[8].tolist() == [0, 1, 8]
    assert cells[-1].tolist() == [1, 0, 32]


def test_a_box_is_where_its_cell_says(network: YoloxNano, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell of stride 16, in column 2 of row 1, is sure of a box of 32 x 16 pixels half a cell from its corner."""
    predictions = torch.zeros(1, 8 * 8 + 4 * 4 + 2 * 2, 8)
    number = 8 * 8 + 1 * 4 + 2
    predictions[0, number] = torch.tensor([0.5, 0.5, torch.tensor(2.0).log(), 0.0, 0.5, 0.2, 0.8, 0.0])
    monkeypatch.setattr(network, "forward", lambda pixels: predictions)
    picture = LetterboxedPicture(torch.zeros(3, 64, 64, dtype=torch.uint8), (64, 48))
    [found] = network.detect([picture], 0.05)
    assert found.scores.tolist() == [pytest.approx([0.1, 0.4, 0.0])]
    centre = (2.5 * 16, 1.5 * 16)
    expected = [(centre[0] - 16) / 64, (centre[1] - 8) / 48, (centre[0] + 16) / 64, (centre[1] + 8) / 48]
    assert found.boxes[0].tolist() == pytest.approx(expected)
    assert not len(network.detect([picture], 0.5)[0].boxes)


def test_colours_are_blue_first(network: YoloxNano, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []

    def look(pixels: torch.Tensor) -> torch.Tensor:
        seen.append(pixels)
        return torch.zeros(len(pixels), 4 * 4 + 2 * 2 + 1, 8)

    monkeypatch.setattr(network, "forward", look)
    network.detect([letterbox(PIL.Image.new("RGB", (32, 32), (255, 2, 1)), 32)], 0.05)
    assert seen[0][0, :, 0, 0].tolist() == [1, 2, 255]


def test_pictures_of_one_canvas_do_not_depend_on_each_other(network: YoloxNano) -> None:
    pixels = torch.randint(0, 256, (3, 3, 64, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    pictures = [LetterboxedPicture(each, (96, 60)) for each in pixels]
    for together, picture in zip(network.detect(pictures, 0.0), pictures, strict=True):
        [alone] = network.detect([picture], 0.0)
        torch.testing.assert_close(together.boxes, alone.boxes, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(together.scores, alone.scores, rtol=1e-4, atol=1e-4)
        assert ((together.boxes >= 0) & (together.boxes <= 1)).all()
