"""The costs of queries for the accelerator, in products of a region and a word."""

from collections.abc import Iterator
from typing import Any, Protocol

from models.extractors.base import Extractor
from service.search.model_views import ModelView
from service.search.query import OpenQuery
from service.search.requests import ImageSearchRequest, SearchRequest, TextSearchRequest
from service.search.scoring.pair_costs import PairCosts
from service.search.sentences import KeptEncodings, words_of

DETECTION_COST = 1_000_000  # of finding a picture's regions, which takes as long as scoring this many products
PIECE_COST = 1000  # of encoding a word piece, which takes half a millisecond
DRAWING_COST = 500_000  # of decoding a picture and drawing its explanation
TEXT_COST = 10_000  # of a search in the text index
TYPICAL_WORDS = 14


class KnownModels(Protocol):
    """The models that are loaded here."""

    @property
    def default(self) -> ModelView:
        """The default model, which answers where none is named."""

    def __iter__(self) -> Iterator[ModelView]:
        """Every loaded model, as it answers queries."""


class QueryCosts:
    """Computes costs from the models' speed, the regions of a picture and the cached encodings."""

    def __init__(self, models: KnownModels, extractor: Extractor, encodings: KeptEncodings) -> None:
        self._models, self._extractor, self._encodings = models, extractor, encodings
        self._pair_costs = PairCosts()

    def measure(self) -> None:
        """Measure the cost of a pair for each loaded model not measured yet, in the thread where models run."""
        loaded = [model.matcher for model in self._models if model.loaded]
        self._pair_costs.measure(loaded, self._extractor.num_regions)

    def of(self, query: OpenQuery[Any]) -> int:
        """The cost of a query: candidates x regions x words x the model's factor, and encoding the sentence unless
        that is cached.

        With a filter, the shortlist without it is scored as well; results to be explained are scored once more. Loads
        the model if the query needs one. InvalidRequest for a sentence without a word, or with more than models read.
        """
        if not query.needs_model:
            return TEXT_COST
        num_words, encoding = TYPICAL_WORDS, 0
        if query.parsed.text:
            num_words = 0
            for sentence in (query.parsed.wanted_or_all, *query.parsed.excluded):
                words = words_of(query.matcher, sentence)
                num_words += len(words)
                if self._encodings.get(query.matcher, sentence) is None:
                    encoding += PIECE_COST * query.matcher.num_pieces(words)
        pairs = self._pairs(query.request, num_words)
        return int(pairs * self._pair_costs.weight(query.matcher)) + encoding

    def of_upload(self, query: OpenQuery[ImageSearchRequest]) -> int:
        """The cost of a query with a picture that is not stored, whose regions must be found first. Raises as `of`."""
        return self.of(query) + DETECTION_COST

    def of_drawing(self, query: OpenQuery[TextSearchRequest]) -> int:
        """The cost of encoding the query's sentence and drawing its explanation by a picture. Raises as `of`."""
        return PIECE_COST * query.matcher.num_pieces(words_of(query.matcher, query.parsed.wanted_or_all)) + DRAWING_COST

    def expected(self, request: TextSearchRequest) -> int:
        """An estimate for a query that has not begun: a sentence of typical length, by the fastest model."""
        if not request.needs_model:
            return TEXT_COST
        return self._pairs(request, TYPICAL_WORDS) + PIECE_COST * TYPICAL_WORDS

    def _pairs(self, request: SearchRequest, num_words: int) -> int:
        """The number of pairs of a region and a word that a query scores."""
        candidates = 2 * request.shortlist if request.filter else request.shortlist
        if request.explain:
            candidates += request.k
        if isinstance(request, ImageSearchRequest) and request.target == "images":  # stage one alone
            candidates = 1
        return candidates * self._extractor.num_regions * num_words
