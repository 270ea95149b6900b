"""Ensembles `a+b`: the mean of raw scores of models on one scale, as the papers report them.

Scores of different families, and some within a family, have different scales. If all members are calibrated, the mean
is that of their log odds: a score counts by how much it changes the model's log odds (calibration.py). That resembles
the mean of the members' probabilities, but still separates candidates that all members are sure of, and does not depend
on the gallery's size.

A picture's record holds the members' numbered fields; a word's vector is the concatenation of the members' vectors;
stage one is the first member's. The first member also splits sentences into words, which members with another kind of
reader read too. Questions that are short for the first member (`--short-question`) are scored by it alone, since it was
calibrated for them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.batches import ReadSentences, Regions, Rows, SeveralReadings, Words, numbered_fields, numbered_tensors
from models.matching.calibration import Calibration
from models.matching.encoded import EncodedImages, EncodedTexts
from models.matching.lazy_matcher import MatcherHeader
from models.matching.log_odds import LogOddsModel
from models.matching.match_verdict import MatchTest
from models.matching.matcher import Matcher
from models.matching.single_matcher import SingleMatcher
from models.rerankers.base import Explanation

OWN_SCALES = ("camp-released-attention", "summax-t2i", "summax-i2t")


class AffineRescaling(NamedTuple):
    """The rescaling of a member's score in the mean: scale x score + shift."""

    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True)
class EnsembleRows(Rows):
    """Pictures as every member encoded them. The names of a member's fields end in the member's number."""

    members: tuple[EncodedImages, ...]

    def tensors(self) -> dict[str, Tensor]:
        """Field of a stored record -> tensor [K, ...], in the members' order."""
        return numbered_tensors(self.members)

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "EnsembleRows":
        """Rows of the same members with other tensors."""
        return EnsembleRows(
            tuple(images.with_tensors(numbered_fields(tensors, n)) for n, images in enumerate(self.members))
        )


class Ensemble(Matcher):
    """The mean of the rescaled scores of trained matchers; it is not trained itself."""

    def __init__(
        self, members: Sequence[SingleMatcher], header: MatcherHeader, rescalings: Sequence[AffineRescaling]
    ) -> None:
        """Combine the members; `header` is the ensemble's, `rescalings` are the members' in their order."""
        super().__init__(header.name, members[0].reader, header.extractor_digest, header.digest, header.calibration)
        self.members = nn.ModuleList(members)
        self.rescalings = tuple(rescalings)
        self.wide_fields = tuple(f"{name}_{n}" for n, member in enumerate(members) for name in member.wide_fields)

    @property
    def feature_dim(self) -> int:
        return self._first.feature_dim

    @property
    def embed_dim(self) -> int:
        return self._first.embed_dim

    @property
    def word_dim(self) -> int:
        return sum(self._word_dims)

    @property
    def short_question(self) -> int:
        return max(member.short_question for member in self._members())

    @torch.no_grad()
    def encode_regions(self, regions: Regions) -> tuple[EncodedImages, Float[Tensor, "K E"]]:
        encoded = [member.encode_regions(regions) for member in self._members()]
        return EncodedImages(EnsembleRows(tuple(images for images, _ in encoded))), encoded[0][1]

    def images_from(self, records: Mapping[str, np.ndarray]) -> EncodedImages:
        encoded = (member.images_from(numbered_fields(records, n)) for n, member in enumerate(self._members()))
        return EncodedImages(EnsembleRows(tuple(encoded)))

    def tokenize(self, sentences: Sequence[str]) -> SeveralReadings:
        """Every sentence as each member reads it, with the words of the first member's reader."""
        first = super().tokenize(sentences)
        assert not isinstance(first, SeveralReadings)  # a single reader's
        readings = {self.reader.identity: first}
        for member in self._members():
            if member.reader.identity not in readings:
                rows = [self.reader.tokens(sentence) for sentence in sentences]
                readings[member.reader.identity] = member.reader.encode_tokens(rows)
        return SeveralReadings(tuple(readings[member.reader.identity] for member in self._members()))

    def num_pieces(self, words: Sequence[str]) -> int:
        """The maximum over the readers."""
        return max(member.num_pieces(words) for member in self._members())

    @torch.no_grad()
    def encode_tokens(self, tokens: ReadSentences) -> tuple[Words, Float[Tensor, "Q E"]]:
        encoded = [member.encode_tokens(reading) for member, reading in self._each_reads(tokens)]
        vectors = torch.cat([words.vectors for words, _ in encoded], -1)
        return Words(vectors, tokens.mask), encoded[0][1]

    @torch.no_grad()
    def encode_texts(self, tokens: ReadSentences) -> tuple[EncodedTexts, Float[Tensor, "Q E"]]:
        encoded = [member.encode_texts(reading) for member, reading in self._each_reads(tokens)]
        return self._joined_texts([texts for texts, _ in encoded]), encoded[0][1]

    def _each_reads(self, tokens: ReadSentences) -> Iterator[tuple[SingleMatcher, ReadSentences]]:
        """Every member with its reading of the sentences."""
        assert isinstance(tokens, SeveralReadings)
        return zip(self._members(), tokens.readings, strict=True)

    def similarity_query(self, embeddings: Float[Tensor, "K E"]) -> Float[Tensor, "K E"]:
        return self._first.similarity_query(embeddings)

    @torch.no_grad()
    def texts_from(self, words: Words, asked: bool = True) -> EncodedTexts:
        return self._joined_texts(
            [member.texts_from(part, asked) for member, part in zip(self._members(), self._split(words), strict=True)]
        )

    def _joined_texts(self, texts: Sequence[EncodedTexts]) -> EncodedTexts:
        """The members' sentences as one, whose offset is the mean of their rescaled offsets, like scores."""
        offsets = [scale * part.offset for part, (scale, _) in zip(texts, self.rescalings, strict=True)]
        vectors = torch.cat([part.vectors for part in texts], -1)
        summand = self.calibration.short_summand if self.calibration else 0.0
        is_short = texts[0].are_short(self.short_question)
        offset = (torch.stack(offsets) * self._member_weights(texts[0])).sum(0) - summand * is_short
        return replace(texts[0], vectors=vectors, offset=offset)

    def _member_weights(self, texts: EncodedTexts) -> Float[Tensor, "N Q"]:
        """The weight of each of the N members in the score of each sentence: equal weights, except for questions that
        are short for the first member, which scores them alone."""
        is_short = texts.are_short(self._first.short_question)
        equal = texts.vectors.new_full((len(self.members), len(texts)), 1 / len(self.members))
        is_first = torch.arange(len(self.members), device=equal.device) == 0
        return torch.where(is_short, is_first[:, None].to(equal.dtype), equal)

    @torch.no_grad()
    def score(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        return self._mean_score([member.score(*pair) for member, pair in self._each(images, texts)], texts)

    @torch.no_grad()
    def score_stored(
        self, records: Mapping[str, np.ndarray], rows: npt.NDArray[np.int64], texts: EncodedTexts
    ) -> Float[Tensor, "Q K"] | None:
        """The mean score by the kernels; None also if they do not support one of the members."""
        if not all(member.has_kernel for member in self._members()):
            return None
        scores: list[Float[Tensor, "Q K"]] = []
        for number, (member, member_texts) in enumerate(zip(self._members(), self._member_texts(texts), strict=True)):
            member_scores = member.score_stored(numbered_fields(records, number), rows, member_texts)
            if member_scores is None:
                return None
            scores.append(member_scores)
        return self._mean_score(scores, texts)

    @torch.no_grad()
    def score_in_blocks(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        return self._mean_score([member.score_in_blocks(*pair) for member, pair in self._each(images, texts)], texts)

    @torch.no_grad()
    def explain(self, images: EncodedImages, texts: EncodedTexts) -> Explanation:
        """The mean of the members' explanations; if they attend in different directions, only of contributions and
        shares."""
        offsets = texts.offset[:, None].expand(len(texts), len(images))
        parts = [
            member.explain(*pair).rescaled(scale, shift - offsets, texts.mask, pair[0].region_mask)
            for (member, pair), (scale, shift) in zip(self._each(images, texts), self.rescalings, strict=True)
        ]
        same_kind = len({part.kind for part in parts}) == 1
        parts_of_scores = ("contributions", "shares")
        names = [each.name for each in fields(Explanation) if each.name in parts_of_scores or same_kind]
        weights = self._member_weights(texts)
        means = {name: _mean([getattr(part, name) for part in parts], weights) for name in names if name != "kind"}
        return Explanation(parts[0].kind, **means)

    @property
    def _first(self) -> SingleMatcher:
        return next(self._members())

    @property
    def _word_dims(self) -> list[int]:
        return [member.word_dim for member in self._members()]

    def _members(self) -> Iterator[SingleMatcher]:
        for member in self.members:
            assert isinstance(member, SingleMatcher)
            yield member

    def _split(self, words: Words) -> list[Words]:
        """Each member's words."""
        return [Words(vectors, words.mask) for vectors in torch.split(words.vectors, self._word_dims, -1)]

    def _each(
        self, images: EncodedImages, texts: EncodedTexts
    ) -> Iterator[tuple[SingleMatcher, tuple[EncodedImages, EncodedTexts]]]:
        """Each member with its pictures and sentences."""
        assert isinstance(images.rows, EnsembleRows)
        parts = zip(self._members(), images.rows.members, self._member_texts(texts), strict=True)
        for member, member_images, member_texts in parts:
            yield member, (member_images, member_texts)

    def _member_texts(self, texts: EncodedTexts) -> list[EncodedTexts]:
        """Each member's sentences with offsets of 0, since the ensemble's is subtracted last."""
        zeros = torch.zeros_like(texts.offset)
        return [replace(texts, vectors=words.vectors, offset=zeros) for words in self._split(texts.words)]

    def _mean_score(self, scores: Sequence[Float[Tensor, "Q K"]], texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        rescaled = [scale * part + shift for part, (scale, shift) in zip(scores, self.rescalings, strict=True)]
        return (torch.stack(rescaled) * self._member_weights(texts)[:, :, None]).sum(0) - texts.offset[:, None]


def _mean(values: Sequence[Tensor | None], weights: Float[Tensor, "N Q"]) -> Tensor | None:
    """The weighted sum of the members' values, [Q, ...]; None unless all members have a value."""
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return None
    stacked = torch.stack(present)
    return (stacked * weights.reshape(*weights.shape, *[1] * (stacked.dim() - 2))).sum(0)


def build_ensemble(members: Sequence[SingleMatcher], fitted: Calibration | None = None) -> Matcher:
    """The ensemble of the members, or the only one; with the conditions of `ensemble_header`."""
    if len(members) == 1:
        return members[0]
    headers = [MatcherHeader.of(member) for member in members]
    return Ensemble(members, ensemble_header(headers, fitted), rescalings_of(headers)).eval()


def ensemble_header(members: Sequence[MatcherHeader], fitted: Calibration | None = None) -> MatcherHeader:
    """The header of the members' ensemble, or that of the only one.

    `fitted` is the calibration of the ensemble, if one was fitted; else it follows from the members' calibrations.
    Raises ValueError for members with incomparable scores, or trained on features of different detectors.
    """
    if len(members) == 1:
        return members[0]
    name = "+".join(member.name for member in members)
    if len({member.extractor_digest for member in members}) > 1:
        raise ValueError(f"{name} is no ensemble: its members are trained on features of different detectors")
    known = [member.calibration for member in members if member.calibration is not None]
    if len({score_scale(member.name) for member in members}) > 1 and len(known) < len(members):
        raise ValueError(
            f"{name} is no ensemble: the scores of its members have different scales, and not all are calibrated"
            " (`regard calibrate`)"
        )
    identity = "+".join(member.digest for member in members)
    if fitted is not None:
        identity += json.dumps(fitted.as_dict(), sort_keys=True)
    elif len(known) == len(members):
        fitted = ensemble_calibration(known, rescalings_of(members))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return replace(members[0], name=name, digest=digest, calibration=fitted)


def rescalings_of(members: Sequence[MatcherHeader]) -> list[AffineRescaling]:
    """The rescaling of each member's score in the mean: none on one scale, to log odds on several."""
    known = [member.calibration for member in members if member.calibration is not None]
    if len({score_scale(member.name) for member in members}) > 1:
        return [to_log_odds(calibration.text) for calibration in known]
    return [AffineRescaling()] * len(members)


def to_log_odds(model: LogOddsModel) -> AffineRescaling:
    """The rescaling of a best score to its log odds, without terms that depend on other candidates."""
    return AffineRescaling(model.slope + model.margin_weight, model.intercept)


def ensemble_calibration(members: Sequence[Calibration], rescalings: Sequence[AffineRescaling]) -> Calibration:
    """The calibration of an ensemble as the mean of its members' calibrations.

    Members' errors are partly independent, so a fitted calibration would be somewhat steeper.
    """
    pairs = list(zip(members, rescalings, strict=True))
    return Calibration(
        text=LogOddsModel.mean([each.text.of_rescaled_scores(*rescaling) for each, rescaling in pairs]),
        image=LogOddsModel.mean([each.image.of_rescaled_scores(*rescaling) for each, rescaling in pairs]),
        text_match=_mean_test([(each.text_match, rescaling) for each, rescaling in pairs]),
        image_match=_mean_test([(each.image_match, rescaling) for each, rescaling in pairs]),
        # The first member alone scores short questions.
        short_match=_mean_test([(members[0].short_match, rescalings[0])]),
    )


def score_scale(name: str) -> str:
    """The name of a model's scale of scores: its family's, or its own for models with another scale.

    CAMP's attention model scores by a cosine, other CAMP models by a probability; Sum-Max sums over words or regions.
    """
    separate = (model for model in OWN_SCALES if f"{name}-".startswith(f"{model}-"))
    return next(separate, name.partition("-")[0])


def _mean_test(members: Sequence[tuple[MatchTest | None, AffineRescaling]]) -> MatchTest | None:
    """The mean of the members' tests of an ensemble's scores; None unless all have one."""
    tests = [test.of_rescaled_scores(*rescaling) for test, rescaling in members if test is not None]
    return MatchTest.mean(tests) if len(tests) == len(members) else None
