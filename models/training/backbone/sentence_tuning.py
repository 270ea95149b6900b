"""Fine-tuning of a backbone on captioned photographs against a frozen sentence encoder's vectors.

The losses are those of `models/training/backbone/sentence_head.py`: photographs against captions in both directions,
and the distillation of ImageNet's classes of parts of a picture. The head is fitted first, on the features of the
published backbone: tuned towards an untrained head, a backbone forgets (Kumar et al., ICLR 2022). The head's map of
sentences is then frozen: which content is visible depends on the sentences, not on the backbone. In a share of the
steps (`mixing`) parts of pictures are pasted into each other. The moving average of the weights is saved.
"""

import copy
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from models.datasets.captions import CaptionedPhotographs
from models.extractors.backbones.base import BACKBONE_FILE, HEAD_FILE, Backbone, fold_batch_norm, read_layers
from models.extractors.backbones.registry import find_architecture
from models.text.bert_encoder import BertEncoder
from models.training.backbone.cutmix import cut_mix
from models.training.backbone.half_precision import half_precision
from models.training.backbone.linear_probing import fit_maps
from models.training.backbone.photograph_batches import PhotographBatch, PhotographBatches
from models.training.backbone.recipe import SentenceRecipe
from models.training.backbone.sentence_head import (
    SentenceHead,
    class_divergence,
    linear_layer,
    matching_losses,
    whole_picture_recalls,
)
from models.training.backbone.tiles import tile_means
from models.training.caption_targets import CaptionTargets
from models.training.checkpoints import CHECKPOINT_FILE, TrainingCheckpoint, read_checkpoint
from models.training.finite_loss import clip_finite, finite_sum
from models.training.inputs import digest_of_file, digest_of_weights, digests_of_captioned
from models.training.logs import Log
from models.training.stopping import StopSignals
from models.whole_files import write_tensors


@dataclass(frozen=True, kw_only=True)
class SentenceTuningRecipe(SentenceRecipe):
    """The hyper-parameters of a fine-tuning; with the same photographs they give the same backbone."""

    epochs: int = 30
    rate: float = 3e-4
    """Learning rate of the backbone, which rises over a twentieth of the steps, then falls by half a cosine."""
    head_rate: float = 1e-3
    """Learning rate of the linear map and the temperatures."""
    clip: float = 2.0
    averaging: float = 0.998
    """Decay of the moving average of the weights."""
    lead_views: int = 2
    """Augmented views of each photograph on which the head is fitted first."""
    lead_passes: int = 16
    """Passes over the features of these views; 0: no fit first."""
    lead_rate: float = 1e-3
    """Learning rate of these passes, down by half a cosine."""
    distillation: float = 1.5
    """Weight of the third loss; with 0 the backbone may forget ImageNet's knowledge of parts of a picture."""
    frozen_layers: int = 5
    """Number of first layers that are frozen: their maps are large, and edges and colours need no tuning."""
    mixing: float = 0.0
    """Share of the steps whose pictures are mixed (CutMix)."""
    most_mixed: float = 0.5
    """The largest share of a picture's area that comes from another one."""
    save_every: int = 25


class TunedNetwork(nn.Module):
    """Backbone layers and head as one module, so that both are averaged together."""

    def __init__(self, layers: nn.Sequential, head: SentenceHead) -> None:
        super().__init__()
        self.layers, self.head = layers, head


class SentenceTuning:
    """One fine-tuning in one folder."""

    def __init__(
        self,
        recipe: SentenceTuningRecipe,
        photographs: CaptionedPhotographs,
        backbone_file: Path,
        encoder: BertEncoder,
        out: Path,
        device: str = "cpu",
        initial: Path | None = None,
    ) -> None:
        """`backbone_file` holds the published weights with their classifier; `initial` is the folder of an earlier
        fine-tuning whose final weights are this one's first."""
        self.recipe, self.photographs, self.out, self.initial = recipe, photographs, out, initial
        self.batches = PhotographBatches(recipe, photographs)
        torch.manual_seed(recipe.seed)
        self.architecture = find_architecture(recipe.backbone)
        layers = fold_batch_norm(read_layers(self.architecture, backbone_file))
        self.published = copy.deepcopy(layers).requires_grad_(False)
        classifier = linear_layer(*self.architecture.read_classifier(backbone_file))
        self.published_classifier = copy.deepcopy(classifier).requires_grad_(False)
        head = SentenceHead(classifier.in_features, encoder.config.width, recipe, classifier)
        self.network = TunedNetwork(layers, head)
        if initial is not None:
            self.network.load_state_dict(_network_of(initial, self.network))
        for part in (self.network, self.published, self.published_classifier):
            part.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.layers[: recipe.frozen_layers].requires_grad_(False)
        self.backbone = Backbone(self.architecture, self.layers)
        self.device = torch.device(device)
        self.targets = CaptionTargets(encoder, [line.captions for line in photographs.train], recipe).to(self.device)
        self.dev_vectors = encoder.embed(self.batches.validated_captions).to(self.device)
        self.averaged = AveragedModel(self.network, avg_fn=self._average)
        self.optimizer = torch.optim.AdamW(self._parameter_groups(), weight_decay=recipe.weight_decay)
        self.total_steps = self.batches.total_steps
        # A lambda, because the schedule's state would contain a copy of a bound method.
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
            learns_from={
                **digests_of_captioned(photographs),
                "backbone": digest_of_file(backbone_file),
                "sentence encoder": digest_of_weights(encoder),
                "weights to start from": digest_of_file(initial / CHECKPOINT_FILE) if initial else "none",
            },
        )

    @property
    def layers(self) -> nn.Sequential:
        """The backbone's layers in training."""
        return self.network.layers

    @property
    def head(self) -> SentenceHead:
        """The head in training."""
        return self.network.head

    @property
    def averaged_network(self) -> TunedNetwork:
        """The network with the moving average of the weights."""
        network = self.averaged.module
        assert isinstance(network, TunedNetwork)
        return network

    def run(self, log: Log) -> Backbone:
        """Train to the end of the recipe, resuming an earlier run.

        Returns the averaged backbone, which is also saved in `out` with the head. Raises UnusableCheckpoint if `out`
        was begun with another recipe, and Stopped after Ctrl-C or SIGTERM, once the step is done and saved.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        done = self.checkpoint.resume() or 0
        if done == 0 and self.initial is None and self.recipe.lead_passes:
            self._fit_head(log)
        self.head.of_sentence.requires_grad_(False)
        with StopSignals() as signals:
            for step, batch in enumerate(self.batches.after(done), done + 1):
                log({"step": step, "steps": self.total_steps, **self._train_step(batch)})
                if step % self.batches.steps_per_epoch == 0:
                    log({"step": step, "steps": self.total_steps, "validation": self.validate()})
                if step % self.recipe.save_every == 0 or step == self.total_steps or signals.received:
                    self.checkpoint.save(step)
                signals.check()
        tuned = Backbone(self.architecture, copy.deepcopy(self.averaged_network.layers))
        tuned.save(self.out / BACKBONE_FILE)
        head = self.averaged_network.head
        parts = {"project": head.map_to_sentences(), "classifier": head.classifier}
        state = {f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.state_dict().items()}
        write_tensors(self.out / HEAD_FILE, state)
        return tuned

    @torch.no_grad()
    def validate(self) -> dict[str, Any]:
        """Recalls of the averaged network on the first photographs of dev, searched by whole pictures, and the KL
        divergence of its classifier from the published one on the tiles of the first batch."""
        network = self.averaged_network.eval()
        vectors, divergence = [], 0.0
        for number, unchanged in enumerate(self.batches.unchanged(self.batches.validated)):
            pixels = self._normalised(unchanged)
            maps = network.layers(pixels)
            vectors.append(network.head.embed(maps))
            if number == 0:
                divergence = float(
                    _divergence_of_tiles(network.head, maps, self.published_classifier, self.published(pixels))
                )
        sentences = network.head.read(self.dev_vectors)
        recalls = whole_picture_recalls(torch.cat(vectors), sentences, self.batches.validated)
        return {**recalls, "divergence": divergence}

    def _fit_head(self, log: Log) -> None:
        """Fit the head on the published backbone's features of augmented views."""
        numbers, features = [], []
        views = PhotographBatches(replace(self.recipe, epochs=self.recipe.lead_views), self.photographs)
        with torch.no_grad(), half_precision(self.device):
            for batch in views.after(0):
                numbers.append(torch.from_numpy(batch.numbers).to(self.device))
                features.append(self.published(self._normalised(batch.pixels)).float().mean((2, 3)))
        fit_maps(self.head, self.targets, torch.cat(numbers), torch.cat(features), self.recipe, log)
        self.averaged.module.load_state_dict(self.network.state_dict())

    def _train_step(self, batch: PhotographBatch) -> dict[str, float]:
        """Make one step, and return the losses before it."""
        self.head.train()
        frozen = self.recipe.frozen_layers
        pixels, shown = self._mixed_pictures(batch.pixels)
        with torch.no_grad():
            early = self.layers[:frozen](self._normalised(pixels))
        maps = self.layers[frozen:](early)
        numbers = torch.from_numpy(batch.numbers).to(self.device)
        losses = matching_losses(self.head, self.targets, self.head.embed(maps), numbers, shown.to(self.device))
        if self.recipe.distillation:
            with torch.no_grad(), half_precision(self.device):
                published = self.published[frozen:](early).float()
            losses["knowledge"] = self.recipe.distillation * _divergence_of_tiles(
                self.head, maps, self.published_classifier, published
            )
        self.optimizer.zero_grad(set_to_none=True)
        finite_sum(losses).backward()  # type: ignore[no-untyped-call]
        clip_finite(self.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.schedule.step()
        self.averaged.update_parameters(self.network)
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def _mixed_pictures(self, pixels: Tensor) -> tuple[Tensor, Float[Tensor, "K K"]]:
        """The pictures of a step, perhaps mixed, and the shares of each one's area that show each photograph."""
        if self.recipe.mixing and float(torch.rand(())) < self.recipe.mixing:
            return cut_mix(pixels, self.recipe.most_mixed)
        return pixels, torch.eye(len(pixels))

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
        """The factor of the learning rates at a step."""
        progress = min(1.0, step / self.total_steps)
        return min(1.0, (step + 1) / (0.05 * self.total_steps)) * 0.5 * (1 + math.cos(math.pi * progress))

    def _average(self, averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
        """The moving average, with faster decay in the first steps."""
        number = float(count)
        return averaged.lerp(current, 1 - min(self.recipe.averaging, (1 + number) / (10 + number)))

    def _normalised(self, pixels: Tensor) -> Tensor:
        return self.backbone.normalise(pixels.to(self.device)).contiguous(memory_format=torch.channels_last)


def _network_of(folder: Path, network: TunedNetwork) -> dict[str, Tensor]:
    """The final weights of an earlier tuning; if it had no map of sentences, zeros stand for the identity."""
    name = "head.of_sentence.weight"
    weights: dict[str, Tensor] = read_checkpoint(folder / CHECKPOINT_FILE)["parts"]["network"]
    return {name: torch.zeros_like(network.state_dict()[name]), **weights}


def _divergence_of_tiles(
    head: SentenceHead, maps: Tensor, published_classifier: nn.Linear, published: Tensor
) -> Float[Tensor, ""]:
    """The divergence of the classes of pictures' tiles from the published network's."""
    tuned, reference = head.classify(tile_means(maps)), published_classifier(tile_means(published))
    return class_divergence(tuned.flatten(0, 1), reference.flatten(0, 1))
