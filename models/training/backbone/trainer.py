"""Fine-tuning of a backbone on captioned photographs with the matching loss (Faghri et al. 2018, VSE++).

A picture is described as a whole and by overlapping tiles, which are cropped from the last map like a detector's
regions. Batch norm keeps its statistics; at the end it is folded into the convolutions.
"""

import copy
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from models.batches import Regions
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import CaptionedPhotographs, CaptionLine
from models.evaluation.evaluate import evaluate
from models.extractors.backbones.base import BACKBONE_FILE, Backbone, fold_batch_norm, read_layers
from models.extractors.backbones.registry import find_architecture
from models.extractors.config import digest_of_extractor
from models.matching.single_matcher import SingleMatcher
from models.training.backbone.photograph_batches import PhotographBatch, PhotographBatches
from models.training.backbone.recipe import BackboneRecipe
from models.training.backbone.tiles import tile_regions
from models.training.checkpoints import CHECKPOINT_FILE, TrainingCheckpoint, read_checkpoint
from models.training.finite_loss import clip_finite, finite_sum
from models.training.inputs import digest_of_file, digests_of_captioned
from models.training.logs import Log
from models.training.losses import batch_losses
from models.training.recipes import RECIPES
from models.training.start import untrained_matcher
from models.training.stopping import StopSignals


class BackboneTraining:
    """One fine-tuning in one folder: a backbone, its matcher, optimizer, schedule and steps done."""

    def __init__(
        self,
        recipe: BackboneRecipe,
        photographs: CaptionedPhotographs,
        backbone_file: Path,
        out: Path,
        device: str = "cpu",
        initial: Path | None = None,
    ) -> None:
        """`initial` is the folder of an earlier fine-tuning whose final weights are this one's first."""
        self.recipe, self.photographs, self.out, self.initial = recipe, photographs, out, initial
        self.batches = PhotographBatches(recipe, photographs)
        torch.manual_seed(recipe.seed)
        self.architecture = find_architecture(recipe.backbone)
        layers = read_layers(self.architecture, backbone_file).to(device)
        self.backbone = Backbone(self.architecture, layers.to(memory_format=torch.channels_last))  # type: ignore[call-overload]
        self.matching = replace(RECIPES[recipe.matching], batch=recipe.batch)
        captioned = self._tile_features(photographs.train[:1])
        self.matcher: SingleMatcher = untrained_matcher(
            self.matching, replace(captioned, captions=[line.captions for line in photographs.train])
        ).to(device)
        parameters = [*self.matcher.parameters(), *self.backbone.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, recipe.rate, weight_decay=recipe.weight_decay)
        self.total_steps = self.batches.total_steps
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer,
            recipe.rate,
            total_steps=self.total_steps + 1,
            pct_start=max(1 / 7, 2 / (self.total_steps + 1)),
        )
        self.step = 0
        self.checkpoint = TrainingCheckpoint(
            out / CHECKPOINT_FILE,
            recipe,
            parts={
                "backbone": self.backbone,
                "matcher": self.matcher,
                "optimizer": self.optimizer,
                "schedule": self.schedule,
            },
            learns_from={
                **digests_of_captioned(photographs),
                "backbone": digest_of_file(backbone_file),
                "weights to start from": digest_of_file(initial / CHECKPOINT_FILE) if initial else "none",
            },
        )

    def run(self, log: Log) -> Backbone:
        """Train to the end of the recipe, resuming an earlier run.

        Returns the backbone with batch norm folded, which is also saved in `out`. Raises ValueError if `out` was begun
        with another recipe, and Stopped after Ctrl-C or SIGTERM, once the step is done and saved.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        done = self.checkpoint.resume()
        if done is None:
            self._start(log)
            self.checkpoint.save(0)
        self.step = done or 0
        with StopSignals() as signals:
            for batch in self.batches.after(self.step):
                log({"step": self.step + 1, "steps": self.total_steps, **self._train_step(batch)})
                self.step += 1
                if self.step % self.batches.steps_per_epoch == 0:
                    log({"step": self.step, "steps": self.total_steps, "validation": self.validate()})
                if self.step % self.recipe.save_every == 0 or self.step == self.total_steps or signals.received:
                    self.checkpoint.save(self.step)
                signals.check()
        tuned = Backbone(self.architecture, fold_batch_norm(copy.deepcopy(self.backbone.features)))
        tuned.save(self.out / BACKBONE_FILE)
        return tuned

    def validate(self) -> dict[str, Any]:
        """The report of `evaluate` on the first photographs of dev, whose regions are tiles."""
        return evaluate(self.matcher, self._tile_features(self.batches.validated), shortlists=()).report

    def _train_step(self, batch: PhotographBatch) -> dict[str, float]:
        """Make one step, and return the losses before it."""
        self.matcher.train()
        device = self.matcher.device
        pixels = self._normalised(batch.pixels)
        with torch.no_grad():
            early = self.backbone.features[: self.recipe.frozen_layers](pixels)
        regions = tile_regions(self.backbone.features[self.recipe.frozen_layers :](early))
        tokens = self.matcher.tokenize(batch.sentences).to(device)
        losses = batch_losses(self.matcher, regions, tokens, batch.numbers, self.matching, is_warmup=False)
        self.optimizer.zero_grad(set_to_none=True)
        finite_sum(losses).backward()  # type: ignore[no-untyped-call]
        for part in (self.matcher, self.backbone):
            clip_finite(part.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.schedule.step()
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def _start(self, log: Log) -> None:
        """Prepare the weights before the first step: those of an earlier fine-tuning, or encoders trained alone."""
        if self.initial is None:
            self._train_encoders()
        else:
            parts = read_checkpoint(self.initial / CHECKPOINT_FILE)["parts"]
            self.backbone.load_state_dict(parts["backbone"])
            self.matcher.load_state_dict(parts["matcher"])
        log({"step": 0, "steps": self.total_steps, "validation": self.validate()})

    def _train_encoders(self) -> None:
        """Train the encoders alone on features of the unchanged backbone, which are computed once.

        Random encoders would spoil a backbone.
        """
        data = self._tile_features(self.photographs.train)
        optimizer = torch.optim.AdamW(self.matcher.parameters(), weight_decay=self.recipe.weight_decay)
        num_steps = self.recipe.lead_steps
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.recipe.lead_rate, total_steps=num_steps + 1)
        done = 0
        while done < num_steps:
            for pictures, sentences in data.batches(self.matching.batch, self.recipe.seed, done):
                self.matcher.train()
                regions = data.regions(pictures).to(self.matcher.device)
                tokens = self.matcher.tokenize(sentences).to(self.matcher.device)
                losses = batch_losses(self.matcher, regions, tokens, pictures, self.matching, is_warmup=True)
                optimizer.zero_grad()
                finite_sum({"pooled": losses["pooled"]}).backward()  # type: ignore[no-untyped-call]
                clip_finite(self.matcher.parameters(), self.recipe.clip)
                optimizer.step()
                schedule.step()
                done += 1
                if done >= num_steps:
                    break

    @torch.no_grad()
    def _tile_features(self, lines: Sequence[CaptionLine]) -> CaptionedFeatures:
        """Tile features of whole photographs, by the current backbone."""
        normalised = map(self._normalised, self.batches.unchanged(lines))
        regions = Regions.cat([tile_regions(self.backbone.features(pixels)).to("cpu") for pixels in normalised])
        digest = digest_of_extractor("tuning", asdict(self.recipe), self.backbone)
        captions = [line.captions for line in lines]
        return CaptionedFeatures.from_arrays(regions.vectors.half().numpy(), regions.mask.numpy(), captions, digest)

    def _normalised(self, pixels: UInt8[Tensor, "K 3 H W"]) -> Float[Tensor, "K 3 H W"]:
        on_device = pixels.to(next(self.backbone.parameters()).device)
        return self.backbone.normalise(on_device).contiguous(memory_format=torch.channels_last)
