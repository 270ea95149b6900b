"""Queries, each of which sees one state of the collection throughout, and where their model work runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from models.matching.matcher import Matcher
from service.search.gallery import Gallery
from service.search.model_views import ModelView
from service.search.requests import ImageSearchRequest, TextSearchRequest
from service.search.stopwatch import Stopwatch
from service.search.wording.parsed_query import ParsedQuery

T = TypeVar("T")
AnyRequest = TypeVar("AnyRequest", bound=TextSearchRequest | ImageSearchRequest)


class Accelerate(Protocol):
    """Runs work where the models are and returns its result."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """The result of `work`."""


def run_here(work: Callable[[], T], /) -> T:
    """Runs work in the caller's thread."""
    return work()


@dataclass(frozen=True)
class OpenQuery(Generic[AnyRequest]):
    """A request, the one state of the collection that answers it, and its words, parsed."""

    request: AnyRequest
    model: ModelView
    gallery: Gallery
    parsed: ParsedQuery

    @property
    def index_version(self) -> str:
        """The version of the answers: it changes whenever the model's answers may."""
        return self.gallery.version

    @property
    def matcher(self) -> Matcher:
        """The model with its weights, which are loaded if they are not yet."""
        return self.model.matcher

    @property
    def needs_model(self) -> bool:
        """Whether the model is used, and not the pictures' text alone."""
        return self.request.needs_model

    @property
    def awaits_model(self) -> bool:
        """Whether the model must be loaded before the query can be answered."""
        return self.needs_model and not self.model.loaded


class RunSearch(Protocol):
    """Runs a search for a query and returns its result."""

    def __call__(self, search: Callable[[OpenQuery[AnyRequest]], T], query: OpenQuery[AnyRequest], /) -> T:
        """The result of `search`, for this query or for one begun anew for the same request."""


def run_once(search: Callable[[OpenQuery[AnyRequest]], T], query: OpenQuery[AnyRequest], /) -> T:
    """Runs a search, and leaves its faults to the caller."""
    return search(query)


@dataclass(frozen=True)
class RunningSearch(Generic[AnyRequest]):
    """A search under way: its query, where work for the model runs, and the time that its stages take."""

    query: OpenQuery[AnyRequest]
    accelerate: Accelerate
    watch: Stopwatch

    def encode(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of work that encodes the question."""
        return self.accelerate(self.watch.timed("encode", work, *arguments))

    def rerank(self, work: Callable[[], T]) -> T:
        """The result of work that scores or explains; where shards do that, it needs no accelerator here."""
        run = run_here if self.query.gallery.scores_elsewhere else self.accelerate
        return run(self.watch.timed("rerank", work))
