"""Training of a matcher on extracted features: resumable to the same weights, on CPU or GPU."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import evaluate
from models.matching.checkpoint import new_matcher, save_matcher
from models.matching.matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.vocabulary import Vocabulary
from models.text.word_vectors import start_from
from models.training.logs import Log
from models.training.objective import batch_losses
from models.training.optim import clip, optimizer_for, schedule_for
from models.training.recipes import RECIPES, Recipe


@dataclass
class Progress:
    """Where a training stands; saved with the weights, so that it goes on from here."""

    step: int = 0  # batches done, the warm-up's included
    best_rsum: float = -1.0
    stale: int = 0  # validations since the best


class Training:
    """Weights, their average, optimizer and progress of one training in one folder."""

    def __init__(
        self,
        recipe: Recipe,
        train: CaptionedFeatures,
        dev: CaptionedFeatures,
        out: Path,
        device: str = "cpu",
        initial: SingleMatcher | None = None,
        word_vectors: Path | None = None,
    ) -> None:
        self.recipe, self.data, self.out = recipe, train, out
        self.dev = dev.first(recipe.validate_images)
        torch.manual_seed(recipe.seed)
        matcher = first_matcher(recipe, train, initial)
        self.found_words = found_words(recipe, matcher, word_vectors)
        self.matcher = matcher.to(device)
        self.average = AveragedModel(self.matcher, multi_avg_fn=get_ema_multi_avg_fn(recipe.averaging))  # type: ignore[no-untyped-call]
        self.optimizer = optimizer_for(recipe, self.matcher)
        self.steps_an_epoch = sum(1 for _ in train.batches(recipe.batch, 0))
        self.total_steps = recipe.warmup_steps + recipe.epochs * self.steps_an_epoch
        self.schedule = schedule_for(recipe, self.optimizer, self.steps_an_epoch)
        self.progress = Progress()

    def run(self, log: Log) -> SingleMatcher:
        """Train to the end of the recipe or until it no longer improves; the best average so far is in `out`/best."""
        self.resume()
        if self.progress.step == 0 and self.found_words:
            log(
                {"step": 0, "steps": self.total_steps, "words": len(self.matcher.vocabulary), "found": self.found_words}
            )
        for rows, sentences in self._batches_from(self.progress.step):
            if self.progress.stale >= self.recipe.patience:
                break
            losses = self._step(rows, sentences)
            log({"step": self.progress.step, "steps": self.total_steps, **losses})
            if self._epoch_ends():
                self._validate(log)
            if self._epoch_ends() or self.progress.step % self.recipe.save_every == 0:
                self.save()
        if self.progress.best_rsum < 0:  # no epoch has ended
            self._validate(log)
            self.save()
        return self.averaged()

    def averaged(self) -> SingleMatcher:
        """The matcher with averaged weights."""
        matcher = self.average.module
        assert isinstance(matcher, SingleMatcher)
        return matcher

    def _epoch_ends(self) -> bool:
        done = self.progress.step - self.recipe.warmup_steps
        return done > 0 and done % self.steps_an_epoch == 0

    def _batches_from(self, step: int) -> Iterator[tuple[np.ndarray, list[str]]]:
        """The batches of all steps after `step`: passes of the warm-up (cut where it ends), then epochs."""
        warm = self.recipe.warmup_steps
        passes = (self.data.batches(self.recipe.batch, self.recipe.seed + turn) for turn in count())
        warming = chain.from_iterable(islice(passes, -(-warm // self.steps_an_epoch)))
        epochs = chain.from_iterable(islice(passes, self.recipe.epochs))
        return islice(chain(islice(warming, warm), epochs), step, None)

    def _step(self, rows: np.ndarray, sentences: list[str]) -> dict[str, float]:
        self.matcher.train()
        device = self.matcher.device
        regions, tokens = self.data.regions(rows).to(device), self.matcher.tokenize(sentences).to(device)
        warming = self.progress.step < self.recipe.warmup_steps
        losses = batch_losses(self.matcher, regions, tokens, rows, self.recipe, warming)
        self.optimizer.zero_grad()
        total = losses["pooled"] * self.recipe.pooled_weight
        if "ranking" in losses:
            total = total + losses["ranking"]
        if not total.isfinite():
            raise ValueError(
                f"the loss of step {self.progress.step + 1} is {float(total.detach())}: the learning_rate is too"
                f" high, or features hold numbers that are not finite, among pictures {sorted(rows.tolist())}"
            )
        total.backward()  # type: ignore[no-untyped-call]
        clip(self.recipe, self.matcher)
        self.optimizer.step()
        self.schedule.step()
        self.average.update_parameters(self.matcher)
        self.progress.step += 1
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def _validate(self, log: Log) -> None:
        report = evaluate(self.averaged(), self.dev, shortlists=(100,))
        rsum = report["exhaustive"]["rsum"]
        log({"step": self.progress.step, "steps": self.total_steps, "validation": report})
        if rsum > self.progress.best_rsum:
            self.progress.best_rsum, self.progress.stale = rsum, 0
            save_matcher(self.averaged(), self.out / "best")
        else:
            self.progress.stale += 1

    def _parts(self) -> dict[str, Any]:
        """All that has a state of its own."""
        return {
            "matcher": self.matcher,
            "average": self.average,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
        }

    def save(self) -> None:
        """Everything that the rest of the training depends on, replaced as one file."""
        state = {name: part.state_dict() for name, part in self._parts().items()}
        state |= {"recipe": asdict(self.recipe), "progress": asdict(self.progress)}
        state["vocabulary"] = fingerprint(self.matcher.vocabulary)
        state["features"] = self.data.extractor_digest
        state |= {"random": torch.get_rng_state(), "gpu_random": torch.cuda.get_rng_state_all()}
        temporary = self.out / "last.pt.partial"
        torch.save(state, temporary)
        temporary.replace(self.out / "last.pt")

    def resume(self) -> None:
        """Go on from `out` where an earlier run of the same recipe left it; ValueError for another one's."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / "last.pt"
        if not path.is_file():
            return
        if not is_zipfile(path):  # whose directory is at its end
            raise ValueError(f"{path} is damaged: move it away to begin anew, {self.out / 'best'} stays")
        state = torch.load(path, weights_only=True, map_location="cpu")
        if Recipe(**state["recipe"]) != self.recipe:
            raise ValueError(f"{self.out} holds a training of another recipe; choose another folder")
        if state.get("vocabulary", fingerprint(self.matcher.vocabulary)) != fingerprint(self.matcher.vocabulary):
            raise ValueError(f"{self.out} was begun with other captions or word vectors; choose another folder")
        if state.get("features", self.data.extractor_digest) != self.data.extractor_digest:
            raise ValueError(f"{self.out} was begun on other features, of {state['features']}; choose another folder")
        self.progress = Progress(**state["progress"])
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"])
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["gpu_random"])


def first_matcher(recipe: Recipe, train: CaptionedFeatures, initial: SingleMatcher | None) -> SingleMatcher:
    """What a training starts with: random weights, or those of the recipe that it goes on from where it has them.

    ValueError where that other recipe's weights are asked for and not given, or do not belong here.
    """
    if (recipe.starts_from is None) != (initial is None):
        raise ValueError(f"this recipe starts from {recipe.starts_from or 'random weights'}: give just that")
    if initial and recipe.starts_from in RECIPES and initial.name != RECIPES[recipe.starts_from].model:
        raise ValueError(f"this recipe starts from {recipe.starts_from}, and these are weights of {initial.name}")
    matcher = fresh_matcher(recipe, train, initial.vocabulary if initial else None)
    if initial:
        surplus = matcher.load_state_dict(initial.state_dict(), strict=False).unexpected_keys
        if surplus:
            raise ValueError(f"{recipe.model} has no place for {', '.join(surplus)} of {initial.name}")
    for name, weight in matcher.reranker.named_parameters():
        weight.requires_grad_(not recipe.trained or name.startswith(recipe.trained))
    return matcher


def found_words(recipe: Recipe, matcher: SingleMatcher, word_vectors: Path | None) -> int:
    """Start the words from a file's vectors where one is given; how many of them it has."""
    if word_vectors is not None:
        return start_from(matcher, word_vectors, recipe.near)
    if recipe.near is not None and recipe.starts_from is None:
        raise ValueError("this recipe reads unknown words as near ones: give word vectors, which say what is near")
    return 0


def fingerprint(vocabulary: Vocabulary) -> str:
    """A digest of words, ids and what is read as what."""
    told = json.dumps([vocabulary.words, sorted(vocabulary.near.items())])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def fresh_matcher(recipe: Recipe, train: CaptionedFeatures, vocabulary: Vocabulary | None = None) -> SingleMatcher:
    """Random weights of a recipe's sizes, by default with the vocabulary of the training captions."""
    captions = (text for texts in train.captions for text in texts)
    vocabulary = vocabulary or Vocabulary.from_captions(captions, recipe.least_count)
    encoders = EncoderConfig(
        num_words=len(vocabulary),
        feature_dim=train.feature_dim,
        word_dim=recipe.word_dim,
        width=recipe.width,
        unit_regions=recipe.unit_vectors,
        unit_words=recipe.unit_vectors,
        feature_dropout=recipe.feature_dropout,
        word_dropout=recipe.word_dropout,
        region_dropout=recipe.region_dropout,
    )
    pooled = StageOneConfig(width=recipe.width, embed_dim=recipe.embed_dim)
    return new_matcher(recipe.model, encoders, pooled, vocabulary, train.extractor_digest, options=recipe.options)
