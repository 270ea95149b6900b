"""Training of the detector, its backbone, and the backbone's head. Imports PyTorch."""

from collections.abc import Sequence
from pathlib import Path

from models.datasets.captions import CaptionedPhotographs
from models.text.bert_encoder import load_bert_encoder
from models.training.backbone.head_fitting import HeadFitting, HeadRecipe
from models.training.backbone.recipe import BackboneRecipe
from models.training.backbone.sentence_tuning import SentenceTuning, SentenceTuningRecipe
from models.training.backbone.trainer import BackboneTraining
from models.training.detector import trainer as detector_trainer
from models.training.detector.recipe import DetectorRecipe
from service.cli.out_folder import sole_writer
from service.cli.training.recipe_changes import change_recipe
from service.cli.training.run import TrainingRun, shown_training
from service.errors import user_input
from service.model_loading import device_of


def train_detector(
    run: TrainingRun, photographs: CaptionedPhotographs, backbone: Path, teachers: Sequence[Path]
) -> None:
    """Train the detector on a backbone, with labels from its teachers. UserError for unsuitable files."""
    recipe = change_recipe(DetectorRecipe(starts_from=str(run.start) if run.start else None), run.changes)
    with user_input(backbone):
        detector_trainer.untrained_detector(recipe, backbone)  # only to refuse unsuitable files early
    with user_input():
        for teacher in teachers:
            detector_trainer.open_labeler(teacher, threads=1)  # likewise
    with sole_writer(run.out):
        detector_trainer.train_detector(
            recipe,
            photographs={line.image: photographs.folder / line.image for line in photographs.train},
            backbone_file=backbone,
            teacher_file=teachers[0],
            other_teachers=teachers[1:],
            out=run.out,
            device=device_of(run.device),
        )


def tune_backbone(
    run: TrainingRun, photographs: CaptionedPhotographs, backbone: Path, sentence_encoder: Path | None
) -> None:
    """Tune the backbone for sentences, or for the vectors of the sentence encoder if its folder is given."""
    with sole_writer(run.out):
        training = _backbone_training(run, photographs, backbone, sentence_encoder)
        with shown_training(run.out, training.total_steps) as (log, _):
            training.run(log)


def _backbone_training(
    run: TrainingRun, photographs: CaptionedPhotographs, backbone: Path, sentence_encoder: Path | None
) -> BackboneTraining | SentenceTuning:
    place = device_of(run.device)
    if sentence_encoder is None:
        recipe = change_recipe(BackboneRecipe(), run.changes)
        with user_input():
            return BackboneTraining(recipe, photographs, backbone, run.out, place, run.start)
    tuning = change_recipe(SentenceTuningRecipe(), run.changes)
    with user_input():
        encoder = load_bert_encoder(sentence_encoder)
        return SentenceTuning(tuning, photographs, backbone, encoder, run.out, place, run.start)


def fit_head(
    run: TrainingRun, photographs: CaptionedPhotographs, backbone: Path, published: Path, sentence_encoder: Path
) -> None:
    """Fit the backbone's head to a sentence encoder's vectors, with the `published` backbone as the teacher. It cannot
    resume an earlier run."""
    recipe = change_recipe(HeadRecipe(), run.changes)
    with sole_writer(run.out, goes_on=False):
        with user_input():
            encoder, place = load_bert_encoder(sentence_encoder), device_of(run.device)
            fitting = HeadFitting(recipe, photographs, backbone, published, encoder, run.out, place)
        with shown_training(run.out, fitting.total_steps) as (log, _):
            fitting.run(log)
