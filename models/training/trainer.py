"""Training of a matcher on extracted features: resumable to the same weights, on CPU or GPU."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, count, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import Progress, evaluate
from models.matching.checkpoint import BadCheckpoint, as_stored, checked_digest, save_matcher
from models.matching.single_matcher import SingleMatcher
from models.text.pretrained_reader import PretrainedReader, shipped_reader
from models.training.auxiliary_losses import AuxiliaryLosses, TrainingBatch, refuse_few_regions
from models.training.caption_warmup import CaptionWarmup
from models.training.checkpoints import TrainingCheckpoint
from models.training.finite_loss import REASONS
from models.training.inputs import digest_of_features, digest_of_file, digest_of_pictures, digest_of_weights
from models.training.logs import Log
from models.training.losses import batch_losses, encode_regions, encode_sentences
from models.training.optim import build_optimizer, build_schedule, clip_gradients
from models.training.recipes import Diverged, Recipe
from models.training.start import digest_of_words, init_words, initial_matcher
from models.training.stopping import Stopped, StopSignals

LAST_FILE = "last.pt"
BEST_FOLDER = "best"


@dataclass
class EarlyStopping:
    """The best validation so far, the number of validations since, and the step of the last one."""

    best_rsum: float = -1.0
    num_stale: int = 0
    last_step: int | None = -1
    """None where an earlier release did not record it, and saved only what was validated."""

    def is_best(self, rsum: float, step: int) -> bool:
        """Count a validation after that step; whether it is better than all before."""
        self.last_step = step
        if rsum > self.best_rsum:
            self.best_rsum, self.num_stale = rsum, 0
            return True
        self.num_stale += 1
        return False

    def state_dict(self) -> dict[str, Any]:
        """The numbers by their names."""
        return asdict(self)

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Restore the numbers of a `state_dict`."""
        self.best_rsum, self.num_stale = state_dict["best_rsum"], state_dict["num_stale"]
        self.last_step = state_dict.get("last_step")


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
        refuse_few_regions(recipe, train)
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
        sizes = [len(pictures) for pictures, _ in train.batches(recipe.batch, 0)]
        self.steps_per_epoch, self.captions_per_epoch = len(sizes), sum(sizes)
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
                "word vectors": digest_of_file(word_vectors) if word_vectors else "none",
                "weights to start from": digest_of_weights(initial) if initial else "none",
                **self._digests_of_pictures(),
            },
            moved_end=lambda begun, step: begun.with_end_of(recipe, step, self.steps_per_epoch),
        )

    def _digests_of_pictures(self) -> dict[str, str]:
        """Kinds of input, of those that pictures are, and their digests."""
        train, dev = self.data, self.dev
        return {
            "features": train.extractor_digest,
            "captioned pictures": digest_of_pictures(train.captions, train.rows.tolist()),
            "vectors of regions": digest_of_features(train),
            # By which the best is chosen, and the training ends: a rsum of others compares with none.
            "dev pictures": digest_of_pictures(dev.captions, dev.rows.tolist()),
            "vectors of dev regions": digest_of_features(dev),
        }

    def run(self, log: Log, progress: Progress | None = None) -> SingleMatcher:
        """Train to the end of the recipe or until it no longer improves, going on where an earlier run stopped.

        `progress` is told how far each validation is. Ctrl-C and SIGTERM raise Stopped once the step is done and saved.
        Returns the last average; the best one so far is in `out`/best. ValueError where `out` holds another training
        or a loss is not finite, BadCheckpoint where the best one is damaged and the last one is another.
        """
        self.resume()
        if not self.is_finished:
            self._go_on(log, progress)
        self.mend_best()
        return self.averaged_matcher()

    def _go_on(self, log: Log, progress: Progress | None) -> None:
        self._remember_states()
        if self.step == 0 and self.num_words_found:
            words = {"words": len(self.matcher.vocabulary), "found": self.num_words_found}
            log({"step": 0, "steps": self.total_steps, **words})
        with StopSignals() as signals:
            try:
                self._make_steps(log, progress, signals)
            except Stopped:
                self.checkpoint.save(self.step)
                raise

    def _make_steps(self, log: Log, progress: Progress | None, signals: StopSignals) -> None:
        """All steps that are left, each with what follows it. Raises Stopped after a signal, in a state to be saved."""

        def report(*done: Any) -> None:
            signals.check()  # also during a validation, which may take hours
            if progress is not None:
                progress(*done)

        if self._is_validation_due():  # a signal came during it, or there is no step
            self._validate(log, report)
            self.checkpoint.save(self.step)
        for pictures, sentences in self._batches_from(self.step):
            if self.early_stopping.num_stale >= self.recipe.patience:
                break
            started = perf_counter()
            told = self._train_step(pictures, sentences)
            log({"step": self.step, "steps": self.total_steps, **told, "seconds": round(perf_counter() - started, 4)})
            signals.check()
            if self._is_validated():
                self._validate(log, report)
            if self._is_validated() or self.step % self.recipe.save_every == 0:
                self.checkpoint.save(self.step)
            signals.check()

    def resume(self) -> None:
        """Restore what an earlier run left in `out`; ValueError where it was another training's."""
        self.out.mkdir(parents=True, exist_ok=True)
        self.step = self.checkpoint.resume() or 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do: the recipe's end was validated, or patience with it has ended."""
        ended = self.step >= self.total_steps or self.early_stopping.num_stale >= self.recipe.patience
        return ended and not self._is_validation_due()

    def mend_best(self) -> bool:
        """Whether the best matcher of a finished training is damaged, or gone, and was written again.

        It is the last one where that was validated as the best; BadCheckpoint where it is another.
        """
        try:
            checked_digest(self.out / BEST_FOLDER)
        except BadCheckpoint as fault:
            if self.early_stopping.num_stale:
                raise BadCheckpoint(f"{fault}. The last weights are others than the best: train anew") from fault
            self._save_best()
            return True
        return False

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

    def _is_validation_due(self) -> bool:
        """Whether the steps done are to be validated, and were not."""
        return self._is_validated() and self.early_stopping.last_step not in (None, self.step)

    def _batches_from(self, step: int) -> Iterator[tuple[np.ndarray, list[str]]]:
        """The batches of all steps after `step`: passes of the warm-up (cut where it ends), then epochs."""
        warmup_steps = self.recipe.warmup_steps
        passes = (self.data.batches(self.recipe.batch, self.recipe.seed, turn) for turn in count())
        warmup = chain.from_iterable(islice(passes, -(-warmup_steps // self.steps_per_epoch)))
        epochs = chain.from_iterable(islice(passes, self.recipe.epochs))
        return islice(chain(islice(warmup, warmup_steps), epochs), step, max(step, self.total_steps))

    def _train_step(self, pictures: np.ndarray, sentences: list[str]) -> dict[str, float]:
        """One step on matching pairs; the losses before it, the learning rate and the norms of the gradient."""
        self.matcher.train()
        losses = self._losses(pictures, sentences)
        self.optimizer.zero_grad()
        weights = {"pooled": self.recipe.pooled_weight, "ranking": 1.0, **self.auxiliary.weights}
        total = torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()
        if not total.isfinite():
            why = self.data.not_finite(pictures) or REASONS
            raise Diverged(f"the loss of step {self.step + 1} is {float(total.detach())}: {why}")
        total.backward()  # type: ignore[no-untyped-call]
        norms = clip_gradients(self.recipe, self.matcher)
        rate = float(self.optimizer.param_groups[0]["lr"])
        self.optimizer.step()
        self.schedule.step()
        self.average.update_parameters(self.matcher)
        self.step += 1
        found = {name: float(loss.detach()) for name, loss in losses.items()}
        return {**found, "learning_rate": rate, "gradient_norm": norms.total, "reranker_gradient_norm": norms.reranker}

    def _losses(self, pictures: np.ndarray, sentences: list[str]) -> dict[str, Tensor]:
        device, is_warmup = self.matcher.device, self.step < self.recipe.warmup_steps
        regions = self.auxiliary.add_noise(self.data.regions(pictures)).to(device)
        batch = TrainingBatch(self.step, pictures, sentences, regions)
        tokens = self.matcher.tokenize(sentences).to(device)
        if is_warmup and self.caption_warmup is not None:
            projected = encode_regions(self.matcher, regions, self.recipe)
            words = encode_sentences(self.matcher, tokens, self.recipe)
            loss = self.caption_warmup.loss(self.matcher, projected, pictures, self.step)
            return {"pooled": loss, **self.auxiliary.losses(self.matcher, batch, projected, words)}
        return batch_losses(
            self.matcher,
            regions,
            tokens,
            pictures,
            self.recipe,
            is_warmup,
            others=lambda projected, words: self.auxiliary.losses(self.matcher, batch, projected, words),
        )

    def _validate(self, log: Log, progress: Progress | None = None) -> None:
        """Evaluate the averaged matcher as it would be kept, and keep it where it is the best so far."""
        kept = as_stored(self.averaged_matcher(), *self._precision)
        report = evaluate(kept, self.dev, shortlists=(100,), progress=progress).report
        is_best = self.early_stopping.is_best(report["exhaustive"]["rsum"], self.step)
        report["digest"] = self._save_best() if is_best else None
        log({"step": self.step, "steps": self.total_steps, "validation": report})

    @property
    def _precision(self) -> tuple[torch.dtype, int]:
        bits = self.recipe.weight_bits
        return torch.float32 if bits == 32 else torch.float16, bits

    def _save_best(self) -> str:
        dtype, bits = self._precision
        return save_matcher(self.averaged_matcher(), self.out / BEST_FOLDER, dtype, matrix_bits=bits)
