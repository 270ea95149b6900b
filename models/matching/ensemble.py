"""Ensembles `a+b`: the mean of raw scores of models of one family, as the papers report them.

Scores of several families have several scales. Where all members are calibrated, the mean is that of the evidence that
their scores are: a point of score counts as much as it changes the model's log odds (calibration.py). That mean stands
for the mean of the members' probabilities, but goes on telling apart what all of them are sure of, and knows nothing of
the gallery's size.

An ensemble is one matcher like any other. Its vectors are the members' vectors on end, its encoded pictures hold
the members' fields numbered, and stage one is the first member's: so nothing else knows of ensembles.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, make_dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from models.batches import Regions, Rows, Words
from models.matching.calibration import Calibration, Evidence
from models.matching.matcher import Matcher
from models.matching.stage_one import Pooled
from models.rerankers.base import Explanation, Reranker

AnyVectors = TypeVar("AnyVectors", Regions, Words)


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig:
    """Widths of the members' vectors, in the members' order."""

    region_widths: tuple[int, ...]
    word_widths: tuple[int, ...]
    lines: tuple["Line", ...] | None = None  # on which the scores are averaged; None: as they are


class Line(NamedTuple):
    """What is made of a score before it is averaged: factor x score + shift."""

    factor: float = 1.0
    shift: float = 0.0


class OnEnd(nn.Module):
    """The vectors of several encoders of the same rows as one, wider vector."""

    def __init__(self, encoders: Sequence[nn.Module]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)

    def forward(self, rows: Rows) -> Any:
        parts = [encoder(rows) for encoder in self.encoders]
        return replace(parts[0], vectors=torch.cat([part.vectors for part in parts], -1))


class Ensemble(Reranker[Any]):
    """Mean of the members' scores. It is made of trained members and not trained itself."""

    def __init__(self, config: EnsembleConfig, members: Sequence[Reranker[Any]]) -> None:
        super().__init__()
        self.config = config
        self.members = nn.ModuleList(members)
        self.block = min(member.block for member in members)  # type: ignore[misc]
        self.region_encoder: nn.Module = OnEnd([member.region_encoder for member in members])
        self.sentence_encoder: nn.Module = OnEnd([member.sentence_encoder for member in members])
        named = [(numbered(name, n), Tensor) for n, member in enumerate(members) for name in names(member.images_type)]
        self.images_type = make_dataclass("EnsembleImages", named, bases=(Rows,), frozen=True)

    def precompute(self, projected: Regions) -> Rows:
        parts = split(projected, self.config.region_widths)
        own = [member.precompute(part) for member, part in zip(self._each(), parts, strict=True)]
        images: Rows = self.images_type(
            **{numbered(name, n): tensor for n, rows in enumerate(own) for name, tensor in rows.tensors().items()}
        )
        return images

    def score(self, images: Rows, words: Words) -> Float[Tensor, "Q K"]:
        scores = [
            line.factor * member.score(*own) + line.shift
            for line, (member, own) in zip(self._lines(), self._shared_out(images, words), strict=True)
        ]
        return torch.stack(scores).mean(0)

    def explain(self, images: Rows, words: Words) -> Explanation:
        """What all members can say, averaged; only contributions where they look in different directions."""
        told = [
            on_line(member.explain(*own), line, words)
            for line, (member, own) in zip(self._lines(), self._shared_out(images, words), strict=True)
        ]
        alike = len({one.kind for one in told}) == 1
        said = [name for name in names(Explanation) if name == "contributions" or (alike and name != "kind")]
        return Explanation(told[0].kind, **{name: mean([getattr(one, name) for one in told]) for name in said})

    def _lines(self) -> Sequence[Line]:
        return self.config.lines or [Line()] * len(self.members)

    def _each(self) -> Iterator[Reranker[Any]]:
        for member in self.members:
            assert isinstance(member, Reranker)
            yield member

    def _shared_out(self, images: Rows, words: Words) -> Iterator[tuple[Reranker[Any], tuple[Rows, Words]]]:
        """Every member with its own part of the pictures and words."""
        for n, (member, own) in enumerate(zip(self._each(), split(words, self.config.word_widths), strict=True)):
            tensors = {name: getattr(images, numbered(name, n)) for name in names(member.images_type)}
            yield member, (member.images_type(**tensors), own)


def on_line(told: Explanation, line: Line, words: Words) -> Explanation:
    """The same told of a score that was put on a line."""
    if told.contributions is None or line == Line():
        return told
    shift = told.contributions.new_full(told.contributions.shape[:2], line.shift)
    return told.rescaled(line.factor, shift, words.mask)


def names(of: type) -> list[str]:
    """Names of a dataclass's fields."""
    return [field.name for field in fields(of)]


def numbered(name: str, member: int) -> str:
    """The ensemble's name for a member's field."""
    return f"{name}_{member}"


def split(rows: AnyVectors, widths: Sequence[int]) -> list[AnyVectors]:
    """Rows of vectors on end, as the rows they were joined from."""
    return [replace(rows, vectors=part) for part in torch.split(rows.vectors, list(widths), -1)]


def mean(values: Sequence[Tensor | None]) -> Tensor | None:
    """None unless there is a value from all."""
    present = [value for value in values if value is not None]
    return torch.stack(present).mean(0) if len(present) == len(values) else None


def combined(matchers: Sequence[Matcher]) -> Matcher:
    """One matcher that scores as all of them on average; ValueError where their scores are not of a kind.

    All must have been trained on the same detector's features and with the same vocabulary.
    """
    first = matchers[0]
    if len(matchers) == 1:
        return first
    together = "+".join(matcher.name for matcher in matchers)
    for what, distinct in (
        ("trained on features of different detectors", {m.extractor_digest for m in matchers}),
        ("trained with different vocabularies", {m.vocabulary.words for m in matchers}),
    ):
        if len(distinct) > 1:
            raise ValueError(f"{together} is no ensemble: its members are {what}")
    families = {family(matcher.name) for matcher in matchers}
    known = [matcher.calibration for matcher in matchers if matcher.calibration is not None]
    if len(families) > 1 and len(known) < len(matchers):
        raise ValueError(
            f"{together} is no ensemble: its members are of different families, whose scores have different scales, and"
            " not all are calibrated (`regard calibrate`)"
        )
    lines = [Line(one.text.slope + one.text.lead, one.text.intercept) if len(families) > 1 else Line() for one in known]
    config = EnsembleConfig(
        lines=tuple(lines) if len(families) > 1 else None,
        region_widths=tuple(matcher.pooled.config.picture_width for matcher in matchers),
        word_widths=tuple(matcher.pooled.config.width for matcher in matchers),
    )
    return Matcher(
        together,
        replace(first.encoders, width=sum(config.word_widths)),
        Ensemble(config, [matcher.reranker for matcher in matchers]),
        widened(first.pooled, sum(config.region_widths), sum(config.word_widths)),
        first.vocabulary,
        first.extractor_digest,
        hashlib.sha256("+".join(matcher.digest for matcher in matchers).encode()).hexdigest()[:16],
        calibration_of(known, lines) if len(known) == len(matchers) else None,
    ).eval()


def calibration_of(members: Sequence[Calibration], lines: Sequence[Line]) -> Calibration:
    """What an ensemble's scores mean, as far as its members' calibrations tell: the mean of what each says.

    Members do not err together, so the truth is somewhat steeper.
    """
    return Calibration(
        text=Evidence.mean([one.text.rescaled(*line) for one, line in zip(members, lines, strict=True)]),
        image=Evidence.mean([one.image.rescaled(*line) for one, line in zip(members, lines, strict=True)]),
    )


def family(name: str) -> str:
    """Models of one family have scores of one scale: scan-t2i-avg and scan-i2t-lse, not scan and camp."""
    return name.partition("-")[0]


def widened(pooled: Pooled, image_width: int, text_width: int) -> Pooled:
    """The same stage-one head over wider vectors, of which it reads the first part alone."""
    config = replace(pooled.config, width=text_width, image_width=image_width, embed_dim=pooled.config.dim)
    wide = Pooled(config)
    for layer, own in ((wide.image, pooled.image), (wide.text, pooled.text)):
        weight = own.weight.detach() if isinstance(own, nn.Linear) else torch.eye(config.dim)
        assert isinstance(layer, nn.Linear)
        layer.weight = nn.Parameter(pad(weight, (0, layer.in_features - weight.shape[1])))
    return wide
