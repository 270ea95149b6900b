"""Where this ResNet differs from others, in sizes."""

import pytest
import torch

from models.extractors.bottom_up.caffe_resnet import MIN_INPUT_SIDE, CaffeResNet, build_stage


@pytest.mark.parametrize(("pixels", "cells"), [(600, 38), (1000, 63), (224, 14), (MIN_INPUT_SIDE, 1)])
def test_the_pool_pads_nothing_and_rounds_up(pixels: int, cells: int) -> None:
    with torch.device("meta"):
        map_ = CaffeResNet(64, (3, 4, 23))(torch.empty(1, 3, pixels, 2 * pixels))
    assert map_.shape[:3] == (1, 1024, cells)


def test_the_last_stage_keeps_the_size_and_sees_further() -> None:
    torch.manual_seed(0)
    last = build_stage(1, 16, 8, 1, dilation=2)
    x = torch.zeros(1, 16, 9, 9, requires_grad=True)
    last(x + 1)[0, :, 4, 4].sum().backward()
    assert x.grad is not None
    rows, columns = x.grad[0].abs().sum(0).nonzero().T
    assert set(rows.tolist()) == set(columns.tolist()) == {2, 4, 6}
    assert last(x).shape == (1, 32, 9, 9)


def test_the_stride_is_in_the_first_convolution() -> None:
    block = build_stage(2, 8, 4, 2)
    assert [block[0].conv1.stride, block[0].conv2.stride, block[1].conv1.stride] == [(2, 2), (1, 1), (1, 1)]
    assert block[1].shortcut is None
