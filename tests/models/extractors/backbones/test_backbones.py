"""Backbones against the unfolded networks they come from."""

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

from models.extractors.backbones.base import Backbone, read_layers
from models.extractors.backbones.registry import BACKBONES, build_backbone
from models.safe_load.restricted_pickle import RefusedFile


@pytest.fixture(params=sorted(BACKBONES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def published(name: str, folder: Path) -> Path:
    """A file of untrained weights as they are published, whose batch norms have something to fold."""
    torch.manual_seed(0)
    whole = mobilenet_v2() if name == "mobilenet-v2" else BACKBONES[name].layers()
    for layer in whole.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            nn.init.uniform_(layer.running_mean, -0.2, 0.2)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.8, 1.2)
    if name == "mobilenet-v2":
        save_file(whole.state_dict(), folder / "whole.safetensors")
        return folder / "whole.safetensors"
    classifier = {"_fc.weight": torch.rand(1000, 1280), "_fc.bias": torch.rand(1000)}
    renamed = {
        f"_layer{place}.{key.rpartition('.')[2]}": value
        for place, (key, value) in enumerate(whole.state_dict().items())
    }
    torch.save(renamed | classifier, folder / "whole.pth")
    return folder / "whole.pth"


def run_unfolded(layer: nn.Module, x: Tensor) -> Tensor:
    """The layers one by one, but stride 2 as TensorFlow pads: the odd cell comes after."""
    if isinstance(layer, nn.Conv2d) and layer.stride == (2, 2):
        more = layer.kernel_size[0] - 2
        around = (more // 2, more - more // 2) * 2
        return conv2d(pad(x, around), layer.weight, layer.bias, 2, 0, 1, layer.groups)
    inner = getattr(layer, "conv", getattr(layer, "layers", None))
    if inner is not None:
        adds = getattr(layer, "use_res_connect", getattr(layer, "adds", False))
        return x * adds + run_unfolded(inner, x) if adds else run_unfolded(inner, x)
    if isinstance(layer, nn.Sequential):
        for part in layer:
            x = run_unfolded(part, x)
        return x
    found: Tensor = layer(x)
    return found


@torch.no_grad()
def test_folded_weights_give_the_unfolded_maps(name: str, tmp_path: Path) -> None:
    file = published(name, tmp_path)
    backbone = build_backbone(name, file)
    layers = BACKBONES[name].layers().eval()
    layers.load_state_dict(BACKBONES[name].read(file))
    pixels = backbone.normalise(torch.randint(0, 256, (2, 3, 64, 96), dtype=torch.uint8))
    maps = backbone(pixels)
    assert [tuple(each.shape[2:]) for each in maps] == [(8, 12), (4, 6), (2, 3)]
    assert [each.shape[1] for each in maps] == list(backbone.channels.values())
    eighth, sixteenth = BACKBONES[name].ends
    torch.testing.assert_close(maps.stride8, run_unfolded(layers[:eighth], pixels), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(maps.stride16, run_unfolded(layers[:sixteenth], pixels), rtol=1e-4, atol=1e-4)
    expected = run_unfolded(layers, pixels)
    torch.testing.assert_close(backbone.widen(maps.stride32), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(backbone.last_stage(maps.stride16), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(read_layers(BACKBONES[name], file)(pixels), expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_saved_backbone_is_read_again(name: str, tmp_path: Path) -> None:
    backbone = build_backbone(name)
    backbone.save(tmp_path / "own.safetensors")
    again = build_backbone(name, tmp_path / "own.safetensors")
    pixels = torch.rand(1, 3, 64, 64)
    torch.testing.assert_close(again(pixels).stride32, backbone(pixels).stride32, rtol=0, atol=0)


@torch.no_grad()
def test_nothing_of_batch_norm_is_left_to_drift(name: str) -> None:
    backbone = build_backbone(name)
    pixels = torch.rand(1, 3, 64, 64)
    torch.testing.assert_close(backbone.train()(pixels).stride32, backbone.eval()(pixels).stride32)
    assert not list(backbone.buffers())


def test_other_weights_are_refused(tmp_path: Path) -> None:
    file = published("efficientnet-lite0", tmp_path)
    with pytest.raises(ValueError, match="this EfficientNet-Lite"):
        build_backbone("efficientnet-lite2", file)
    with pytest.raises(ValueError, match="there are mobilenet-v2"):
        build_backbone("resnet-9")
    tuned = tmp_path / "tuned.safetensors"
    build_backbone("efficientnet-lite0", file).save(tuned)
    for kind in ("efficientnet-lite2", "mobilenet-v2"):
        with pytest.raises(RefusedFile, match=r"tuned\.safetensors is to hold: .* is not known"):
            build_backbone(kind, tuned)
    whole = tuned.read_bytes()
    for content in (whole[: len(whole) // 2], b'{"image": "a.jpg"}', b""):
        tuned.write_bytes(content)
        with pytest.raises(RefusedFile, match="no whole file of safetensors"):
            build_backbone("efficientnet-lite0", tuned)


@pytest.mark.slow
@pytest.mark.realdata
@torch.no_grad()
def test_the_shared_weights_know_a_dog(data_dir: Path) -> None:
    file = data_dir / "mobilenet-v2" / "mobilenet_v2.safetensors"
    backbone: Backbone = build_backbone("mobilenet-v2", file)
    weights = load_file(file)
    lines = [json.loads(line) for line in (data_dir / "flickr8k" / "captions.jsonl").read_text().splitlines()]
    dogs = [line["image"] for line in lines if all(" dog " in text.lower() for text in line["captions"])][:20]
    pictures = [PIL.Image.open(data_dir / "flickr8k" / name).convert("RGB") for name in dogs]
    pixels = torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures])).permute(0, 3, 1, 2)
    vectors = backbone.widen(backbone(backbone.normalise(pixels)).stride32).mean((2, 3))
    classes = (vectors @ weights["classifier.1.weight"].T + weights["classifier.1.bias"]).argmax(1)
    breeds = (classes >= 151) & (classes <= 268)
    assert breeds.sum() >= 15
