"""Training of the Faster R-CNN on photographs whose boxes and classes come from another detector (pseudo-labels)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from models.extractors.backbones.registry import build_backbone
from models.extractors.coco_classes import COCO_CLASSES
from models.extractors.faster_rcnn.config import DetectorConfig
from models.extractors.faster_rcnn.extractor import FasterRcnn, detector_to_device, load_detector, save_detector
from models.training.checkpoints import CHECKPOINT_FILE, TrainingCheckpoint
from models.training.detector.augment import TrainingPicture
from models.training.detector.pseudo_labels import (
    JointLabeler,
    Labeler,
    PseudoLabeler,
    PseudoLabels,
    begin_cache,
    label_photographs,
    read_pseudo_labels,
)
from models.training.detector.recipe import DetectorBatches, DetectorRecipe, learning_rate_at
from models.training.detector.ssd_teacher import SsdLabeler
from models.training.finite_loss import clip_finite, finite_sum
from models.training.inputs import DIGITS, digest_of_file, digest_of_photographs
from models.training.stopping import StopSignals

PSEUDO_LABELS_FILE = "lessons.jsonl"
DETECTOR_FOLDER = "detector"

Item = TypeVar("Item")


def train_detector(
    recipe: DetectorRecipe,
    *,
    photographs: Mapping[str, Path],
    backbone_file: Path,
    teacher_file: Path,
    other_teachers: Sequence[Path] = (),
    out: Path,
    device: str = "cpu",
    threads: int = 2,
) -> FasterRcnn:
    """Train neck, proposals and heads on a frozen backbone and save the detector to `out`/detector.

    `teacher_file` is the detector that labels the photographs (name -> file): YOLOX (.onnx) or SSD (.pb); labels of
    `other_teachers` are merged with its labels. `out` also keeps the labels and a checkpoint, from which a killed run
    resumes. Raises ValueError if `out` was begun with another recipe, or the recipe starts from another layout.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(recipe.seed)
    out.mkdir(parents=True, exist_ok=True)
    teacher_files = [teacher_file, *other_teachers]
    batches = DetectorBatches(recipe, photographs, _pseudo_labels(photographs, teacher_files, out, threads))
    learns_from = {
        "photographs": hashlib.sha256("\0".join(sorted(photographs)).encode()).hexdigest()[:DIGITS],
        "contents of photographs": digest_of_photographs([file for _, file in sorted(photographs.items())]),
        "backbone": digest_of_file(backbone_file),
        "teachers": " ".join(map(digest_of_file, teacher_files)),
    }
    detector = untrained_detector(recipe, backbone_file)
    detector_to_device(detector, device)
    detector.backbone.requires_grad_(False)
    _DetectorTraining(recipe, detector, out / CHECKPOINT_FILE, learns_from).run(batches)
    detector.eval()
    save_detector(detector, out / DETECTOR_FOLDER)
    return detector


def untrained_detector(recipe: DetectorRecipe, backbone_file: Path) -> FasterRcnn:
    """The detector before its first step, on the backbone whose weights are in a file.

    Raises ValueError if the recipe starts from a detector of another layout.
    """
    config = DetectorConfig(
        labels=COCO_CLASSES, backbone=recipe.backbone, side=recipe.side, surroundings=recipe.surroundings
    )
    detector = FasterRcnn(config, build_backbone(recipe.backbone, backbone_file))
    if recipe.starts_from is not None:
        _start_from(detector, Path(recipe.starts_from))
    return detector


def _start_from(detector: FasterRcnn, folder: Path) -> None:
    """Load the neck, proposals and heads of the detector in `folder`."""
    start = load_detector(folder)
    for name in ("neck", "proposer", "heads"):
        try:
            getattr(detector, name).load_state_dict(getattr(start, name).state_dict())
        except RuntimeError as fault:
            raise ValueError(f"the detector in {folder} has another layout: {fault}") from None


def open_labeler(file: Path, threads: int) -> Labeler:
    """The labelling detector in a file: YOLOX (.onnx) or SSD (.pb). Raises ValueError for other files."""
    match file.suffix:
        case ".onnx":
            return PseudoLabeler(file, threads)
        case ".pb":
            return SsdLabeler(file, threads)
    raise ValueError(f"{file} is no teacher: YOLOX is a file .onnx, SSD-MobileNetV2 a file .pb with its .pbtxt beside")


class _DetectorTraining:
    """A detector, its optimizer and the number of steps done."""

    def __init__(
        self, recipe: DetectorRecipe, detector: FasterRcnn, checkpoint: Path, learns_from: Mapping[str, str]
    ) -> None:
        self.recipe, self.detector = recipe, detector
        self.step = 0
        trained = [parameter for parameter in detector.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, recipe.learning_rate, weight_decay=recipe.weight_decay)
        self.checkpoint = TrainingCheckpoint(
            checkpoint, recipe, {"detector": detector, "optimizer": self.optimizer}, learns_from
        )

    def run(self, batches: DetectorBatches) -> None:
        """Train from the checkpoint, if there is one, to the end of the recipe, or until a signal raises Stopped."""
        self.step = self.checkpoint.resume() or 0
        self.detector.train()
        with StopSignals() as signals:
            for pictures in _with_progress_bar(batches.after(self.step), self.recipe.steps, self.step):
                losses = self._train_step(pictures)
                self.step += 1
                if self.step % self.recipe.save_every == 0 or self.step == self.recipe.steps or signals.received:
                    self.checkpoint.save(self.step)
                    print(self.step, {name: round(loss, 3) for name, loss in losses.items()}, flush=True)
                signals.check()

    def _train_step(self, pictures: list[TrainingPicture]) -> dict[str, float]:
        """Make one step, and return the losses before it."""
        torch.manual_seed(self.recipe.seed * 1_000_003 + self.step)  # torchvision samples boxes at random
        device = next(self.detector.parameters()).device
        pixels = torch.stack([picture.pixels for picture in pictures]).to(device)
        targets = [{name: part.to(device) for name, part in picture.target.items()} for picture in pictures]
        losses = self.detector.losses(pixels, targets)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(self.recipe, self.step)
        self.optimizer.zero_grad(set_to_none=True)
        finite_sum(losses).backward()  # type: ignore[no-untyped-call]
        clip_finite(self.detector.parameters(), self.recipe.clip)
        self.optimizer.step()
        return {name: float(loss.detach()) for name, loss in losses.items()}


def _pseudo_labels(
    photographs: Mapping[str, Path], teacher_files: Sequence[Path], out: Path, threads: int
) -> dict[str, PseudoLabels]:
    """The labels of every photograph, from the cache in `out` if they are there.

    Raises UnusableCheckpoint if the cache is of other teachers.
    """
    cache = out / PSEUDO_LABELS_FILE
    begin_cache(cache, list(map(digest_of_file, teacher_files)))
    known = read_pseudo_labels(cache)
    if photographs.keys() - known.keys():
        labeler = JointLabeler([open_labeler(file, threads) for file in teacher_files])
        for _ in _with_progress_bar(label_photographs(labeler, photographs, cache), len(photographs), 0):
            pass
        known = read_pseudo_labels(cache)
    return {name: known[name] for name in photographs}


def _with_progress_bar(items: Iterable[Item], total: int, done: int) -> Iterator[Item]:
    from rich.progress import track  # noqa: PLC0415  # only trainings show a bar

    yield from track(items, description="", total=total, completed=done)
