"""Fine-tuning of a backbone on captioned photographs against a frozen sentence encoder's vectors.

A photograph's vector e is a linear map of the mean of its last map, unit length; t_c is the vector of caption c of all
N training photographs, and u_n the normalised mean of photograph n's captions. Three losses are added:

    to text    cross entropy of softmax_c(e . t_c / T) with  own_share / 5 on each of its five captions
                                                            + (1 - own_share) softmax_c(u . t_c / neighbours)
    to image   for each caption of the batch's photographs, cross entropy of softmax_n(e_n . t / T') over the batch,
               with own_share on its own photograph and the rest by softmax_n(t . u_n / neighbours)
    knowledge  `distillation` times KL(classifier on tiles now || published classifier on published tiles)

T and T' are learned. The targets' second parts are what other captions say nearly as well (as label smoothing, after
Szegedy et al. 2016, but by meaning). Where pictures of a batch are mixed (`mixing`), a mixed picture's target is the
mean of its parts' targets by area, and so is a caption's target over mixed pictures. The third loss keeps what
ImageNet taught the backbone about parts of a picture (Hinton et al. 2015, distillation, at temperature 1), which
tuning by whole pictures alone forgets. What is saved is the moving average of the weights.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image
import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax, normalize, softmax
from torch.optim.swa_utils import AveragedModel
from torchvision.ops import roi_align

from models.batches import tiles
from models.datasets.captions import CaptionLine
from models.evaluation.metrics import Recalls, image_to_text_ranks, rsum, text_to_image_ranks
from models.extractors.backbones.base import Backbone, fold_batch_norm, read_layers
from models.extractors.backbones.registry import find_architecture
from models.extractors.resize import stack_resized
from models.text.bert_encoder import BertEncoder
from models.training.backbone.cutmix import cut_mix
from models.training.backbone.recipe import PhotographBatch, iter_photograph_batches, steps_per_epoch
from models.training.backbone.trainer import (
    BACKBONE_FILE,
    NUM_VALIDATED,
    PHOTOGRAPHS_AT_ONCE,
    TILE_CELLS,
    tile_boxes,
)
from models.training.checkpoints import CHECKPOINT_FILE, TrainingCheckpoint, read_checkpoint
from models.training.logs import Log

HEAD_FILE = "head.safetensors"


@dataclass(frozen=True, kw_only=True)
class SentenceTuningRecipe:
    """The hyper-parameters of such a fine-tuning; with the same photographs they give the same backbone."""

    backbone: str = "efficientnet-lite2"
    side: int = 224
    """Pixels a side to which every picture is stretched."""
    batch: int = 64
    epochs: int = 30
    """Passes over the photographs."""
    rate: float = 3e-4
    """Learning rate of the backbone; up in a twentieth of the steps, then down by half a cosine."""
    head_rate: float = 1e-3
    """Learning rate of the linear map and the temperatures."""
    weight_decay: float = 0.05
    clip: float = 2.0
    averaging: float = 0.998
    """Decay of the moving average of the weights."""
    temperature: float = 0.07
    """At the start, of both directions."""
    own_share: float = 0.8
    neighbours: float = 0.1
    """Temperature of the targets that other captions get."""
    distillation: float = 1.5
    dropout: float = 0.2
    """Of the mean of the last map."""
    frozen_layers: int = 5
    """The first layers, which stay as they are: their maps are large, and edges and colours need no tuning."""
    least_crop: float = 0.5
    """Share of a photograph's sides that a crop has at least."""
    mixing: float = 0.0
    """Share of the steps whose pictures have parts of each other pasted in (CutMix)."""
    most_mixed: float = 0.5
    """Share of a picture's area that can come from another one."""
    save_every: int = 25
    seed: int = 0


class SentenceHead(nn.Module):
    """The parts trained beside the backbone: the map to sentence vectors, the temperatures, ImageNet's classifier."""

    def __init__(self, feature_dim: int, width: int, recipe: SentenceTuningRecipe, classifier: nn.Linear) -> None:
        super().__init__()
        self.dropout = nn.Dropout(recipe.dropout)
        self.project = nn.Linear(feature_dim, width)
        start = torch.tensor(math.log(recipe.temperature))
        self.log_text_temperature = nn.Parameter(start.clone())
        self.log_image_temperature = nn.Parameter(start.clone())
        self.classifier = classifier

    def embed(self, maps: Float[Tensor, "K F h w"]) -> Float[Tensor, "K D"]:
        """Vectors of whole pictures, comparable with those of sentences."""
        return normalize(self.project(self.dropout(maps.mean((2, 3)))), dim=1)

    def classify(self, regions: Float[Tensor, "K R F"]) -> Float[Tensor, "K R C"]:
        """ImageNet's classes of regions, as logits."""
        logits: Tensor = self.classifier(regions)
        return logits


class TunedNetwork(nn.Module):
    """Backbone layers and head as one module, so that both are averaged together."""

    def __init__(self, layers: nn.Sequential, head: SentenceHead) -> None:
        super().__init__()
        self.layers, self.head = layers, head


class CaptionTargets:
    """The sentence vectors of all training captions, and what a batch is to say to them."""

    def __init__(self, encoder: BertEncoder, lines: Sequence[CaptionLine], recipe: SentenceTuningRecipe) -> None:
        self._recipe = recipe
        self.vectors = encoder.embed([caption for line in lines for caption in line.captions])
        owners = [number for number, line in enumerate(lines) for _ in line.captions]
        self.image_of = torch.tensor(owners)
        sums = torch.zeros(len(lines), self.vectors.shape[1]).index_add(0, self.image_of, self.vectors)
        self.means = normalize(sums, dim=1)

    def to(self, device: torch.device) -> "CaptionTargets":
        """Moved to the device of the training."""
        self.vectors, self.image_of, self.means = (
            part.to(device) for part in (self.vectors, self.image_of, self.means)
        )
        return self

    def of_images(self, numbers: Tensor) -> Float[Tensor, "K N"]:
        """The distribution over all captions that each photograph's vector is to give."""
        own = (self.image_of == numbers[:, None]).float()
        near = softmax(self.means[numbers] @ self.vectors.T / self._recipe.neighbours, 1)
        return self._mixed(own / own.sum(1, keepdim=True), near)

    def of_captions(self, numbers: Tensor) -> tuple[Float[Tensor, "Q D"], Float[Tensor, "Q K"]]:
        """The captions of a batch's photographs, and the distribution over these that each is to give."""
        chosen = (self.image_of[:, None] == numbers).any(1)
        vectors = self.vectors[chosen]
        own = (self.image_of[chosen, None] == numbers).float()
        return vectors, self._mixed(own, softmax(vectors @ self.means[numbers].T / self._recipe.neighbours, 1))

    def _mixed(self, own: Tensor, near: Tensor) -> Tensor:
        return self._recipe.own_share * own + (1 - self._recipe.own_share) * near


class SentenceTuning:
    """One such fine-tuning in one folder."""

    def __init__(
        self,
        recipe: SentenceTuningRecipe,
        folder: Path,
        train: Sequence[CaptionLine],
        dev: Sequence[CaptionLine],
        backbone_file: Path,
        encoder: BertEncoder,
        out: Path,
        device: str = "cpu",
        initial: Path | None = None,
    ) -> None:
        """`folder` holds the photographs; `backbone_file` is as published, with its classifier.

        `initial` is the folder of an earlier fine-tuning, from whose end this one starts.
        """
        self.recipe, self.folder, self.train, self.dev, self.out = recipe, folder, train, dev[:NUM_VALIDATED], out
        torch.manual_seed(recipe.seed)
        self.architecture = find_architecture(recipe.backbone)
        layers = fold_batch_norm(read_layers(self.architecture, backbone_file))
        self.published = copy.deepcopy(layers).requires_grad_(False)
        classifier = _linear(*self.architecture.read_classifier(backbone_file))
        self.published_classifier = copy.deepcopy(classifier).requires_grad_(False)
        head = SentenceHead(classifier.in_features, encoder.config.width, recipe, classifier)
        self.network = TunedNetwork(layers, head)
        if initial is not None:
            self.network.load_state_dict(read_checkpoint(initial / CHECKPOINT_FILE)["parts"]["network"])
        for part in (self.network, self.published, self.published_classifier):
            part.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.layers[: recipe.frozen_layers].requires_grad_(False)
        self.backbone = Backbone(self.architecture, self.layers)
        self.device = torch.device(device)
        self.targets = CaptionTargets(encoder, train, recipe).to(self.device)
        self.dev_vectors = encoder.embed([text for line in self.dev for text in line.captions]).to(self.device)
        self.averaged = AveragedModel(self.network, avg_fn=self._average)
        self.optimizer = torch.optim.AdamW(self._parameter_groups(), weight_decay=recipe.weight_decay)
        self.total_steps = recipe.epochs * steps_per_epoch(recipe, train)
        # A lambda, because the schedule's state would hold a copy of a bound method.
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: self._rate(step))  # noqa: PLW0108
        self.checkpoint = TrainingCheckpoint(
            out / CHECKPOINT_FILE,
            recipe,
            parts={
                "network": self.network,
                "averaged": self.averaged,
                "optimizer": self.optimizer,
                "schedule": self.schedule,
            },
        )

    @property
    def layers(self) -> nn.Sequential:
        """The backbone's layers as they are trained."""
        return self.network.layers

    @property
    def head(self) -> SentenceHead:
        """The head as it is trained."""
        return self.network.head

    @property
    def averaged_network(self) -> TunedNetwork:
        """The network with the moving average of the weights."""
        network = self.averaged.module
        assert isinstance(network, TunedNetwork)
        return network

    def run(self, log: Log) -> Backbone:
        """Train to the end of the recipe, going on where an earlier run stopped.

        Returns the averaged backbone, which is also saved in `out`, with the head beside it. UnusableCheckpoint where
        `out` was begun with another recipe.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        done = self.checkpoint.resume() or 0
        epoch = steps_per_epoch(self.recipe, self.train)
        for step, batch in enumerate(iter_photograph_batches(self.recipe, self.folder, self.train, done), done + 1):
            log({"step": step, "steps": self.total_steps, **self._train_step(batch)})
            if step % epoch == 0:
                log({"step": step, "steps": self.total_steps, "validation": self.validate()})
            if step % self.recipe.save_every == 0 or step == self.total_steps:
                self.checkpoint.save(step)
        tuned = Backbone(self.architecture, copy.deepcopy(self.averaged_network.layers))
        tuned.save(self.out / BACKBONE_FILE)
        head = {name: tensor.contiguous().cpu() for name, tensor in self.averaged_network.head.state_dict().items()}
        save_file(head, self.out / HEAD_FILE)
        return tuned

    @torch.no_grad()
    def validate(self) -> dict[str, Any]:
        """Recalls of the averaged network on the first photographs of dev, which are searched by whole pictures; and
        the KL divergence of its classifier from the published one's on the tiles of the first of these."""
        network = self.averaged_network.eval()
        vectors, divergence = [], 0.0
        for tile in tiles(len(self.dev), PHOTOGRAPHS_AT_ONCE):
            pixels = self._normalised(self._pixels(self.dev[tile]))
            maps = network.layers(pixels)
            vectors.append(network.head.embed(maps))
            if tile.start == 0:
                divergence = float(self._divergence(network.head, maps, self.published(pixels)))
        scores = self.dev_vectors @ torch.cat(vectors).T
        image_of = torch.tensor([n for n, line in enumerate(self.dev) for _ in line.captions], device=self.device)
        to_image = Recalls.of(text_to_image_ranks(scores, image_of))
        to_text = Recalls.of(image_to_text_ranks(scores, image_of))
        return {
            "text_to_image": to_image.as_dict(),
            "image_to_text": to_text.as_dict(),
            "rsum": rsum(to_image, to_text),
            "divergence": divergence,
        }

    def _train_step(self, batch: PhotographBatch) -> dict[str, float]:
        """One step; the losses before it."""
        self.head.train()
        frozen = self.recipe.frozen_layers
        pixels, shown = self._mixed_pictures(batch.pixels)
        with torch.no_grad():
            early = self.layers[:frozen](self._normalised(pixels))
            with torch.autocast(self.device.type, torch.bfloat16):
                published = self.published[frozen:](early).float()
        maps = self.layers[frozen:](early)
        numbers = torch.from_numpy(batch.numbers).to(self.device)
        losses = self._matching_losses(self.head.embed(maps), numbers, shown.to(self.device))
        losses["knowledge"] = self.recipe.distillation * self._divergence(self.head, maps, published)
        self.optimizer.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.schedule.step()
        self.averaged.update_parameters(self.network)
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def _mixed_pictures(self, pixels: Tensor) -> tuple[Tensor, Float[Tensor, "K K"]]:
        """The pictures of a step, mixed or not, and the share of each one's area that shows each photograph."""
        if self.recipe.mixing and float(torch.rand(())) < self.recipe.mixing:
            return cut_mix(pixels, self.recipe.most_mixed)
        return pixels, torch.eye(len(pixels))

    def _matching_losses(
        self, embeddings: Float[Tensor, "K D"], numbers: Tensor, shown: Float[Tensor, "K K"]
    ) -> dict[str, Tensor]:
        with torch.no_grad():
            by_image = shown @ self.targets.of_images(numbers)
            captions, by_caption = self.targets.of_captions(numbers)
            by_caption = by_caption @ shown.T
        to_text = embeddings @ self.targets.vectors.T / self.head.log_text_temperature.exp()
        to_image = captions @ embeddings.T / self.head.log_image_temperature.exp()
        return {
            "to_text": -(by_image * log_softmax(to_text, 1)).sum(1).mean(),
            "to_image": -(by_caption * log_softmax(to_image, 1)).sum(1).mean(),
        }

    def _divergence(self, head: SentenceHead, maps: Tensor, published: Tensor) -> Float[Tensor, ""]:
        """Mean KL divergence of the classes of a picture's tiles from those that the published network sees."""
        now = log_softmax(head.classify(tile_means(maps)), -1).flatten(0, 1)
        before = log_softmax(self.published_classifier(tile_means(published)), -1).flatten(0, 1)
        return kl_div(now, before, log_target=True, reduction="batchmean")

    def _parameter_groups(self) -> list[dict[str, Any]]:
        backbone = [p for p in [*self.layers.parameters(), *self.head.classifier.parameters()] if p.requires_grad]
        matching = [self.head.project.weight]
        plain = [self.head.project.bias, self.head.log_text_temperature, self.head.log_image_temperature]
        rate, head_rate = self.recipe.rate, self.recipe.head_rate
        return [
            {"params": [p for p in backbone if p.dim() == 4], "lr": rate},
            {"params": [p for p in backbone if p.dim() < 4], "lr": rate, "weight_decay": 0.0},
            {"params": matching, "lr": head_rate},
            {"params": plain, "lr": head_rate, "weight_decay": 0.0},
        ]

    def _rate(self, step: int) -> float:
        """The learning rates' factor at a step."""
        progress = min(1.0, step / self.total_steps)
        return min(1.0, (step + 1) / (0.05 * self.total_steps)) * 0.5 * (1 + math.cos(math.pi * progress))

    def _average(self, averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
        """The moving average, whose first steps forget faster."""
        number = float(count)
        return averaged.lerp(current, 1 - min(self.recipe.averaging, (1 + number) / (10 + number)))

    def _normalised(self, pixels: Tensor) -> Tensor:
        return self.backbone.normalise(pixels.to(self.device)).contiguous(memory_format=torch.channels_last)

    def _pixels(self, lines: Sequence[CaptionLine]) -> Tensor:
        pictures = [PIL.Image.open(self.folder / line.image).convert("RGB") for line in lines]
        return stack_resized(pictures, (self.recipe.side, self.recipe.side))


def tile_means(maps: Float[Tensor, "K F h h"]) -> Float[Tensor, "K R F"]:
    """Mean features of the tiles of square pictures, without the whole picture."""
    boxes = tile_boxes()[1:].to(maps.device) * maps.shape[-1]
    cuts: Tensor = roi_align(maps, [boxes] * len(maps), TILE_CELLS, 1.0, 1, True)
    return cuts.mean((2, 3)).view(len(maps), len(boxes), -1)


def _linear(weights: Tensor, biases: Tensor) -> nn.Linear:
    layer = nn.Linear(weights.shape[1], weights.shape[0])
    layer.load_state_dict({"weight": weights, "bias": biases})
    return layer
