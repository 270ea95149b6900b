"""A grid's cells: where they are, what they see, and that SMAN can read them."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models import mobilenet_v2

from models.batches import Regions, Words
from models.extractors.backbones.base import BACKBONE_FEATURE_DIM
from models.extractors.backbones.registry import build_backbone
from models.extractors.grid import CELL, GridConfig, GridExtractor, load_grid
from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import build
from tests.support.encoded_images import encode_images
from tests.support.no_pictures import check_no_pictures


@pytest.fixture(scope="module")
def grid() -> GridExtractor:
    torch.manual_seed(1)
    backbone = build_backbone("mobilenet-v2").eval()
    for layer in backbone.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)  # its fresh weights count on batch norm and let all signal die
    return GridExtractor(GridConfig(batch=2), backbone)


def picture(width: int, height: int, seed: int = 0) -> PIL.Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return PIL.Image.fromarray(noise)


def test_cells_cover_each_picture_once_row_by_row(grid: GridExtractor) -> None:
    found = grid.extract([picture(70, 140), picture(224, 224), picture(33, 9)])
    assert found.features.shape == (3, 49, BACKBONE_FEATURE_DIM)
    assert found.mask.all()
    assert found.confidence.eq(1).all()
    assert [grid.labels[label] for label in found.labels.unique()] == [CELL]  # type: ignore[no-untyped-call]
    for row in range(7):
        for column in range(7):
            expected = [column * 10, row * 20, column * 10 + 10, row * 20 + 20]
            assert found.boxes[0, row * 7 + column].tolist() == pytest.approx(expected, abs=1e-3)
    sides = found.boxes[..., 2:] - found.boxes[..., :2]
    torch.testing.assert_close(sides.prod(-1).sum(1), torch.tensor([70.0 * 140, 224.0**2, 33.0 * 9]))


def test_a_cell_holds_the_map_at_its_place(grid: GridExtractor) -> None:
    square = picture(224, 224)
    pixels = torch.from_numpy(np.array(square)).permute(2, 0, 1)[None]
    with torch.no_grad():
        stage = grid.backbone.widen(grid.backbone(grid.backbone.normalise(pixels)).stride32)
    features = grid.extract([square]).features
    assert features[0].unique(dim=0).shape[0] == 49  # type: ignore[no-untyped-call]  # no two cells look alike
    for row in range(7):
        for column in range(7):
            torch.testing.assert_close(features[0, row * 7 + column], stage[0, :, row, column], atol=1e-4, rtol=1e-4)


def test_what_a_picture_gets_does_not_depend_on_its_batch(grid: GridExtractor) -> None:
    pictures = [picture(50 + 40 * seed, 60, seed) for seed in range(5)]
    together = grid.extract(pictures).features
    for alone, found in zip(pictures, together, strict=True):
        torch.testing.assert_close(grid.extract([alone]).features[0], found, atol=1e-5, rtol=1e-4)


def test_no_pictures_have_no_cells(grid: GridExtractor) -> None:
    check_no_pictures(grid.extract)


def test_a_side_that_cells_do_not_fill_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        GridExtractor(GridConfig(side=230), build_backbone("mobilenet-v2"))


def test_loading_names_weights_and_configuration(tmp_path: Path) -> None:
    torch.manual_seed(1)
    save_file(mobilenet_v2().state_dict(), tmp_path / "backbone.safetensors")
    small, usual = (load_grid(tmp_path / "backbone.safetensors", config=GridConfig(side=side)) for side in (64, 224))
    assert small.digest != usual.digest == load_grid(tmp_path / "backbone.safetensors").digest
    assert small.num_regions == 4
    assert small.extract([picture(20, 20)]).features.isfinite().all()


@torch.no_grad()
def test_sman_reads_the_grid(grid: GridExtractor) -> None:
    encoders = EncoderConfig(num_words=9, feature_dim=grid.feature_dim, word_dim=4, width=8)
    sman = build("sman", encoders).eval()
    found = grid.extract([picture(64, 64, seed) for seed in range(3)])
    images = encode_images(sman, Regions(found.features, found.mask))
    words = Words(torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool))
    told = sman.explain(images, words)
    assert told.region_weights is not None
    assert told.region_weights.shape == (2, 3, 49)
    assert sman.score(images, words).flatten().unique().numel() == 6  # type: ignore[no-untyped-call]
