"""Convolutions fused with their activations compute what the layers alone compute."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torchvision.models.detection.faster_rcnn import TwoMLPHead

from models.extractors.backbones.base import SameConv2d, untrained_backbone
from models.extractors.backbones.efficientnet_lite import EFFICIENTNET_LITE0
from models.extractors.faster_rcnn.heads import POOLED_CELLS, convolved_box_head
from models.extractors.faster_rcnn.yolox import YoloxNano
from models.extractors.fused_convolutions import FusedConv2d, fuse_convolutions


def random_picture(channels: int, height: int, width: int) -> Tensor:
    return torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(height))


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU6(), nn.SiLU(), nn.Identity()])
@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("kernel", [3, 5, 7])
@torch.no_grad()
def test_each_activation_and_padding(kernel: int, groups: int, activation: nn.Module) -> None:
    torch.manual_seed(0)
    for layer in (
        nn.Conv2d(6, 12, kernel, padding=kernel // 2, groups=groups),
        nn.Conv2d(6, 12, kernel, 2, padding=1, groups=groups, bias=False),
        SameConv2d(6, 12, kernel, 2, groups=groups),
    ):
        fused = FusedConv2d(layer, activation)
        for height, width in ((16, 20), (8, 34)):  # the second comes with the weights laid out for the first
            x = random_picture(6, height, width)
            torch.testing.assert_close(fused(3 * x), activation(layer(3 * x)), rtol=1e-5, atol=1e-5)


def test_what_cannot_be_one_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be one operation"):
        FusedConv2d(nn.Conv2d(1, 1, 3), nn.Tanh())
    with pytest.raises(ValueError, match="cannot be one operation"):
        FusedConv2d(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), nn.ReLU())


@pytest.mark.parametrize("build", [lambda: untrained_backbone(EFFICIENTNET_LITE0), lambda: YoloxNano(5)])
@torch.no_grad()
def test_a_network_computes_the_same_and_has_no_plain_convolution_left(build: object) -> None:
    torch.manual_seed(1)
    network = build().eval()  # type: ignore[operator]
    fused = copy.deepcopy(network)
    fuse_convolutions(fused)
    assert not any(isinstance(layer, nn.Conv2d | nn.ReLU6 | nn.SiLU) for layer in fused.modules())
    x = random_picture(3, 64, 96)
    torch.testing.assert_close(fused(x), network(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_an_activation_that_is_not_known_stays_behind_its_convolution() -> None:
    torch.manual_seed(2)
    plain = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Identity(), nn.Tanh(), nn.Conv2d(4, 2, 1))
    fused = copy.deepcopy(plain)
    fuse_convolutions(fused)
    x = random_picture(3, 4, 5)
    torch.testing.assert_close(fused(x), plain(x))


@torch.no_grad()
def test_without_onednn_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.extractors.fused_convolutions._CONVOLVE", None)
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU())
    fuse_convolutions(network)
    assert isinstance(network[0], nn.Conv2d)
    assert isinstance(network[1], nn.ReLU)


@torch.no_grad()
def test_a_box_head_is_a_convolution_over_all_cells() -> None:
    torch.manual_seed(3)
    head = TwoMLPHead(8 * POOLED_CELLS**2, 16)
    cells = torch.randn(5, 8, POOLED_CELLS, POOLED_CELLS).contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(convolved_box_head(head, 8)(cells), head(cells), rtol=1e-4, atol=1e-5)
