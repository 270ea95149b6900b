"""The gallery of a search: one interface for the search engine to one data directory and to many shards.

Pictures and captions are identified by rows, numbers that are valid within one query.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch

from index.catalog.filters import Filter
from index.catalog.text.named_tags import Tag
from index.catalog.text.search import TextMatch
from index.records import Caption, Image
from models.matching.encoded import EncodedImages, EncodedTexts
from service.search.candidates import Candidates
from service.search.model_views import ModelView
from service.search.requests import SearchRequest, TextSearchRequest
from service.search.results import PairExplanation, ShardCounts
from service.search.scoring.rerank import RowNumbers, Scores
from service.storage.regions.records import PictureFeatures


class Gallery(Protocol):
    """One state of the collection for one query, as its model sees it."""

    scores_elsewhere: bool
    """Whether other machines score and explain, so that this one's accelerator is not needed."""

    @property
    def shards(self) -> ShardCounts | None:
        """The numbers of its shards and of those that answer; None for one data directory."""

    @property
    def version(self) -> str:
        """The version of the answers: it changes whenever the model's answers may."""

    @property
    def is_empty(self) -> bool:
        """Whether no picture was ever encoded for the model."""

    @property
    def num_missing(self) -> int:
        """Stored pictures that cannot be found yet: waiting for regions, or not in the view; 0 where unknown."""

    @property
    def has_captions(self) -> bool:
        """Whether there is a caption to be found."""

    def nearest_pictures(
        self, embedding: torch.Tensor, request: SearchRequest, without: str | None, texts: EncodedTexts | None = None
    ) -> Candidates:
        """The shortlist of a [1, E] embedding; the picture whose id is `without` is left out.

        `texts` is the sentence that the candidates will be scored with, where there is one.
        """

    def nearest_captions(self, embedding: torch.Tensor, request: SearchRequest) -> Candidates:
        """The shortlist of captions for a [1, E] embedding."""

    def text_matches(self, request: TextSearchRequest, subject: str) -> list[TextMatch]:
        """Pictures whose text holds the query's subject, as many as the request hands to the reranker."""

    def named_tags(self, question: str) -> Sequence[Tag]:
        """Tags that the question names beside other words; none where unknown."""

    def may_hold(self, condition: Filter) -> bool:
        """Whether a picture passes the filter; True where that is unknown."""

    def first_scorer(self, rows: RowNumbers, texts: EncodedTexts) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each picture with the one sentence that `nearest_pictures` was
        given."""

    def picture_scorer(self, rows: RowNumbers, texts: EncodedTexts) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each picture with one sentence, another than that of
        `first_scorer`."""

    def caption_scorer(self, rows: RowNumbers, images: EncodedImages) -> Callable[[], Scores]:
        """Work that gives the [len(rows)] score of each caption with the one picture."""

    def images_at(self, rows: Sequence[int]) -> Sequence[Image | None]:
        """The pictures of rows, their `slot` being the row; None where one is no longer shown."""

    def captions_at(self, rows: Sequence[int]) -> Sequence[Caption | None]:
        """The captions of rows, their `slot` being the row; None where one is no longer shown."""

    def picture_explainer(
        self, rows: Sequence[int], texts: EncodedTexts, tokens: Sequence[str]
    ) -> Callable[[], list[PairExplanation]]:
        """Work that explains the score of each picture with the one sentence, whose unpadded words are `tokens`.

        Everything that it needs besides the model is read before this returns.
        """

    def caption_explainer(
        self, captions: Sequence[Caption], images: EncodedImages, picture: PictureFeatures
    ) -> Callable[[], list[PairExplanation]]:
        """Work that explains the score of each caption with the one picture."""

    def captions_per_picture(self) -> float:
        """The mean number of captions of a captioned picture."""


class OpenGallery(NamedTuple):
    """The model and the gallery of a query."""

    model: ModelView
    gallery: Gallery


class Galleries(Protocol):
    """The source of galleries for a search engine's queries."""

    def open(self, request: SearchRequest) -> OpenGallery:
        """The gallery of the request's model. Raises UnknownModel where there is none, ViewNotBuilt or NotReady where
        it is needed and cannot answer yet."""

    def features(self, image_id: str, extractor: str) -> PictureFeatures:
        """The regions that the extractor with this digest found in a stored picture.

        NotFound where it has no regions, NotReady where these are yet to be found anew.
        """

    def check_detector_of(self, model: ModelView) -> None:
        """FeaturesOnly, or NotReady, unless the model reads what the detector in service finds."""
