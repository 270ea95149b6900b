"""A query, which sees one state of what is stored to its end, and where its work for a model runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from models.matching.matcher import Matcher
from service.search.gallery import Gallery
from service.search.model_views import ModelView
from service.search.requests import SearchRequest
from service.search.stopwatch import Stopwatch

T = TypeVar("T")
AnyRequest = TypeVar("AnyRequest", bound=SearchRequest)


class Accelerate(Protocol):
    """Runs work where the models are and returns its result."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """The result of `work`."""


def run_here(work: Callable[[], T], /) -> T:
    """Runs work in the caller's thread."""
    return work()


@dataclass(frozen=True)
class OpenQuery(Generic[AnyRequest]):
    """A request, and the one state of what is stored that answers it."""

    request: AnyRequest
    model: ModelView
    gallery: Gallery

    @property
    def index_version(self) -> str:
        """Changes whenever the model's answers may."""
        return self.gallery.version

    @property
    def matcher(self) -> Matcher:
        """The model's weights, which are read where they were not yet."""
        return self.model.matcher

    @property
    def needs_model(self) -> bool:
        """Whether the model is asked, and not the pictures' text alone."""
        return self.request.needs_model

    @property
    def awaits_model(self) -> bool:
        """Whether the model is to be loaded before the query can be answered."""
        return self.needs_model and not self.model.loaded


class RunSearch(Protocol):
    """Runs a search for a query and returns its result."""

    def __call__(self, search: Callable[[OpenQuery[AnyRequest]], T], query: OpenQuery[AnyRequest], /) -> T:
        """The result of `search`, of the query or of one that was begun again for the same request."""


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
        """The result of work that encodes what is asked with."""
        return self.accelerate(self.watch.timed("encode", work, *arguments))

    def rerank(self, work: Callable[[], T]) -> T:
        """The result of work that scores or explains, which needs no turn here where shards do it."""
        run = run_here if self.query.gallery.scores_elsewhere else self.accelerate
        return run(self.watch.timed("rerank", work))
