"""Tunes a backbone on captioned photographs with the matching loss itself (Faghri et al. 2018, VSE++: "fine-tuned").

A picture is described by its whole and by overlapping tiles of it, cut from the last map as a detector cuts its
regions. Only statistics of batch norm stay as they are; at the end it is folded away.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torchvision.ops import roi_align

from models.batches import Regions, tiles
from models.datasets.captioned_features import CaptionedFeatures, CaptionLine
from models.evaluation.evaluate import evaluate
from models.extractors.backbones.base import Backbone, folded, read_layers
from models.extractors.backbones.registry import architecture
from models.extractors.config import fingerprint
from models.extractors.resize import stacked
from models.matching.matcher import SingleMatcher
from models.training.backbone.recipe import Batch, TuningRecipe, batches, steps_an_epoch
from models.training.logs import Log
from models.training.objective import batch_losses
from models.training.recipes import RECIPES
from models.training.trainer import fresh_matcher

CELLS = 4  # of a region's feature, as the detector has them
TILINGS = (1, 2, 3)  # tiles a side
TILE_OVERLAP = 0.3
CHECKPOINT_FILE = "checkpoint.pt"
BACKBONE_FILE = "backbone.safetensors"
VALIDATED = 500  # photographs
AT_ONCE = 32  # photographs described in one pass without gradients


def tile_boxes() -> Float[Tensor, "R 4"]:
    """The picture and its tiles as fractions of its sides, neighbours overlapping by TILE_OVERLAP of their width."""
    boxes = []
    for count in TILINGS:
        width = 1 / (count - (count - 1) * TILE_OVERLAP)
        starts = [place * width * (1 - TILE_OVERLAP) for place in range(count)]
        boxes += [[x, y, x + width, y + width] for y in starts for x in starts]
    return torch.tensor(boxes)


def tile_regions(maps: Float[Tensor, "K F h h"]) -> Regions:
    """Mean features of the tiles of square pictures, of which `maps` are the last maps."""
    boxes = tile_boxes().to(maps.device) * maps.shape[-1]
    cuts: Tensor = roi_align(maps, [boxes] * len(maps), CELLS, 1.0, 2, True)
    vectors = cuts.mean((2, 3)).view(len(maps), len(boxes), -1)
    return Regions(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool, device=maps.device))


class Tuning:
    """A backbone, the matching model that it is tuned with, and how far they are."""

    def __init__(
        self,
        recipe: TuningRecipe,
        folder: Path,
        train: Sequence[CaptionLine],
        dev: Sequence[CaptionLine],
        backbone_file: Path,
        out: Path,
        device: str = "cpu",
        initial: Path | None = None,
    ) -> None:
        """`initial` is the folder of an earlier tuning, from whose end this one begins."""
        self.recipe, self.folder, self.train, self.dev, self.out = recipe, folder, train, dev[:VALIDATED], out
        self.initial = initial
        torch.manual_seed(recipe.seed)
        self.architecture = architecture(recipe.backbone)
        layers = read_layers(self.architecture, backbone_file).to(device)
        self.backbone = Backbone(self.architecture, layers.to(memory_format=torch.channels_last))  # type: ignore[call-overload]
        self.matching = replace(RECIPES[recipe.matching], batch=recipe.batch)
        captioned = self._described(train[:1])
        self.matcher: SingleMatcher = fresh_matcher(
            self.matching, replace(captioned, captions=[line.captions for line in train])
        ).to(device)
        parameters = [*self.matcher.parameters(), *self.backbone.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, recipe.rate, weight_decay=recipe.weight_decay)
        self.total = recipe.epochs * steps_an_epoch(recipe, train)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, recipe.rate, total_steps=self.total + 1, pct_start=max(1 / 7, 2 / (self.total + 1))
        )
        self.step = 0

    def run(self, log: Log) -> Backbone:
        """Tune to the end of the recipe; the backbone, folded, also as a file in `out`."""
        self.out.mkdir(parents=True, exist_ok=True)
        if not self.resume():
            self._begin(log)
            self.save()
        for batch in batches(self.recipe, self.folder, self.train, self.step):
            log({"step": self.step + 1, "steps": self.total, **self._learn(batch)})
            self.step += 1
            if self.step % steps_an_epoch(self.recipe, self.train) == 0:
                log({"step": self.step, "steps": self.total, "validation": self.validate()})
            if self.step % self.recipe.save_every == 0 or self.step == self.total:
                self.save()
        tuned = Backbone(self.architecture, folded(self.backbone.features))
        tuned.save(self.out / BACKBONE_FILE)
        return tuned

    def validate(self) -> dict[str, Any]:
        """Recalls of the matching model on the first photographs of dev, as tiles."""
        return evaluate(self.matcher, self._described(self.dev), shortlists=())

    def _learn(self, batch: Batch) -> dict[str, float]:
        self.matcher.train()
        device = self.matcher.device
        pixels = self.backbone.normalised(batch.pixels.to(device)).contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            early = self.backbone.features[: self.recipe.frozen_layers](pixels)
        regions = tile_regions(self.backbone.features[self.recipe.frozen_layers :](early))
        tokens = self.matcher.tokenize(batch.sentences).to(device)
        losses = batch_losses(self.matcher, regions, tokens, batch.rows, self.matching, warming=False)
        self._descend(losses)
        self.schedule.step()
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def _descend(self, losses: dict[str, Tensor]) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        for part in (self.matcher, self.backbone):
            nn.utils.clip_grad_norm_(part.parameters(), self.recipe.clip)
        self.optimizer.step()

    def _begin(self, log: Log) -> None:
        if self.initial is None:
            self._lead()
        else:
            state = _checkpoint(self.initial)
            self.backbone.load_state_dict(state["backbone"])
            self.matcher.load_state_dict(state["matcher"])
        log({"step": 0, "steps": self.total, "validation": self.validate()})

    def _lead(self) -> None:
        """The encoders learn from the backbone as it is, of whose features there is need of one copy only."""
        data = self._described(self.train)
        optimizer = torch.optim.AdamW(self.matcher.parameters(), weight_decay=self.recipe.weight_decay)
        steps = self.recipe.lead_steps
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.recipe.lead_rate, total_steps=steps + 1)
        done = 0
        while done < steps:
            for rows, sentences in data.batches(self.matching.batch, done):
                self.matcher.train()
                regions = data.regions(rows).to(self.matcher.device)
                tokens = self.matcher.tokenize(sentences).to(self.matcher.device)
                losses = batch_losses(self.matcher, regions, tokens, rows, self.matching, warming=True)
                optimizer.zero_grad()
                losses["pooled"].backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.matcher.parameters(), self.recipe.clip)
                optimizer.step()
                schedule.step()
                done += 1
                if done >= steps:
                    break

    @torch.no_grad()
    def _described(self, lines: Sequence[CaptionLine]) -> CaptionedFeatures:
        """Features of whole photographs, as the backbone is now."""
        parts = []
        for tile in tiles(len(lines), AT_ONCE):
            pixels = self._pixels(lines[tile]).to(next(self.backbone.parameters()).device)
            ready = self.backbone.normalised(pixels).contiguous(memory_format=torch.channels_last)
            parts.append(tile_regions(self.backbone.features(ready)).to("cpu"))
        regions = Regions.cat(parts)
        digest = fingerprint("tuning", asdict(self.recipe), self.backbone)
        captions = [line.captions for line in lines]
        return CaptionedFeatures.whole(regions.vectors.half().numpy(), regions.mask.numpy(), captions, digest)

    def _pixels(self, lines: Sequence[CaptionLine]) -> UInt8[Tensor, "K 3 H W"]:
        import PIL.Image  # noqa: PLC0415

        pictures = [PIL.Image.open(self.folder / line.image).convert("RGB") for line in lines]
        return stacked(pictures, (self.recipe.side, self.recipe.side))

    def save(self) -> None:
        """Replaces the checkpoint whole: a kill leaves the old one or the new one."""
        state = {name: part.state_dict() for name, part in self._parts().items()}
        state |= {"recipe": asdict(self.recipe), "step": self.step, "random": torch.get_rng_state()}
        partial = (self.out / CHECKPOINT_FILE).with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.out / CHECKPOINT_FILE)

    def resume(self) -> bool:
        """Go on from the checkpoint in `out`, if there is one; ValueError if another recipe made it."""
        if not (self.out / CHECKPOINT_FILE).is_file():
            return False
        state = _checkpoint(self.out)
        if state["recipe"] != asdict(self.recipe):
            raise ValueError(f"{self.out} holds a tuning by another recipe; choose another folder")
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.step = state["step"]
        torch.set_rng_state(state["random"])
        return True

    def _parts(self) -> dict[str, Any]:
        return {
            "backbone": self.backbone,
            "matcher": self.matcher,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
        }


def _checkpoint(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folder / CHECKPOINT_FILE, weights_only=True, map_location="cpu")
    return state
