"""Ensembles `a+b`: the mean of raw scores of models on one scale, as the papers report them.

Scores of several families, and some of one, have several scales. Where all members are calibrated, the mean is that of
the log odds that their scores are: a point of score counts as much as it changes the model's log odds (calibration.py).
That mean stands for the mean of the members' probabilities, but still separates candidates that all members are sure
of, and does not depend on the gallery's size.

A picture's record holds the members' fields, numbered; a word's vector is the members' vectors concatenated; stage one
is the first member's. So is the splitting of sentences into words: a member that reads sentences in another way, by a
vocabulary where the first reads states of a pretrained encoder, reads these words. Questions that are short for the
first member (`--short-question`) are scored by it alone, as it was calibrated for them.
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
    """A member's score in the mean is scale x score + shift."""

    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True)
class EnsembleRows(Rows):
    """Pictures as every member encoded them. The name of a member's field in a record ends in the member's number."""

    members: tuple[EncodedImages, ...]

    def tensors(self) -> dict[str, Tensor]:
        """Field of a stored record -> tensor [K, ...], one member after the other."""
        return numbered_tensors(self.members)

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "EnsembleRows":
        """Rows of the same members with other tensors."""
        return EnsembleRows(
            tuple(images.with_tensors(numbered_fields(tensors, n)) for n, images in enumerate(self.members))
        )


class Ensemble(Matcher):
    """The mean of the members' rescaled scores. It is made of trained matchers and not trained itself."""

    def __init__(
        self, members: Sequence[SingleMatcher], header: MatcherHeader, rescalings: Sequence[AffineRescaling]
    ) -> None:
        """`header` is the ensemble's; `rescalings` are the members', in their order."""
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
        return _side_by_side([images for images, _ in encoded]), encoded[0][1]

    def images_from(self, records: Mapping[str, np.ndarray]) -> EncodedImages:
        return _side_by_side(
            [member.images_from(numbered_fields(records, n)) for n, member in enumerate(self._members())]
        )

    def tokenize(self, sentences: Sequence[str]) -> SeveralReadings:
        """Every sentence as each member reads the words that the first one splits it into."""
        first = super().tokenize(sentences)
        assert not isinstance(first, SeveralReadings)  # it is by one reader
        read = {self.reader.identity: first}
        for member in self._members():
            if member.reader.identity not in read:
                rows = [self.reader.tokens(sentence) for sentence in sentences]
                read[member.reader.identity] = member.reader.encode_tokens(rows)
        return SeveralReadings(tuple(read[member.reader.identity] for member in self._members()))

    def num_pieces(self, words: Sequence[str]) -> int:
        """The most that one of the readers takes."""
        return max(member.num_pieces(words) for member in self._members())

    @torch.no_grad()
    def encode_tokens(self, tokens: ReadSentences) -> tuple[Words, Float[Tensor, "Q E"]]:
        encoded = [member.encode_tokens(own) for member, own in self._each_reads(tokens)]
        vectors = torch.cat([words.vectors for words, _ in encoded], -1)
        return Words(vectors, tokens.mask), encoded[0][1]

    @torch.no_grad()
    def encode_texts(self, tokens: ReadSentences) -> tuple[EncodedTexts, Float[Tensor, "Q E"]]:
        encoded = [member.encode_texts(own) for member, own in self._each_reads(tokens)]
        return self._together([texts for texts, _ in encoded]), encoded[0][1]

    def _each_reads(self, tokens: ReadSentences) -> Iterator[tuple[SingleMatcher, ReadSentences]]:
        """Every member with the sentences as it reads them."""
        assert isinstance(tokens, SeveralReadings)
        return zip(self._members(), tokens.readings, strict=True)

    def similarity_query(self, embeddings: Float[Tensor, "K E"]) -> Float[Tensor, "K E"]:
        return self._first.similarity_query(embeddings)

    @torch.no_grad()
    def texts_from(self, words: Words, asked: bool = True) -> EncodedTexts:
        return self._together(
            [member.texts_from(own, asked) for member, own in zip(self._members(), self._split(words), strict=True)]
        )

    def _together(self, texts: Sequence[EncodedTexts]) -> EncodedTexts:
        """The members' sentences as one: the offset is the mean of their rescaled offsets, as scores are."""
        offsets = [scale * own.offset for own, (scale, _) in zip(texts, self.rescalings, strict=True)]
        vectors = torch.cat([own.vectors for own in texts], -1)
        summand = self.calibration.short_summand if self.calibration else 0.0
        is_short = texts[0].are_short(self.short_question)
        offset = (torch.stack(offsets) * self._parts(texts[0])).sum(0) - summand * is_short
        return replace(texts[0], vectors=vectors, offset=offset)

    def _parts(self, texts: EncodedTexts) -> Float[Tensor, "N Q"]:
        """The part of each of the N members in the score of each sentence: equal ones, but for questions that are short
        for the first, which it scores alone."""
        is_short = texts.are_short(self._first.short_question)
        parts = texts.vectors.new_full((len(self.members), len(texts)), 1 / len(self.members))
        alone = torch.arange(len(self.members), device=parts.device) == 0
        return torch.where(is_short, alone[:, None].to(parts.dtype), parts)

    @torch.no_grad()
    def score(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        return self._mean_score([member.score(*own) for member, own in self._each(images, texts)], texts)

    @torch.no_grad()
    def score_stored(
        self, records: Mapping[str, np.ndarray], rows: npt.NDArray[np.int64], texts: EncodedTexts
    ) -> Float[Tensor, "Q K"] | None:
        """None too where the kernels do not know one of the members."""
        if not all(member.has_kernel for member in self._members()):
            return None
        scores: list[Float[Tensor, "Q K"]] = []
        for number, (member, own_texts) in enumerate(zip(self._members(), self._own_texts(texts), strict=True)):
            own = member.score_stored(numbered_fields(records, number), rows, own_texts)
            if own is None:
                return None
            scores.append(own)
        return self._mean_score(scores, texts)

    @torch.no_grad()
    def score_in_blocks(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        return self._mean_score([member.score_in_blocks(*own) for member, own in self._each(images, texts)], texts)

    @torch.no_grad()
    def explain(self, images: EncodedImages, texts: EncodedTexts) -> Explanation:
        """The mean of what all members can explain; where they attend in different directions, of contributions and
        shares alone."""
        taken_off = texts.offset[:, None].expand(len(texts), len(images))
        parts = [
            member.explain(*own).rescaled(scale, shift - taken_off, texts.mask, own[0].region_mask)
            for (member, own), (scale, shift) in zip(self._each(images, texts), self.rescalings, strict=True)
        ]
        same_kind = len({part.kind for part in parts}) == 1
        parts_of_scores = ("contributions", "shares")
        names = [one.name for one in fields(Explanation) if one.name in parts_of_scores or same_kind]
        weights = self._parts(texts)
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
        """Every member's own words."""
        return [Words(vectors, words.mask) for vectors in torch.split(words.vectors, self._word_dims, -1)]

    def _each(
        self, images: EncodedImages, texts: EncodedTexts
    ) -> Iterator[tuple[SingleMatcher, tuple[EncodedImages, EncodedTexts]]]:
        """Every member with its own pictures and sentences."""
        assert isinstance(images.rows, EnsembleRows)
        parts = zip(self._members(), images.rows.members, self._own_texts(texts), strict=True)
        for member, own_images, own_texts in parts:
            yield member, (own_images, own_texts)

    def _own_texts(self, texts: EncodedTexts) -> list[EncodedTexts]:
        """Every member's own sentences, whose offsets are 0: the ensemble's is taken off last."""
        none = torch.zeros_like(texts.offset)
        return [replace(texts, vectors=words.vectors, offset=none) for words in self._split(texts.words)]

    def _mean_score(self, scores: Sequence[Float[Tensor, "Q K"]], texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        rescaled = [scale * own + shift for own, (scale, shift) in zip(scores, self.rescalings, strict=True)]
        return (torch.stack(rescaled) * self._parts(texts)[:, :, None]).sum(0) - texts.offset[:, None]


def _side_by_side(members: Sequence[EncodedImages]) -> EncodedImages:
    return EncodedImages(EnsembleRows(tuple(members)))


def _mean(values: Sequence[Tensor | None], parts: Float[Tensor, "N Q"]) -> Tensor | None:
    """The sum of the members' parts of their values, [Q, ...]; None unless all members have a value."""
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return None
    stacked = torch.stack(present)
    return (stacked * parts.reshape(*parts.shape, *[1] * (stacked.dim() - 2))).sum(0)


def build_ensemble(members: Sequence[SingleMatcher], fitted: Calibration | None = None) -> Matcher:
    """One matcher that scores as all of them on average, or the only one; otherwise as `ensemble_header`."""
    if len(members) == 1:
        return members[0]
    headers = [MatcherHeader.of(member) for member in members]
    return Ensemble(members, ensemble_header(headers, fitted), rescalings_of(headers)).eval()


def ensemble_header(members: Sequence[MatcherHeader], fitted: Calibration | None = None) -> MatcherHeader:
    """The header of the members' ensemble, or that of the only one; ValueError where scores are not comparable.

    `fitted` is what the mean's scores mean, where that was fitted; without it the members' calibrations tell.

    All must have been trained on the same detector's features.
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
    """The rescaling of each member's score in the mean: none on one scale, to log odds across several."""
    known = [member.calibration for member in members if member.calibration is not None]
    if len({score_scale(member.name) for member in members}) > 1:
        return [to_log_odds(one.text) for one in known]
    return [AffineRescaling()] * len(members)


def to_log_odds(model: LogOddsModel) -> AffineRescaling:
    """The rescaling of a best score to its log odds, up to what depends on the other candidates."""
    return AffineRescaling(model.slope + model.margin_weight, model.intercept)


def ensemble_calibration(members: Sequence[Calibration], rescalings: Sequence[AffineRescaling]) -> Calibration:
    """The meaning of an ensemble's scores as far as its members' calibrations tell: the mean of what each says.

    Members do not err together, so the truth is somewhat steeper.
    """
    pairs = list(zip(members, rescalings, strict=True))
    return Calibration(
        text=LogOddsModel.mean([one.text.of_rescaled_scores(*rescaling) for one, rescaling in pairs]),
        image=LogOddsModel.mean([one.image.of_rescaled_scores(*rescaling) for one, rescaling in pairs]),
        text_match=_mean_test([(one.text_match, rescaling) for one, rescaling in pairs]),
        image_match=_mean_test([(one.image_match, rescaling) for one, rescaling in pairs]),
        short_match=_mean_test([(members[0].short_match, rescalings[0])]),  # which scores short questions alone
    )


def score_scale(name: str) -> str:
    """The models whose scores have one scale with this one's: a family, but for those of it with scores of their own.

    CAMP's attention scores by a cosine, the rest of it by a probability; Sum-Max adds up words, or regions.
    """
    own = (model for model in OWN_SCALES if f"{name}-".startswith(f"{model}-"))
    return next(own, name.partition("-")[0])


def _mean_test(members: Sequence[tuple[MatchTest | None, AffineRescaling]]) -> MatchTest | None:
    """The mean of the members' tests of an ensemble's scores; None where one has none."""
    tests = [test.of_rescaled_scores(*rescaling) for test, rescaling in members if test is not None]
    return MatchTest.mean(tests) if len(tests) == len(members) else None
