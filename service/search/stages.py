"""The stages of a query: a picture is encoded, candidates are scored, the best of them become hits."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from index.catalog.text.search import TextMatch
from models.matching.encoded import EncodedImages, EncodedTexts, HalfPrecisionOverflow
from service.errors import InvalidRequest
from service.search.candidates import Candidates, scores_of
from service.search.fusion import best_pictures
from service.search.query import OpenQuery, RunningSearch
from service.search.requests import ImageSearchRequest, TextSearchRequest
from service.search.results import RankedCaption, RankedPicture
from service.search.sentences import names_common_things
from service.storage.regions.records import PictureFeatures


class Term(NamedTuple):
    """A sentence of a question, encoded, and the weight of its score in the sum; negative for what is ruled out."""

    sentence: str
    weight: float
    texts: EncodedTexts
    embedding: torch.Tensor


def scored_pictures(running: RunningSearch[TextSearchRequest], terms: Sequence[Term]) -> Candidates | None:
    """A question's candidates with the weighted sums of the model's scores; None where no picture was ever encoded for
    the model.

    Probabilities and the verdict are those of what is wanted, the first term; without it there are none.
    """
    gallery, (first, *others) = running.query.gallery, terms
    with running.watch.stage("shortlist"):
        embedding = combined_embedding(terms)
        candidates = gallery.nearest_pictures(embedding, running.query.request, without=None, texts=first.texts)
    if gallery.is_empty:
        return None
    if first.weight > 0:
        scored = _scored(running, candidates, first.texts)
    else:  # nothing is wanted, only ruled out: scores begin at 0 instead of stage one's, and have no probabilities
        scores = running.rerank(gallery.first_scorer(candidates.rows, first.texts))
        scored = candidates.rescored(np.zeros_like(scores), None).raised_by(first.weight * scores)
    for term in others:
        scored = scored.raised_by(term.weight * running.rerank(gallery.picture_scorer(candidates.rows, term.texts)))
    return scored


def combined_embedding(terms: Sequence[Term]) -> torch.Tensor:
    """The [1, E] embedding whose inner products are the weighted sums of the terms'."""
    return torch.stack([term.weight * term.embedding for term in terms]).sum(0)


def _scored(running: RunningSearch[TextSearchRequest], candidates: Candidates, texts: EncodedTexts) -> Candidates:
    """The candidates with the model's scores of one sentence, their probabilities and the verdict on the best."""
    query = running.query
    gallery, calibration = query.gallery, query.matcher.calibration
    rows = candidates.rows_to_score if calibration else candidates.rows
    scores = running.rerank(gallery.first_scorer(rows, texts))
    if calibration is None:
        return candidates.rescored(scores, None)
    rescored = candidates.rescored(scores, calibration.text, match_test=calibration.text_match)
    if calibration.short_match is None or not texts.are_short(query.matcher.short_question).item():
        return rescored
    return rescored.judged_by(calibration.short_match, float(texts.offset))


def scored_captions(
    running: RunningSearch[ImageSearchRequest], images: EncodedImages, embedding: torch.Tensor
) -> Candidates:
    """A picture's candidates among the captions, with the model's scores."""
    query = running.query
    gallery, calibration = query.gallery, query.matcher.calibration
    with running.watch.stage("shortlist"):
        candidates = gallery.nearest_captions(embedding, query.request)
    rows = candidates.rows_to_score if calibration else candidates.rows
    scores = running.rerank(gallery.caption_scorer(rows, images))
    if calibration is None:
        return candidates.rescored(scores, None)
    return candidates.rescored(scores, calibration.image, gallery.captions_per_picture(), calibration.image_match)


def encoded_picture(running: RunningSearch[Any], picture: PictureFeatures) -> tuple[EncodedImages, torch.Tensor]:
    """The picture encoded by the model, and its embedding. InvalidRequest where half precision cannot hold it."""
    try:
        return running.encode(running.query.matcher.encode_regions, picture.as_batch())
    except HalfPrecisionOverflow as fault:
        raise InvalidRequest.field("model", str(fault)) from fault


def text_matches(running: RunningSearch[TextSearchRequest]) -> list[TextMatch]:
    """Pictures whose text holds the question; none where the request asks for pictures alone."""
    query = running.query
    with running.watch.stage("text"):
        if query.request.match == "pictures":
            return []
        return query.gallery.text_matches(query.request, query.parsed.subject)


def picture_hits(
    query: OpenQuery[Any], candidates: Candidates, matches: Sequence[TextMatch] = ()
) -> tuple[list[RankedPicture], int]:
    """The best k pictures, and how many candidates the request's limits left out that no text match brought back."""
    order = candidates.within_limits(query.request)
    by_folder = any(match.by_folder for match in matches)
    demote_folders = by_folder and names_common_things(query.matcher, query.parsed)
    hits = best_pictures(query, candidates, order, matches, demote_folders)
    found = {candidates.rows[n] for n in order} | {match.image.slot for match in matches}
    return hits, sum(row not in found for row in candidates.rows)


def caption_hits(query: OpenQuery[ImageSearchRequest], candidates: Candidates) -> tuple[list[RankedCaption], int]:
    """The best k captions, and how many candidates the request's limits left out."""
    order = candidates.within_limits(query.request)
    hits = [
        RankedCaption(**vars(caption), **scores_of(candidates, n))
        for n, caption in candidates.best(order, query.request.k, query.gallery.captions_at)
    ]
    return hits, len(candidates.rows) - len(order)
