"""The models of this server, each with its view as far as a worker has built it."""

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

REFRESH_S = 0.1  # a picture is found this much later than its view holds it
QUERY_WAITS_S = 0.25  # that a query has for rows that another thread takes up: it searches those of before then
INDEX_S = 1.0  # between two looks whether an index is due
RETRY_S = 5  # the first pictures of a migration can be searched after about so long


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
        self._visible = (-1, 0, 0), (0, 0)  # the numbers of what is shown, and at which version of what
        self._folder = folder
        self._view: View | None = None
        self._opening = threading.Lock()
        self._fault = ""

    @property
    def header(self) -> MatcherHeader:
        """The part of the model that is known without its weights."""
        return self._model.header

    @property
    def loaded(self) -> bool:
        """Whether the model's weights are in memory."""
        return self._model.loaded

    @property
    def matcher(self) -> Matcher:
        """The model itself, which is read where it was not, while the caller waits; then whatever that raises."""
        return self._model.matcher

    def snapshot(self) -> Snapshot | None:
        """The view as it is now, to be kept for a whole query; None before a worker has begun it."""
        view = self._view
        return None if view is None else view.snapshot()

    def refresh(self, patience_s: float = threading.TIMEOUT_MAX) -> None:
        """Take up what the worker published since: a look at a small file where that is nothing.

        Another thread that does the same is waited for `patience_s` seconds at most.
        """
        try:
            view = self._view
            if view is None:
                self._open(patience_s)
            else:
                view.refresh(patience_s)
            self._fault = ""
        except NoView:
            pass  # not begun, or removed: what was shown is still shown
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
        word = self._word(snapshot, missing + missing_captions)
        return ViewState(word, *self._num_visible(catalog, pictures, captions), missing, missing_captions)

    def _num_visible(self, catalog: Catalog, pictures: int, captions: int) -> tuple[int, int]:
        """The numbers of shown pictures and captions among the first rows, counted anew only after a change: health
        checks ask for them too."""
        key = catalog.version(), pictures, captions
        kept = self._visible  # which other threads replace
        if kept[0] != key:
            kept = self._visible = key, catalog.num_visible(pictures, captions)
        return kept[1]

    def _word(self, snapshot: Snapshot | None, missing: int) -> Literal["ready", "building", "not built"]:
        # A view that no worker keeps up any more, left from other settings, is as good as none once it lacks something.
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

    Each searches the regions of its own extractor. Models of a former one answer for as long as its regions are there.
    """

    def __init__(
        self,
        views: Sequence[ModelView],
        catalog: Catalog,
        regions: RegionStores,
        advice: Callable[[str], str] = lambda name: "",
    ) -> None:
        """`views`: the default first. `advice` says of the name of a model that is not here how it could be, if so."""
        self._advice = advice
        self._views = tuple(views)
        self._catalog, self._regions = catalog, regions
        for view in self._views:  # what a former extractor found is not extended any more, and yet it is no fault
            view.maintained = view.maintained or not self._is_current(view)

    def __iter__(self) -> Iterator[ModelView]:
        return (view for view in self._views if self._regions.state(view.header.extractor_digest) in ANSWERING)

    def _is_current(self, view: ModelView) -> bool:
        return view.header.extractor_digest == self._regions.extractor

    @property
    def default(self) -> ModelView:
        """The first model; during a migration, the first whose view holds what the former detector found."""
        for view in self:
            if self._regions.state(view.header.extractor_digest) == "former" and view.snapshot() is not None:
                return view
        return next(view for view in self if self._is_current(view))

    @property
    def names(self) -> list[str]:
        """Known names, the default first."""
        return sorted((view.name for view in self), key=lambda name: name != self.default.name)

    def named(self, name: str | None) -> ModelView:
        """The model of that name, the default for None; UnknownModel names the known ones."""
        if name is None:
            return self.default
        for view in self:
            if view.name == name:
                return view
        raise UnknownModel(name, self.names, self._advice(name))

    def resolve(self, name: str | None, needs_view: bool) -> tuple[ModelView, Snapshot | None]:
        """The model and one state of its view, None where there is none yet.

        Where the view is needed, ViewNotBuilt where pictures are not in it, NotReady where their regions are yet to be
        found anew.
        """
        model = self.named(name)
        # What another process has called searchable is found here too, whenever the last turn of refreshing was.
        model.refresh(QUERY_WAITS_S)
        snapshot = model.snapshot()
        if needs_view and (snapshot is None or not snapshot.counts.images or not model.maintained):
            self._check_searchable(model, snapshot)
        return model, snapshot

    def _check_searchable(self, model: ModelView, snapshot: Snapshot | None) -> None:
        """ViewNotBuilt or NotReady where a view that is empty, or that no worker keeps up, lacks pictures."""
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
        """Have a worker build the model's view and keep it up from now on, also after a restart."""
        if not model.maintained:
            self._catalog.processes.request_view(model.header.digest, now)
            model.maintained = True

    def refresh(self) -> None:
        """Take up, for every model, what the worker published since."""
        self._regions.refresh()
        self._maintain(self._catalog.processes.requested_views())
        for view in self:
            view.refresh()

    def build_indexes(self) -> None:
        """Build, for every model, the indexes that are due."""
        for view in self:
            view.build_index()

    def _maintain(self, digests: Collection[str]) -> None:
        for view in self:
            view.maintained = view.maintained or view.header.digest in digests

    def close(self) -> None:
        """Close every view."""
        for view in self._views:
            view.close()


class ViewRefresher:
    """The threads that keep the snapshots of all views up, so that a request finds little or nothing to take up, and
    those that build indexes, for which none waits."""

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
        """Open what there is, then go on in the background."""
        self._views.refresh()
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether the threads run."""
        return all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """End the threads, after the index that one may be building."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self, turn: Callable[[], None], seconds: float) -> None:
        told = ""
        while not self._stop.wait(seconds):
            try:
                turn()
                told = ""
            except MissingCatalog as fault:  # whose message says all
                if repr(fault) != told:
                    log.error("the views could not be refreshed: %s", fault)
                told = repr(fault)
            except Exception as fault:  # whatever it is, the next turn tries again and searches use the last snapshots
                if repr(fault) != told:  # once, not ten times a second
                    log.exception("the views could not be refreshed")
                told = repr(fault)


def nothing_searchable_yet(state: ViewState) -> bool:
    """Whether none of many pictures can be found yet: more than come in at a time."""
    return not state.pictures and state.missing_pictures > MOST_AT_ONCE


def not_built(model: ModelView, state: ViewState, read_only: bool = False) -> ViewNotBuilt:
    """The problem that a caller reads who asks a model without a view; `read_only`: where nothing can be built."""
    if read_only:
        what = (
            "is not built, and nothing can be built here: let `regard serve` open this data directory once where it may"
            " be written"
        )
    elif model.maintained:
        total = state.pictures + state.missing_pictures
        what = f"is being built, {state.pictures} of {total} pictures so far; try again shortly"
    else:
        what = f"is not built; POST /models/{model.name}/build builds it now, REGARD_VIEWS at every start"
    build = {"state": state.state, "pictures": state.pictures, "missing_pictures": state.missing_pictures}
    return ViewNotBuilt(f"The view of {model.name} {what}.", build=build)


def migrating(progress: MigrationProgress, detail: str = "") -> NotReady:
    """The problem that a caller reads who asks for what a migration has yet to find; `detail` replaces the sentence."""
    said = f"{progress}"
    sentence = detail or "Another detector replaces the one that the regions were found with"
    return NotReady(f"{sentence}: {said}.", retry_after=RETRY_S, migration=migration_fields(progress))


def migration_fields(progress: MigrationProgress) -> dict[str, Any]:
    """The progress as members of a JSON object."""
    return {"done": progress.done, "total": progress.total, "seconds_left": progress.seconds_left}
