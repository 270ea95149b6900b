"""The models of this server, each with its view as far as a worker has built it."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from index.catalog import Catalog
from index.view import NoView, View
from models.matching.matcher import Matcher
from service.errors import UnknownModel, ViewNotBuilt


@dataclass(frozen=True)
class ViewState:
    """How much of the store a model can search."""

    state: Literal["ready", "building", "not built"]
    pictures: int
    captions: int
    missing_pictures: int
    missing_captions: int


class Served:
    """A model, and its view once there is one. Safe from many threads."""

    def __init__(self, name: str, matcher: Matcher, folder: Path, built: bool) -> None:
        """`folder` is where the view lies or will lie; `built` says whether a worker keeps it up."""
        self.name = name
        self.matcher = matcher
        self._folder = folder
        self.built = built
        self._opening = threading.Lock()
        self._view: View | None = None

    def view(self) -> View | None:
        """The view with everything published so far; None before a worker has begun it."""
        with self._opening:
            if self._view is None:
                try:
                    self._view = View.open(self._folder)
                except NoView:
                    return None
            self._view.refresh()
            return self._view

    def state(self, catalog: Catalog) -> ViewState:
        """How far the view is, against what the catalog has committed."""
        view = self.view()
        pictures, captions = view.counts if view else (0, 0)
        missing = max(0, catalog.num_slots() - pictures)
        missing_captions = max(0, catalog.num_caption_slots() - captions)
        return ViewState(self._word(missing + missing_captions), pictures, captions, missing, missing_captions)

    def _word(self, missing: int) -> Literal["ready", "building", "not built"]:
        # A view that no worker keeps up any more, left from other settings, is as good as none once it lacks something.
        if not self.built and (missing or self._view is None):
            return "not built"
        return "building" if missing else "ready"

    def close(self) -> None:
        """Close the view."""
        with self._opening:
            if self._view is not None:
                self._view.close()
                self._view = None


class Models:
    """Every model of this server by name; the first is the default."""

    def __init__(self, served: Sequence[Served]) -> None:
        self._by_name = {one.name: one for one in served}
        self.default = served[0]

    def __iter__(self) -> Iterator[Served]:
        return iter(self._by_name.values())

    @property
    def names(self) -> list[str]:
        """Known names, the default first."""
        return list(self._by_name)

    def named(self, name: str | None) -> Served:
        """The model of that name, the default for None; UnknownModel names the known ones."""
        if name is None:
            return self.default
        if name not in self._by_name:
            raise UnknownModel(name, self.names)
        return self._by_name[name]

    def searchable(self, name: str | None, catalog: Catalog) -> tuple[Served, View | None]:
        """The model and its view; None where there is nothing to search yet. ViewNotBuilt where there is."""
        served = self.named(name)
        view = served.view()
        if (view is None or not served.built) and catalog.num_slots():
            state = served.state(catalog)
            if view is None or state.state == "not built":
                raise not_built(served, state)
        return served, view


def not_built(served: Served, state: ViewState) -> ViewNotBuilt:
    """What a caller reads who asks a model that has no view."""
    what = (
        "is being built; try again shortly"
        if served.built
        else f"is not built; name {served.name} in REGARD_VIEWS and restart the worker"
    )
    build = {"state": state.state, "pictures": state.pictures, "missing_pictures": state.missing_pictures}
    return ViewNotBuilt(f"The view of {served.name} {what}.", build=build)
