"""The models of this server, each with its view as far as a worker has built it."""

import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from index.catalog import Catalog
from index.slab import Corrupt, LayoutMismatch
from index.view import Counts, NoView, Snapshot, View, ViewMismatch
from models.matching.matcher import Matcher
from service.errors import UnknownModel, ViewNotBuilt

log = logging.getLogger(__name__)

REFRESH_S = 0.1  # a picture is found this much later than its view holds it


@dataclass(frozen=True)
class ViewState:
    """How much of the store a model can search."""

    state: Literal["ready", "building", "not built"]
    pictures: int
    captions: int
    missing_pictures: int
    missing_captions: int


class ModelView:
    """A model, and its view once there is one. Safe from many threads."""

    def __init__(self, name: str, matcher: Matcher, folder: Path, maintained: bool) -> None:
        """`folder` is where the view lies or will lie; `maintained` says whether a worker keeps it up."""
        self.name = name
        self.matcher = matcher
        self.maintained = maintained
        self._folder = folder
        self._view: View | None = None
        self._fault = ""

    def snapshot(self) -> Snapshot | None:
        """The view as it is now, to be kept for a whole query; None before a worker has begun it."""
        view = self._view
        return None if view is None else view.snapshot()

    def refresh(self) -> None:
        """Take up what the worker published since. Builds indexes, so it is no part of a request."""
        try:
            if self._view is None:
                self._view = View(self._folder)
            else:
                self._view.refresh()
        except NoView:
            pass  # not begun, or removed: what was shown is still shown
        except (Corrupt, LayoutMismatch, ViewMismatch, OSError) as fault:
            if str(fault) != self._fault:  # once, not ten times a second
                log.error("the view of %s cannot be read: %s", self.name, fault)
            self._fault = str(fault)

    def state(self, catalog: Catalog) -> ViewState:
        """How far the view is, against what the catalog has committed."""
        snapshot = self.snapshot()
        pictures, captions = snapshot.counts if snapshot else Counts(0, 0)
        missing = max(0, catalog.num_slots() - pictures)
        missing_captions = max(0, catalog.num_caption_slots() - captions)
        return ViewState(
            self._word(snapshot, missing + missing_captions), pictures, captions, missing, missing_captions
        )

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
    """Every model of this server by name; the first is the default."""

    def __init__(self, views: Sequence[ModelView], catalog: Catalog) -> None:
        self._by_name = {view.name: view for view in views}
        self._catalog = catalog
        self.default = views[0]

    def __iter__(self) -> Iterator[ModelView]:
        return iter(self._by_name.values())

    @property
    def names(self) -> list[str]:
        """Known names, the default first."""
        return list(self._by_name)

    def named(self, name: str | None) -> ModelView:
        """The model of that name, the default for None; UnknownModel names the known ones."""
        if name is None:
            return self.default
        if name not in self._by_name:
            raise UnknownModel(name, self.names)
        return self._by_name[name]

    def resolve(self, name: str | None) -> tuple[ModelView, Snapshot | None]:
        """The model and one state of its view, None for an empty store. ViewNotBuilt where pictures are not in it."""
        model = self.named(name)
        snapshot = model.snapshot()
        if (snapshot is None or not model.maintained) and self._catalog.num_slots():
            state = model.state(self._catalog)
            if snapshot is None or state.state == "not built":
                raise not_built(model, state)
        return model, snapshot

    def request_build(self, model: ModelView, now: float) -> None:
        """Have a worker build the model's view and keep it up from now on, also after a restart."""
        if not model.maintained:
            self._catalog.request_view(model.matcher.digest, now)
            model.maintained = True

    def refresh(self) -> None:
        """Take up, for every model, what the worker published since."""
        self._maintain(self._catalog.requested_views())
        for view in self:
            view.refresh()

    def _maintain(self, digests: Collection[str]) -> None:
        for view in self:
            view.maintained = view.maintained or view.matcher.digest in digests

    def close(self) -> None:
        """Close every view."""
        for view in self:
            view.close()


class ViewRefresher:
    """The one thread that keeps the snapshots of all views up: no request waits for an index to be built."""

    def __init__(self, views: ModelViews) -> None:
        self._views = views
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="views", daemon=True)

    def start(self) -> None:
        """Open what there is, then go on in the background."""
        self._views.refresh()
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread, after the index that it may be building."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(REFRESH_S):
            try:
                self._views.refresh()
            except Exception:  # whatever it is, the next turn tries again and searches use the last snapshots
                log.exception("the views could not be refreshed")


def not_built(model: ModelView, state: ViewState) -> ViewNotBuilt:
    """The problem that a caller reads who asks a model without a view."""
    what = (
        "is being built; try again shortly"
        if model.maintained
        else f"is not built; POST /models/{model.name}/build builds it now, REGARD_VIEWS at every start"
    )
    build = {"state": state.state, "pictures": state.pictures, "missing_pictures": state.missing_pictures}
    return ViewNotBuilt(f"The view of {model.name} {what}.", build=build)
