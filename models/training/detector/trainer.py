"""Trains the Faster R-CNN on photographs whose boxes and classes a teacher detector gives."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from models.extractors.backbones.registry import build_backbone
from models.extractors.coco_classes import COCO_CLASSES
from models.extractors.faster_rcnn import DetectorConfig, FasterRcnn, placed, save_detector
from models.training.detector.augment import View
from models.training.detector.pseudo_labels import Lesson, Teacher, look_at_all, read_lessons
from models.training.detector.recipe import DetectorRecipe, learning_rate, prefetched
from models.training.recipes import OtherRecipe

LESSONS_FILE = "lessons.jsonl"
CHECKPOINT_FILE = "checkpoint.pt"
DETECTOR_FOLDER = "detector"

Item = TypeVar("Item")


def train_detector(
    recipe: DetectorRecipe,
    *,
    photographs: Mapping[str, Path],
    backbone_file: Path,
    teacher_file: Path,
    out: Path,
    device: str = "cpu",
    threads: int = 2,
    resume: bool = True,
    tensorboard: bool = False,
) -> FasterRcnn:
    """Trains neck, proposer and heads on a frozen backbone and saves the detector to `out`/detector.

    The teacher's boxes and a checkpoint are kept in `out`; a run that was killed goes on from them.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(recipe.seed)
    out.mkdir(parents=True, exist_ok=True)
    lessons = _lessons(photographs, teacher_file, out, threads)
    detector = FasterRcnn(
        DetectorConfig(
            labels=COCO_CLASSES, backbone=recipe.backbone, side=recipe.side, surroundings=recipe.surroundings
        ),
        build_backbone(recipe.backbone, backbone_file),
    )
    placed(detector, device)
    detector.backbone.requires_grad_(False)
    run = _Run(recipe, detector, out / CHECKPOINT_FILE, _writer(out) if tensorboard else None)
    if resume:
        run.resume()
    run.fit(photographs, lessons)
    detector.eval()
    save_detector(detector, out / DETECTOR_FOLDER)
    return detector


class _Run:
    """A training under way."""

    def __init__(self, recipe: DetectorRecipe, detector: FasterRcnn, checkpoint: Path, writer: Any) -> None:
        self.recipe, self.detector, self.checkpoint, self.writer = recipe, detector, checkpoint, writer
        self.step = 0
        learnt = [parameter for parameter in detector.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(learnt, recipe.learning_rate, weight_decay=recipe.weight_decay)

    def fit(self, photographs: Mapping[str, Path], lessons: Mapping[str, Lesson]) -> None:
        """Steps until the recipe is done."""
        self.detector.train()
        for views in _progress(prefetched(self.recipe, photographs, lessons, self.step), self.recipe.steps, self.step):
            losses = self.learn(views)
            self.step += 1
            if self.writer:
                for name, loss in losses.items():
                    self.writer.add_scalar(name, loss, self.step)
            if self.step % self.recipe.save_every == 0 or self.step == self.recipe.steps:
                self.save()
                print(self.step, {name: round(loss, 3) for name, loss in losses.items()}, flush=True)

    def learn(self, views: list[View]) -> dict[str, float]:
        """One step; the losses before it."""
        torch.manual_seed(self.recipe.seed * 1_000_003 + self.step)  # torchvision samples boxes at random
        device = next(self.detector.parameters()).device
        pixels = torch.stack([view.pixels for view in views]).to(device)
        targets = [{name: part.to(device) for name, part in view.target.items()} for view in views]
        losses = self.detector.losses(pixels, targets)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, self.step)
        self.optimizer.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.detector.parameters(), self.recipe.clip)
        self.optimizer.step()
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def save(self) -> None:
        """Replaces the checkpoint whole: a kill leaves the old one or the new one."""
        state = {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "detector": self.detector.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)

    def resume(self) -> None:
        """Goes on from the checkpoint if there is one; OtherRecipe if another recipe made it."""
        if not self.checkpoint.exists():
            return
        state = torch.load(self.checkpoint, weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise OtherRecipe(f"{self.checkpoint} belongs to another recipe: {state['recipe']}")
        self.step = state["step"]
        self.detector.load_state_dict(state["detector"])
        self.optimizer.load_state_dict(state["optimizer"])


def _lessons(photographs: Mapping[str, Path], teacher_file: Path, out: Path, threads: int) -> dict[str, Lesson]:
    """What the teacher sees in each photograph, from the cache where it has looked before."""
    cache = out / LESSONS_FILE
    known = read_lessons(cache) if cache.exists() else {}
    if photographs.keys() - known.keys():
        teacher = Teacher(teacher_file, threads)
        for _ in _progress(look_at_all(teacher, photographs, cache), len(photographs), 0):
            pass
        known = read_lessons(cache)
    return {name: known[name] for name in photographs}


def _progress(items: Iterable[Item], total: int, done: int) -> Iterator[Item]:
    from rich.progress import track  # noqa: PLC0415  # only trainings show a bar

    yield from track(items, description="", total=total, completed=done)


def _writer(out: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  # in the training extra

    return SummaryWriter(out / "tensorboard")
