"""The models of this server, each with its view as far as the worker has built it."""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from index.catalog.catalog import Catalog
from index.catalog.database.faults import MissingCatalog
from index.views.slab import Corrupt, LayoutMismatch
from index.views.view import Snapshot, View
from index.views.view_manifest import Counts, NoView, ViewMismatch
from models.matching.lazy_matcher import LazyMatcher, MatcherHeader
from models.matching.matcher import Matcher
from service.errors import NotReady, UnknownModel, ViewNotBuilt
from service.search.wording.query_notes import MOST_AT_ONCE
from service.storage.regions.entries import ANSWERING
from service.storage.regions.migration_progress import MigrationProgress
from service.storage.regions.stores import RegionStores

log = logging.getLogger(__name__)

REFRESH_S = 0.1  # between two refreshes: a new row of a view is found this much later
QUERY_WAITS_S = 0.25  # for another thread's refresh; then the query searches the rows from before
INDEX_S = 1.0  # between two checks for a due index
RETRY_S = 5  # after which the first pictures of a migration can be searched


@dataclass(frozen=True)
class ViewState:
    """The part of the store that a model can search."""

    state: Literal["ready", "building", "not built"]
    pictures: int
    captions: int
    missing_pictures: int
    missing_captions: int


class ModelView:
    """A model, and its view once there is one. Safe from many threads."""

    def __init__(self, name: str, model: LazyMatcher, folder: Path, maintained: bool) -> None:
        """`folder` is where the view lies or will lie; `maintained` says whether a worker keeps it up."""
        self.name = name
        self.maintained = maintained
        self._model = model
        self._visible = (-1, 0, 0), (0, 0)  # key of the counts, and the counts of shown pictures and captions
        self._folder = folder
        self._view: View | None = None
        self._opening = threading.Lock()
        self._fault = ""

    @property
    def header(self) -> MatcherHeader:
        """The model's header, which is known without its weights."""
        return self._model.header

    @property
    def loaded(self) -> bool:
        """Whether the model's weights are in memory."""
        return self._model.loaded

    @property
    def matcher(self) -> Matcher:
        """The model itself. Where it is not loaded, the caller waits for that, and gets whatever loading raises."""
        return self._model.matcher

    def snapshot(self) -> Snapshot | None:
        """The current state of the view, to be kept for a whole query; None before a worker has begun it."""
        view = self._view
        return None if view is None else view.snapshot()

    def refresh(self, patience_s: float = threading.TIMEOUT_MAX) -> None:
        """Take up what the worker has published since; where that is nothing, this only reads a small file.

        Another thread's refresh is waited for `patience_s` seconds at most.
        """
        try:
            view = self._view
            if view is None:
                self._open(patience_s)
            else:
                view.refresh(patience_s)
            self._fault = ""
        except NoView:
            pass  # not begun, or removed: the last snapshot is still searched
        except (Corrupt, LayoutMismatch, ViewMismatch, OSError) as fault:
            if str(fault) != self._fault:  # once, not ten times a second
                log.error("the view of %s cannot be read: %s", self.name, fault)
            self._fault = str(fault)

    def _open(self, patience_s: float) -> None:
        if not self._opening.acquire(timeout=patience_s):
            return
        try:
            self._view = self._view or View(self._folder)
        finally:
            self._opening.release()

    def build_index(self) -> None:
        """Build the indexes of the view that are due, which may take minutes."""
        if self._view is not None:
            self._view.build_index()

    def state(self, catalog: Catalog) -> ViewState:
        """The state of the view, compared with what the catalog has committed."""
        snapshot = self.snapshot()
        pictures, captions = snapshot.counts if snapshot else Counts(0, 0)
        missing = max(0, catalog.num_slots() - pictures)
        missing_captions = max(0, catalog.num_caption_slots() - captions)
        status = self._status(snapshot, missing + missing_captions)
        return ViewState(status, *self._num_visible(catalog, pictures, captions), missing, missing_captions)

    def _num_visible(self, catalog: Catalog, pictures: int, captions: int) -> tuple[int, int]:
        """The numbers of shown pictures and captions among the first rows, recounted only after a change: health checks
        ask for them too."""
        key = catalog.version(), pictures, captions
        cached = self._visible  # other threads may replace it
        if cached[0] != key:
            cached = self._visible = key, catalog.num_visible(pictures, captions)
        return cached[1]

    def _status(self, snapshot: Snapshot | None, missing: int) -> Literal["ready", "building", "not built"]:
        # A view left from other settings, which no worker maintains, is useless once it lacks something.
        if not self.maintained and (missing or snapshot is None):
            return "not built"
        return "building" if missing else "ready"

    def close(self) -> None:
        """Close the view."""
        if self._view is not None:
            self._view.close()
            self._view = None


class ModelViews:
    """Every model of this server by name.

    Each searches the regions of its own extractor. Models of a former extractor answer while its regions are kept.
    """

    def __init__(
        self,
        models: Sequence[ModelView],
        catalog: Catalog,
        regions: RegionStores,
        advice: Callable[[str], str] = lambda name: "",
    ) -> None:
        """`models`: the default first. `advice` tells how a model that is missing could be loaded."""
        self._advice = advice
        self._models = tuple(models)
        self._catalog, self._regions = catalog, regions
        for model in self._models:  # a former extractor's view no longer grows, which is no fault
            model.maintained = model.maintained or not self._is_current(model)

    def __iter__(self) -> Iterator[ModelView]:
        return (model for model in self._models if self._regions.state(model.header.extractor_digest) in ANSWERING)

    def _is_current(self, model: ModelView) -> bool:
        return model.header.extractor_digest == self._regions.extractor

    @property
    def default(self) -> ModelView:
        """The first model; during a migration, the first whose view holds what the former detector found."""
        for model in self:
            if self._regions.state(model.header.extractor_digest) == "former" and model.snapshot() is not None:
                return model
        return next(model for model in self if self._is_current(model))

    @property
    def names(self) -> list[str]:
        """Known names, the default first."""
        return sorted((model.name for model in self), key=lambda name: name != self.default.name)

    def named(self, name: str | None) -> ModelView:
        """The model of that name, the default for None; UnknownModel names the known ones."""
        if name is None:
            return self.default
        for model in self:
            if model.name == name:
                return model
        raise UnknownModel(name, self.names, self._advice(name))

    def resolve(self, name: str | None, needs_view: bool) -> tuple[ModelView, Snapshot | None]:
        """The model and one state of its view, None where there is none yet.

        Where the view is needed: ViewNotBuilt if pictures are missing from it, NotReady if a migration has yet to
        find their regions.
        """
        model = self.named(name)
        # Refreshed now, since another process may already have reported newer pictures as searchable.
        model.refresh(QUERY_WAITS_S)
        snapshot = model.snapshot()
        if needs_view and (snapshot is None or not snapshot.counts.images or not model.maintained):
            self._check_searchable(model, snapshot)
        return model, snapshot

    def _check_searchable(self, model: ModelView, snapshot: Snapshot | None) -> None:
        """ViewNotBuilt or NotReady where a view is empty, or not maintained by a worker, and lacks pictures."""
        is_empty = snapshot is None or not snapshot.counts.images
        progress = self._regions.progress() if is_empty and model.maintained and self._is_current(model) else None
        if progress is not None and progress.total:
            raise migrating(progress)
        if not self._catalog.num_slots():
            return
        self._maintain(self._catalog.processes.requested_views())
        state = model.state(self._catalog)
        if snapshot is None or state.state == "not built" or nothing_searchable_yet(state):
            raise not_built(model, state, self._catalog.read_only)

    def request_build(self, model: ModelView, now: float) -> None:
        """Have a worker build and maintain the model's view from now on, also after a restart."""
        if not model.maintained:
            self._catalog.processes.request_view(model.header.digest, now)
            model.maintained = True

    def refresh(self) -> None:
        """Take up what the worker has published since, for every model."""
        self._regions.refresh()
        self._maintain(self._catalog.processes.requested_views())
        for model in self:
            model.refresh()

    def build_indexes(self) -> None:
        """Build, for every model, the indexes that are due."""
        for model in self:
            model.build_index()

    def _maintain(self, digests: Collection[str]) -> None:
        for model in self:
            model.maintained = model.maintained or model.header.digest in digests

    def close(self) -> None:
        """Close every view."""
        for model in self._models:
            model.close()


class ViewRefresher:
    """The thread that keeps the snapshots of all views up to date, so that a request has little or nothing to take up,
    and the one that builds indexes, which no request waits for."""

    def __init__(self, views: ModelViews) -> None:
        self._views = views
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(turn, seconds), name=name, daemon=True)
            for name, turn, seconds in (
                ("views", views.refresh, REFRESH_S),
                ("indexes", views.build_indexes, INDEX_S),
            )
        ]

    def start(self) -> None:
        """Open the views that exist, then refresh in the background."""
        self._views.refresh()
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether the threads run."""
        return all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """End the threads, after an index that is being built."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self, turn: Callable[[], None], seconds: float) -> None:
        logged = ""
        while not self._stop.wait(seconds):
            try:
                turn()
                logged = ""
            except Exception as fault:  # the next turn tries again, and searches use the last snapshots
                if repr(fault) == logged:  # once, not ten times a second
                    continue
                if isinstance(fault, MissingCatalog):  # its message needs no traceback
                    log.error("the views could not be refreshed: %s", fault)
                else:
                    log.exception("the views could not be refreshed")
                logged = repr(fault)


def nothing_searchable_yet(state: ViewState) -> bool:
    """Whether nothing can be found yet although more pictures wait than arrive at a time."""
    return not state.pictures and state.missing_pictures > MOST_AT_ONCE


def not_built(model: ModelView, state: ViewState, read_only: bool = False) -> ViewNotBuilt:
    """The problem for a query of a model without a view; `read_only`: nothing can be built here."""
    if read_only:
        status = (
            "is not built, and nothing can be built here: let `regard serve` open this data directory once where it may"
            " be written"
        )
    elif model.maintained:
        total = state.pictures + state.missing_pictures
        status = f"is being built, {state.pictures} of {total} pictures so far; try again shortly"
    else:
        status = f"is not built; POST /models/{model.name}/build builds it now, REGARD_VIEWS at every start"
    build = {"state": state.state, "pictures": state.pictures, "missing_pictures": state.missing_pictures}
    return ViewNotBuilt(f"The view of {model.name} {status}.", build=build)


def migrating(progress: MigrationProgress, detail: str = "") -> NotReady:
    """The problem for a request of what a migration has yet to find; `detail` replaces the first sentence."""
    sentence = detail or "Another detector replaces the one that the regions were found with"
    return NotReady(f"{sentence}: {progress}.", retry_after=RETRY_S, migration=migration_fields(progress))


def migration_fields(progress: MigrationProgress) -> dict[str, Any]:
    """The progress as members of a JSON object."""
    return {"done": progress.done, "total": progress.total, "seconds_left": progress.seconds_left}
