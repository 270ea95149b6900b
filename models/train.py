"""Training of a matcher on extracted features: resumable to the same weights, on CPU or GPU."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from models.checkpoint import new_matcher, save_matcher
from models.dataset import CaptionedFeatures
from models.encoders import EncoderConfig
from models.evaluate import evaluate
from models.losses import hardest_hinge, info_nce
from models.matcher import Matcher
from models.pooled import PooledConfig
from models.recipes import Recipe
from models.vocabulary import Vocabulary

Log = Callable[[dict[str, Any]], None]


@dataclass
class Progress:
    """Where a training stands; saved with the weights, so that it goes on from here."""

    epoch: int = 0
    step: int = 0
    best_rsum: float = -1.0
    stale: int = 0


class Training:
    """Weights, their average, optimizer and progress of one training in one folder."""

    def __init__(
        self, recipe: Recipe, train: CaptionedFeatures, dev: CaptionedFeatures, out: Path, device: str
    ) -> None:
        self.recipe, self.data, self.out = recipe, train, out
        self.dev = dev.first(recipe.validate_images)
        torch.manual_seed(recipe.seed)
        self.matcher = fresh_matcher(recipe, train).to(device)
        self.average = AveragedModel(self.matcher, multi_avg_fn=get_ema_multi_avg_fn(recipe.averaging))  # type: ignore[no-untyped-call]
        self.optimizer = torch.optim.AdamW(
            self.matcher.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        self.steps_an_epoch = sum(1 for _ in train.batches(recipe.batch, 0))
        total = recipe.warmup_steps + recipe.epochs * self.steps_an_epoch
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, recipe.learning_rate, total_steps=total + 1, pct_start=min(0.1, 100 / total)
        )
        self.progress = Progress()

    def run(self, log: Log) -> Matcher:
        """Train to the end of the recipe or until it no longer improves; the best average so far is in `out`."""
        self.resume()
        while self.progress.epoch < self.recipe.epochs and self.progress.stale < self.recipe.patience:
            self._epoch(log)
            self._validate(log)
            self.progress.epoch += 1
            self.save()
        return self.averaged()

    def averaged(self) -> Matcher:
        """The matcher with averaged weights."""
        matcher = self.average.module
        assert isinstance(matcher, Matcher)
        return matcher

    def _epoch(self, log: Log) -> None:
        self.matcher.train()
        warm = self.recipe.warmup_steps
        # The warm-up counts as part of the first epoch and sees its own shuffles.
        if self.progress.epoch == 0:
            self._steps(pooled_only=True, limit=warm, seed=self.recipe.seed + 1_000_003, log=log)
        self._steps(pooled_only=False, limit=None, seed=self.recipe.seed + self.progress.epoch, log=log)

    def _steps(self, pooled_only: bool, limit: int | None, seed: int, log: Log) -> None:
        done = 0
        while limit is None or done < limit:
            for rows, sentences in self.data.batches(self.recipe.batch, seed + done):
                loss = self._step(rows, sentences, pooled_only)
                log({"step": self.progress.step, "epoch": self.progress.epoch, **loss})
                done += 1
                if done == limit:
                    return
            if limit is None:
                return

    def _step(self, rows: Any, sentences: list[str], pooled_only: bool) -> dict[str, float]:
        regions = self.data.regions(rows).to(self.matcher.device)
        tokens = self.matcher.tokenize(sentences).to(self.matcher.device)
        losses = batch_losses(self.matcher, regions, tokens, rows, self.recipe, pooled_only)
        self.optimizer.zero_grad()
        total = losses["pooled"] * self.recipe.pooled_weight + losses.get("hinge", torch.zeros(()))
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.matcher.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.schedule.step()
        self.average.update_parameters(self.matcher)
        self.progress.step += 1
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def _validate(self, log: Log) -> None:
        report = evaluate(self.averaged(), self.dev, shortlists=(100,))
        rsum = report["exhaustive"]["rsum"]
        log({"step": self.progress.step, "epoch": self.progress.epoch, "validation": report})
        if rsum > self.progress.best_rsum:
            self.progress.best_rsum, self.progress.stale = rsum, 0
            save_matcher(self.averaged(), self.out / "best")
        else:
            self.progress.stale += 1

    def save(self) -> None:
        """Everything that the rest of the training depends on, replaced as one file."""
        state = {
            "recipe": asdict(self.recipe),
            "progress": asdict(self.progress),
            "matcher": self.matcher.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": torch.get_rng_state(),
        }
        temporary = self.out / "last.pt.partial"
        torch.save(state, temporary)
        temporary.replace(self.out / "last.pt")

    def resume(self) -> None:
        """Go on from `out` where an earlier run of the same recipe left it."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / "last.pt"
        if not path.is_file():
            return
        state = torch.load(path, weights_only=True, map_location=self.matcher.device)
        if state["recipe"] != asdict(self.recipe):
            raise ValueError(f"{self.out} holds a training of another recipe; choose another folder")
        self.progress = Progress(**state["progress"])
        self.matcher.load_state_dict(state["matcher"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["random"].cpu())


def fresh_matcher(recipe: Recipe, train: CaptionedFeatures) -> Matcher:
    """Random weights of a recipe's sizes, and the vocabulary of the training captions."""
    vocabulary = Vocabulary.from_captions((text for texts in train.captions for text in texts), recipe.least_count)
    encoders = EncoderConfig(
        num_words=len(vocabulary),
        feature_dim=train.feature_dim,
        word_dim=recipe.word_dim,
        width=recipe.width,
        feature_dropout=recipe.feature_dropout,
        word_dropout=recipe.word_dropout,
        region_dropout=recipe.region_dropout,
    )
    pooled = PooledConfig(width=recipe.width, embed_dim=recipe.embed_dim)
    return new_matcher(recipe.model, encoders, pooled, vocabulary, train.extractor_digest)


def batch_losses(
    matcher: Matcher, regions: Any, tokens: Any, rows: Any, recipe: Recipe, pooled_only: bool
) -> dict[str, Float[Tensor, ""]]:
    """InfoNCE of the stage-one embeddings and, unless `pooled_only`, the reranker's hinge, a mean over the batch."""
    projected = matcher.reranker.project(regions)
    words = matcher.reranker.encode_texts(tokens)
    image_rows = torch.as_tensor(rows, device=matcher.device)
    same = image_rows[:, None] == image_rows
    stage_one = matcher.pooled.embed_texts(words) @ matcher.pooled.embed_images(projected).T
    losses = {"pooled": info_nce(stage_one, same, recipe.temperature)}
    if not pooled_only:
        images = matcher.reranker.precompute(projected)
        losses["hinge"] = hardest_hinge(matcher.reranker, images, words, same, recipe.margin) / len(rows)
    return losses
