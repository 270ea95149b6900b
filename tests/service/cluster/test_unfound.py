"""A replica that came back answers once it finds what waited in it then, whatever comes in later."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from service.api.stored_pictures import StoredPictures
from service.cluster.shards.unfound import BETWEEN_LOOKS_S, Unfound
from service.search.model_views import ViewState
from tests.support.pictures import encoded
from tests.support.worker_store import Store, noise

STATES = {"a": ViewState("ready", 5, 0, 0, 0), "b": ViewState("not built", 0, 0, 5, 0)}


class Views:
    """States of views that a test sets."""

    def __init__(self) -> None:
        self.states = dict(STATES)

    def view_states(self) -> list[tuple[SimpleNamespace, ViewState]]:
        return [(SimpleNamespace(header=SimpleNamespace(digest=name)), state) for name, state in self.states.items()]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += BETWEEN_LOOKS_S
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.catalog.close()


@pytest.fixture
def views() -> Views:
    return Views()


@pytest.fixture
def unfound(store: Store, views: Views) -> Callable[[], Unfound]:
    return lambda: Unfound(store.catalog, cast(StoredPictures, views), Clock())


def test_nothing_that_waits_is_waited_for(unfound: Callable[[], Unfound]) -> None:
    assert unfound().are_found()


def test_queued_pictures_are_waited_for_until_views_have_them(
    store: Store, views: Views, unfound: Callable[[], Unfound]
) -> None:
    store.accept(encoded(noise(1), "PNG"))
    waiting = unfound()
    assert not waiting.are_found()
    store.drain()
    views.states["a"] = ViewState("ready", 5, 0, 1, 0)  # six have regions, and the view has five of them
    assert not waiting.are_found()
    store.accept(encoded(noise(2), "PNG"))
    views.states["a"] = ViewState("ready", 5, 0, 9, 0)  # later ones do not make it wait longer
    assert not waiting.are_found()
    views.states["a"] = ViewState("ready", 6, 0, 8, 0)
    assert waiting.are_found()


def test_pictures_that_were_deleted_meanwhile_are_not_waited_for(
    store: Store, views: Views, unfound: Callable[[], Unfound]
) -> None:
    views.states["a"] = ViewState("building", 5, 0, 2, 0)
    waiting = unfound()
    assert not waiting.are_found()
    views.states["a"] = ViewState("ready", 4, 0, 0, 0)
    assert waiting.are_found()
