"""Fitting of a finished backbone's head: the maps of features to sentence vectors, and ImageNet's classifier.

While a backbone is tuned, its head follows moving weights in small batches. Afterwards the head alone is fitted again,
on features of augmented photographs that are computed once. The losses are those of
`models/training/backbone/sentence_head.py`, with the published network's classes of the same tiles as the classifier's
targets.

The result is a `SentenceMap` and the classifier. The map is stored twice, for whole pictures and for regions, each
divided by the mean length of its vectors there, so that both have length 1 on average.
"""

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.batches import tiles
from models.datasets.captions import CaptionedPhotographs
from models.extractors.backbones.base import HEAD_FILE, Backbone, fold_batch_norm, read_layers
from models.extractors.backbones.registry import build_backbone, find_architecture
from models.text.bert_encoder import BertEncoder
from models.training.backbone.half_precision import half_precision
from models.training.backbone.photograph_batches import PhotographBatches
from models.training.backbone.recipe import SentenceRecipe
from models.training.backbone.sentence_head import (
    SentenceHead,
    class_divergence,
    linear_layer,
    matching_losses,
    whole_picture_recalls,
)
from models.training.backbone.tiles import means_inside, tile_boxes
from models.training.caption_targets import CaptionTargets
from models.training.finite_loss import finite_sum
from models.training.logs import Log
from models.whole_files import write_tensors


@dataclass(frozen=True, kw_only=True)
class HeadRecipe(SentenceRecipe):
    """The hyper-parameters of a fitting; with the same photographs they give the same head."""

    side: int = 256
    """Pixels per side to which every picture is stretched, as for whole pictures in a detector of side 512."""
    epochs: int = 3
    """Augmented views of each photograph."""
    tiles_a_view: int = 4
    """Random tiles of each view, on which the classifier is trained."""
    passes: int = 16
    """Over the features of all views."""
    pictures_a_step: int = 256
    rate: float = 1e-3
    """Learning rate at the start, down by half a cosine."""


class ViewFeatures(NamedTuple):
    """Features of V views of photographs, in half precision except the indices."""

    photographs: Tensor
    """[V] the index of each view's photograph, int64."""
    pictures: Float[Tensor, "V 1280"]
    """Means of the last map."""
    tiles: Float[Tensor, "V T 1280"]
    """Means of the last map inside tiles."""
    published: Float[Tensor, "V T 1000"]
    """The published network's logits of these tiles."""


class HeadFitting:
    """One fitting in one folder."""

    def __init__(
        self,
        recipe: HeadRecipe,
        photographs: CaptionedPhotographs,
        backbone_file: Path,
        published_file: Path,
        encoder: BertEncoder,
        out: Path,
        device: str = "cpu",
    ) -> None:
        """Load the networks; `published_file` holds the published weights with their classifier."""
        self.recipe, self.photographs, self.out = recipe, photographs, out
        self.batches = PhotographBatches(recipe, photographs)
        torch.manual_seed(recipe.seed)
        architecture = find_architecture(recipe.backbone)
        self.backbone = build_backbone(recipe.backbone, backbone_file)
        self.published = Backbone(architecture, fold_batch_norm(read_layers(architecture, published_file)))
        self.published_classifier = linear_layer(*architecture.read_classifier(published_file))
        classifier = copy.deepcopy(self.published_classifier)
        self.head = SentenceHead(classifier.in_features, encoder.config.width, recipe, classifier)
        self.device = torch.device(device)
        for part in (self.backbone, self.published, self.published_classifier, self.head):
            part.to(self.device)
        self.targets = CaptionTargets(encoder, [line.captions for line in photographs.train], recipe).to(self.device)
        self.dev_vectors = encoder.embed(self.batches.validated_captions).to(self.device)
        self.total_steps = self.batches.total_steps + recipe.passes

    def run(self, log: Log) -> None:
        """Compute the features, fit the head and save it in `out`."""
        self.out.mkdir(parents=True, exist_ok=True)
        views = self._view_features(log)
        dev = self._dev_features()
        optimizer = torch.optim.AdamW(self.head.parameters(), self.recipe.rate, weight_decay=self.recipe.weight_decay)
        for number in range(self.recipe.passes):
            losses = self._pass(views, optimizer, number)
            step = self.total_steps - self.recipe.passes + number + 1
            log({"step": step, "steps": self.total_steps, **losses, "validation": self.validate(dev)})
        write_tensors(self.out / HEAD_FILE, self._state(views))

    @torch.no_grad()
    def validate(self, dev: Float[Tensor, "K 1280"]) -> dict[str, Any]:
        """Recalls of the first photographs of dev, searched by whole pictures with these features."""
        head = self.head.eval()
        return whole_picture_recalls(head.embed_means(dev), head.read(self.dev_vectors), self.batches.validated)

    def _pass(self, views: ViewFeatures, optimizer: torch.optim.Optimizer, number: int) -> dict[str, float]:
        """One pass over all views; the mean losses."""
        self.head.train()
        order = torch.randperm(len(views.photographs))
        sums: dict[str, float] = {}
        steps = list(tiles(len(order), self.recipe.pictures_a_step))
        for step, tile in enumerate(steps):
            progress = (number + step / len(steps)) / self.recipe.passes
            for group in optimizer.param_groups:
                group["lr"] = self.recipe.rate * 0.5 * (1 + math.cos(math.pi * progress))
            losses = self._losses(ViewFeatures(*(part[order[tile]].to(self.device) for part in views)))
            optimizer.zero_grad(set_to_none=True)
            finite_sum(losses).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            for name, loss in losses.items():
                sums[name] = sums.get(name, 0.0) + float(loss.detach())
        return {name: total / len(steps) for name, total in sums.items()}

    def _losses(self, views: ViewFeatures) -> dict[str, Tensor]:
        embeddings = self.head.embed_means(views.pictures.float())
        losses = matching_losses(self.head, self.targets, embeddings, views.photographs)
        logits = self.head.classify(views.tiles.float())
        losses["knowledge"] = class_divergence(logits.flatten(0, 1), views.published.float().flatten(0, 1))
        return losses

    @torch.no_grad()
    def _view_features(self, log: Log) -> ViewFeatures:
        parts = []
        for step, batch in enumerate(self.batches.after(0), 1):
            maps, published = self._maps(self.backbone, batch.pixels), self._maps(self.published, batch.pixels)
            drawn = self._draw_tiles(len(maps))
            logits = self.published_classifier(means_inside(published, drawn))
            features = (maps.mean((2, 3)), means_inside(maps, drawn), logits)
            parts.append((torch.from_numpy(batch.numbers), *(part.half().cpu() for part in features)))
            log({"step": step, "steps": self.total_steps})
        return ViewFeatures(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _draw_tiles(self, count: int) -> Float[Tensor, "N 5"]:
        """Tiles of each of `count` pictures, as (picture, x1 y1 x2 y2 in pixels)."""
        boxes = tile_boxes()[1:] * self.recipe.side
        drawn = torch.rand(count, len(boxes)).argsort(1)[:, : self.recipe.tiles_a_view]
        pictures = torch.arange(count)[:, None].expand_as(drawn)
        return torch.cat([pictures[:, :, None].float(), boxes[drawn]], 2).flatten(0, 1).to(self.device)

    @torch.no_grad()
    def _dev_features(self) -> Float[Tensor, "K 1280"]:
        photographs = self.batches.unchanged(self.batches.validated)
        return torch.cat([self._maps(self.backbone, pixels).mean((2, 3)) for pixels in photographs])

    def _maps(self, backbone: Backbone, pixels: Tensor) -> Float[Tensor, "K 1280 h w"]:
        normalised = backbone.normalise(pixels.to(self.device)).contiguous(memory_format=torch.channels_last)
        with half_precision(self.device):
            maps: Tensor = backbone.features(normalised)
        return maps.float()

    @torch.no_grad()
    def _state(self, views: ViewFeatures) -> dict[str, Tensor]:
        """The weights to save, with the names that `SentenceMap` and the conversion of detectors use."""
        state = {f"classifier.{name}": part for name, part in self.head.classifier.state_dict().items()}
        sample = np.linspace(0, len(views.pictures) - 1, min(len(views.pictures), 2000)).astype(np.int64)
        project = self.head.map_to_sentences()
        for layer, features in (("of_picture", views.pictures), ("of_region", views.tiles.flatten(0, 1))):
            length = _mean_length(project, features[torch.from_numpy(sample)].float().to(self.device))
            state |= {f"{layer}.weight": project.weight / length, f"{layer}.bias": project.bias / length}
        return {name: part.detach().cpu().contiguous().clone() for name, part in state.items()}


def _mean_length(project: nn.Linear, features: Float[Tensor, "N 1280"]) -> Tensor:
    length: Tensor = project(features).norm(dim=1).mean()
    return length
