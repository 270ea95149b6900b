"""Training of a matcher on extracted features: resumable to the same weights, on CPU or GPU."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import Progress, evaluate
from models.matching.checkpoint import new_matcher, save_matcher
from models.matching.matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.pretrained_reader import PretrainedReader, shipped_reader
from models.text.reader import SentenceReader
from models.text.vocabulary import Vocabulary
from models.training.auxiliary_losses import AuxiliaryLosses, TrainingBatch, refuse_lone_regions
from models.training.caption_warmup import CaptionWarmup
from models.training.checkpoints import TrainingCheckpoint
from models.training.inputs import digest_of_features, digest_of_pictures
from models.training.logs import Log
from models.training.losses import batch_losses
from models.training.optim import build_optimizer, build_schedule, clip_gradients
from models.training.recipes import RECIPES, Diverged, Recipe
from models.training.word_init import init_word_embeddings
from models.training.word_map import start_maps

LAST_FILE = "last.pt"
BEST_FOLDER = "best"


@dataclass
class EarlyStopping:
    """The best validation so far and the number of validations since."""

    best_rsum: float = -1.0
    num_stale: int = 0

    def is_best(self, rsum: float) -> bool:
        """Count a validation; whether it is better than all before."""
        if rsum > self.best_rsum:
            self.best_rsum, self.num_stale = rsum, 0
            return True
        self.num_stale += 1
        return False

    def state_dict(self) -> dict[str, Any]:
        """Both numbers by their names."""
        return asdict(self)

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Restore the numbers of a `state_dict`."""
        self.best_rsum, self.num_stale = state_dict["best_rsum"], state_dict["num_stale"]


class Training:
    """One training in one folder: weights, their moving average, optimizer, schedule and the number of steps done."""

    def __init__(
        self,
        recipe: Recipe,
        train: CaptionedFeatures,
        dev: CaptionedFeatures,
        out: Path,
        device: str = "cpu",
        initial: SingleMatcher | None = None,
        word_vectors: Path | None = None,
        reader: PretrainedReader | None = None,
    ) -> None:
        """`initial` is the matcher that a recipe with `starts_from` goes on from, `word_vectors` a file of vectors,
        `reader` what a recipe with pretrained text reads sentences by (the shipped one where it is None).

        ValueError where the recipe wants another start or other regions, or the vectors do not fit it.
        """
        refuse_lone_regions(recipe, train)
        self.recipe, self.data, self.out = recipe, train, out
        self.dev = dev.first(recipe.validate_images)
        torch.manual_seed(recipe.seed)
        if recipe.text == "pretrained":
            reader = reader or shipped_reader(device)
        matcher = initial_matcher(recipe, train, initial, reader)
        self.auxiliary = AuxiliaryLosses(recipe, train, reader)
        self.caption_warmup: CaptionWarmup | None = None
        if recipe.warmup_captions and isinstance(matcher.reader, PretrainedReader):
            self.caption_warmup = CaptionWarmup(recipe, train, matcher.reader)
        self.num_words_found = init_words(recipe, matcher, word_vectors)
        self.matcher = matcher.to(device)
        self.average = AveragedModel(self.matcher, multi_avg_fn=get_ema_multi_avg_fn(recipe.averaging))  # type: ignore[no-untyped-call]
        self.optimizer = build_optimizer(recipe, self.matcher)
        self.steps_per_epoch = sum(1 for _ in train.batches(recipe.batch, 0))
        self.total_steps = recipe.total_steps(self.steps_per_epoch)
        self.schedule = build_schedule(recipe, self.optimizer, self.steps_per_epoch)
        self.early_stopping = EarlyStopping()
        self.step = 0
        self.checkpoint = TrainingCheckpoint(
            out / LAST_FILE,
            recipe,
            parts={
                "matcher": self.matcher,
                "average": self.average,
                "optimizer": self.optimizer,
                "schedule": self.schedule,
                "early_stopping": self.early_stopping,
            },
            learns_from={
                "captions or word vectors": digest_of_words(self.matcher.reader, train),
                "features": train.extractor_digest,
                "captioned pictures": digest_of_pictures(train.captions, train.rows.tolist()),
                "numbers in the features": digest_of_features(train),
                # By which the best is chosen, and the training ends: a rsum of others compares with none.
                "dev pictures": digest_of_pictures(self.dev.captions, self.dev.rows.tolist()),
            },
        )

    def run(self, log: Log, progress: Progress | None = None) -> SingleMatcher:
        """Train to the end of the recipe or until it no longer improves, going on where an earlier run stopped.

        `progress` is told how far each validation is.
        Returns the last average; the best one so far is in `out`/best. ValueError where `out` holds another training
        or a loss is not finite.
        """
        self.resume()
        if self.is_finished:
            return self.averaged_matcher()
        self._remember_states()
        if self.step == 0 and self.num_words_found:
            words = {"words": len(self.matcher.vocabulary), "found": self.num_words_found}
            log({"step": 0, "steps": self.total_steps, **words})
        for pictures, sentences in self._batches_from(self.step):
            if self.early_stopping.num_stale >= self.recipe.patience:
                break
            losses = self._train_step(pictures, sentences)
            log({"step": self.step, "steps": self.total_steps, **losses})
            if self._is_validated():
                self._validate(log, progress)
            if self._is_validated() or self.step % self.recipe.save_every == 0:
                self.checkpoint.save(self.step)
        if self.early_stopping.best_rsum < 0:  # there was no step
            self._validate(log, progress)
            self.checkpoint.save(self.step)
        return self.averaged_matcher()

    def resume(self) -> None:
        """Restore what an earlier run left in `out`; ValueError where it was another training's."""
        self.out.mkdir(parents=True, exist_ok=True)
        self.step = self.checkpoint.resume() or 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do: the recipe's end was validated, or patience with it has ended."""
        ended = self.step >= self.total_steps or self.early_stopping.num_stale >= self.recipe.patience
        return ended and self.early_stopping.best_rsum >= 0

    def _remember_states(self) -> None:
        """Have the frozen encoder read every caption once, and not again in every epoch."""
        if isinstance(self.matcher.reader, PretrainedReader):
            texts = {text for data in (self.data, self.dev) for own in data.captions for text in own}
            texts.update(self.auxiliary.sentences)
            self.matcher.reader = self.averaged_matcher().reader = self.matcher.reader.remembering(sorted(texts))

    def averaged_matcher(self) -> SingleMatcher:
        """The matcher with averaged weights."""
        matcher = self.average.module
        assert isinstance(matcher, SingleMatcher)
        return matcher

    def _is_validated(self) -> bool:
        """Whether an epoch, or the training, ends with the steps done."""
        done = self.step - self.recipe.warmup_steps
        return (done > 0 and done % self.steps_per_epoch == 0) or self.step == self.total_steps

    def _batches_from(self, step: int) -> Iterator[tuple[np.ndarray, list[str]]]:
        """The batches of all steps after `step`: passes of the warm-up (cut where it ends), then epochs."""
        warmup_steps = self.recipe.warmup_steps
        passes = (self.data.batches(self.recipe.batch, self.recipe.seed + turn) for turn in count())
        warmup = chain.from_iterable(islice(passes, -(-warmup_steps // self.steps_per_epoch)))
        epochs = chain.from_iterable(islice(passes, self.recipe.epochs))
        return islice(chain(islice(warmup, warmup_steps), epochs), step, max(step, self.total_steps))

    def _why_not_finite(self, pictures: np.ndarray) -> str:
        rows = self.data.regions(pictures).vectors.flatten(1)
        bad = sorted(pictures[~rows.isfinite().all(1).numpy()].tolist())
        if bad:
            return f"the features of pictures {bad} to learn from hold numbers that are not finite"
        return "the learning_rate is too high"

    def _train_step(self, pictures: np.ndarray, sentences: list[str]) -> dict[str, float]:
        """One step on matching pairs; the losses before it."""
        self.matcher.train()
        losses = self._losses(pictures, sentences)
        self.optimizer.zero_grad()
        weights = {"pooled": self.recipe.pooled_weight, "ranking": 1.0, **self.auxiliary.weights}
        total = torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()
        if not total.isfinite():
            raise Diverged(
                f"the loss of step {self.step + 1} is {float(total.detach())}: {self._why_not_finite(pictures)}"
            )
        total.backward()  # type: ignore[no-untyped-call]
        clip_gradients(self.recipe, self.matcher)
        self.optimizer.step()
        self.schedule.step()
        self.average.update_parameters(self.matcher)
        self.step += 1
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def _losses(self, pictures: np.ndarray, sentences: list[str]) -> dict[str, Tensor]:
        device, is_warmup = self.matcher.device, self.step < self.recipe.warmup_steps
        regions = self.auxiliary.add_noise(self.data.regions(pictures)).to(device)
        batch = TrainingBatch(self.step, pictures, sentences, regions)
        if is_warmup and self.caption_warmup is not None:
            projected = self.matcher.reranker.project(regions)
            words = self.matcher.reranker.encode_texts(self.matcher.tokenize(sentences).to(device))
            pooled = self.caption_warmup.loss(self.matcher, projected, pictures, self.step)
            return {"pooled": pooled, **self.auxiliary.losses(self.matcher, batch, projected, words)}
        return batch_losses(
            self.matcher,
            regions,
            self.matcher.tokenize(sentences).to(device),
            pictures,
            self.recipe,
            is_warmup,
            others=lambda projected, words: self.auxiliary.losses(self.matcher, batch, projected, words),
        )

    def _validate(self, log: Log, progress: Progress | None = None) -> None:
        """Evaluate the averaged matcher, and keep it where it is the best so far."""
        report = evaluate(self.averaged_matcher(), self.dev, shortlists=(100,), progress=progress)
        log({"step": self.step, "steps": self.total_steps, "validation": report})
        if self.early_stopping.is_best(report["exhaustive"]["rsum"]):
            save_matcher(self.averaged_matcher(), self.out / BEST_FOLDER, matrix_bits=self.recipe.weight_bits)


def initial_matcher(
    recipe: Recipe, train: CaptionedFeatures, initial: SingleMatcher | None, reader: PretrainedReader | None = None
) -> SingleMatcher:
    """The matcher before the first step: random weights, but those of `initial` where it has them.

    ValueError where the recipe starts from another one's weights and `initial` is none or of another model, or the
    other way round.
    """
    if (recipe.starts_from is None) != (initial is None):
        raise ValueError(f"this recipe starts from {recipe.starts_from or 'random weights'}: give just that")
    if initial and recipe.starts_from in RECIPES and initial.model != RECIPES[recipe.starts_from].model:
        raise ValueError(f"this recipe starts from {recipe.starts_from}, and these are weights of {initial.name}")
    matcher = untrained_matcher(recipe, train, initial.reader if initial else reader)
    if recipe.aligned and initial is None:
        start_maps(matcher, train, principal=recipe.word_map == "principal")
    if initial:
        surplus = matcher.load_state_dict(initial.state_dict(), strict=False).unexpected_keys
        if surplus:
            raise ValueError(f"{recipe.model} has no place for {', '.join(surplus)} of {initial.name}")
    parts = [name for name, _ in matcher.reranker.named_children()]
    if unknown := sorted({part.partition(".")[0] for part in recipe.trained} - set(parts)):
        raise ValueError(f"trained: {recipe.model} has no part {', '.join(unknown)}; it has: {', '.join(parts)}")
    if recipe.grounding_weight and matcher.pooled.config.region_width != matcher.word_dim:
        raise ValueError(f"regions and words of {recipe.model} are not in one space: set grounding_weight=0")
    for name, weight in matcher.reranker.named_parameters():
        weight.requires_grad_(not recipe.trained or name.startswith(recipe.trained))
    return matcher


def init_words(recipe: Recipe, matcher: SingleMatcher, word_vectors: Path | None) -> int:
    """Start the word embeddings from a file of vectors where one is given; how many words it has.

    ValueError where a recipe with near words is given no file.
    """
    if word_vectors is not None:
        if recipe.text == "pretrained":
            raise ValueError("a recipe with pretrained text has no word vectors to start: give none")
        return init_word_embeddings(matcher, word_vectors, recipe.near)
    if recipe.near is not None and recipe.starts_from is None:
        raise ValueError("this recipe reads unknown words as near ones: give word vectors, which say what is near")
    return 0


def digest_of_words(reader: SentenceReader, train: CaptionedFeatures) -> str:
    """16 hex digits over the words in the order of their ids and the near words, or over encoder and captions."""
    if isinstance(reader, Vocabulary):
        content = json.dumps([reader.words, sorted(reader.near_words.items())])
    else:
        content = json.dumps([reader.identity, [list(texts) for texts in train.captions]])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def untrained_matcher(recipe: Recipe, train: CaptionedFeatures, reader: SentenceReader | None = None) -> SingleMatcher:
    """A matcher of a recipe's sizes with random weights, by default with the vocabulary of the training captions.

    ValueError where the recipe's text is not what the reader gives.
    """
    if reader is None:
        captions = (text for texts in train.captions for text in texts)
        reader = Vocabulary.from_captions(captions, recipe.least_count)
    encoders = EncoderConfig(
        num_words=len(reader) if isinstance(reader, Vocabulary) else 0,
        feature_dim=train.feature_dim,
        word_dim=recipe.word_dim,
        width=recipe.width,
        unit_regions=recipe.unit_vectors,
        unit_words=recipe.unit_vectors,
        feature_dropout=recipe.feature_dropout,
        word_dropout=recipe.word_dropout,
        region_dropout=recipe.region_dropout,
        text=recipe.text,
        recurrent=recipe.recurrent,
        state_dim=reader.state_dim if isinstance(reader, PretrainedReader) else EncoderConfig.state_dim,
        concept_dim=recipe.concept_dim,
        aligned=recipe.aligned,
        concept_start=recipe.concept_start,
    )
    pooled = StageOneConfig(width=recipe.width, embed_dim=recipe.embed_dim)
    matcher = new_matcher(recipe.model, encoders, pooled, reader, train.extractor_digest, options=recipe.options)
    matcher.name = recipe.name or recipe.model
    return matcher
