"""The backbone against the unfolded network it comes from."""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad
from torchvision.models import mobilenet_v2

from models.mobilenet import MobileNetV2, normalised, read_backbone


def with_statistics() -> nn.Module:
    """An untrained MobileNetV2 whose batch norms have something to fold."""
    torch.manual_seed(0)
    whole = mobilenet_v2()
    for layer in whole.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_mean, -0.2, 0.2)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.8, 1.2)
    return whole.eval()


def run_unfolded(layer: nn.Module, x: Tensor) -> Tensor:
    """torchvision's layers one by one, but stride 2 as TensorFlow pads: nothing before, one after."""
    if isinstance(layer, nn.Conv2d) and layer.stride == (2, 2):
        return conv2d(pad(x, (0, 1, 0, 1)), layer.weight, layer.bias, 2, 0, 1, layer.groups)
    if getattr(layer, "use_res_connect", False):
        return x + run_unfolded(layer.conv, x)
    if isinstance(layer, nn.Sequential) or hasattr(layer, "conv"):
        for part in layer if isinstance(layer, nn.Sequential) else [layer.conv]:
            x = run_unfolded(part, x)
        return x
    return layer(x)


@torch.no_grad()
def test_folded_weights_give_the_unfolded_maps(tmp_path: Path) -> None:
    whole = with_statistics()
    save_file(whole.state_dict(), tmp_path / "whole.safetensors")
    backbone = read_backbone(tmp_path / "whole.safetensors")
    pixels = normalised(torch.randint(0, 256, (2, 3, 64, 96), dtype=torch.uint8))
    maps = backbone(pixels)
    assert [tuple(each.shape[2:]) for each in maps] == [(8, 12), (4, 6), (2, 3)]
    expected = run_unfolded(whole.features[:7], pixels)
    torch.testing.assert_close(maps.stride8, expected, rtol=1e-4, atol=1e-4)
    expected = run_unfolded(whole.features, pixels)
    torch.testing.assert_close(backbone.widen(maps.stride32), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(backbone.last_stage(maps.stride16), expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_nothing_of_batch_norm_is_left_to_drift() -> None:
    backbone = MobileNetV2()
    pixels = torch.rand(1, 3, 64, 64)
    torch.testing.assert_close(backbone.train()(pixels).stride32, backbone.eval()(pixels).stride32)
    assert not list(backbone.buffers())


@pytest.mark.realdata
@torch.no_grad()
def test_the_shared_weights_know_a_dog(data_dir: Path) -> None:
    file = data_dir / "mobilenet-v2" / "mobilenet_v2.safetensors"
    backbone, weights = read_backbone(file), load_file(file)
    lines = [json.loads(line) for line in (data_dir / "flickr8k" / "captions.jsonl").read_text().splitlines()]
    dogs = [line["image"] for line in lines if all(" dog " in text.lower() for text in line["captions"])][:20]
    pictures = [PIL.Image.open(data_dir / "flickr8k" / name).convert("RGB") for name in dogs]
    pixels = torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures])).permute(0, 3, 1, 2)
    vectors = backbone.widen(backbone(normalised(pixels)).stride32).mean((2, 3))
    classes = (vectors @ weights["classifier.1.weight"].T + weights["classifier.1.bias"]).argmax(1)
    breeds = (classes >= 151) & (classes <= 268)
    assert breeds.sum() >= 15
