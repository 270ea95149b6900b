"""Views as searches see them: one state a query, refreshed by one thread in the background."""

import threading
from pathlib import Path

import pytest

from index.catalog.database.faults import MissingCatalog
from index.records import PictureChange
from index.views.shortlist import Shortlist
from index.views.view import View
from index.views.view_manifest import MANIFEST_FORMAT
from service.search import model_views
from service.search.model_views import ViewRefresher
from tests.support.library import NOW, Library, two_coloured
from tests.support.processes import wait_until


def test_what_a_worker_publishes_is_found_soon(library: Library) -> None:
    refresher = ViewRefresher(library.models)
    refresher.start()
    library.add("red", two_coloured("red", "red"), view=False)
    library.extend_view()
    wait_until(lambda: len(library.text("red").results) == 1)
    refresher.close()
    assert not refresher.alive


def test_while_an_index_is_built_the_old_snapshot_answers(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.add("red", two_coloured("red", "red"))
    building, go = threading.Event(), threading.Event()
    extended = Shortlist.extended

    def slowly(self: Shortlist, embeddings: object) -> Shortlist:
        building.set()
        assert go.wait(30)
        return extended(self, embeddings)  # type: ignore[arg-type]

    monkeypatch.setattr(Shortlist, "extended", slowly)
    library.add("blue", two_coloured("blue", "blue"), view=False)
    library.extend_view()
    thread = threading.Thread(target=library.models.refresh)
    thread.start()
    assert building.wait(30)
    assert len(library.text("red").results) == 1
    go.set()
    thread.join()
    assert len(library.text("red").results) == 2


def test_what_another_process_has_called_searchable_is_found_at_once(library: Library) -> None:
    library.add("red", two_coloured("red", "red"))
    library.extend_view()
    library.models.refresh()
    library.add("blue", two_coloured("blue", "blue"), view=False)
    library.extend_view()  # and no turn of refreshing since
    assert len(library.text("red").results) == 2


def test_new_pictures_are_found_while_an_index_is_built(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.add("red", two_coloured("red", "red"))
    building, go = threading.Event(), threading.Event()

    def slowly(_view: View) -> bool:
        building.set()
        return go.wait(30)

    monkeypatch.setattr(View, "build_index", slowly)
    monkeypatch.setattr(model_views, "INDEX_S", 0.01)
    refresher = ViewRefresher(library.models)
    refresher.start()
    assert building.wait(30)
    assert len(library.text("red").results) == 1
    library.add("blue", two_coloured("blue", "blue"), view=False)
    library.extend_view()
    wait_until(lambda: len(library.text("red").results) == 2)
    assert refresher.alive
    go.set()
    refresher.close()
    assert not refresher.alive


def test_a_query_keeps_the_state_that_it_began_with(library: Library) -> None:
    for name in ("red", "green", "blue"):
        library.add(name, two_coloured(name, name))
    query = library.search.begin(library.request("red"))
    library.writer.cut_back(1, 0)
    assert len(library.text("red").results) == 3, "no query loads a view afresh"
    library.models.refresh()
    assert len(library.text("red").results) == 1
    assert len(library.search.text(query).results) == 3


def test_a_fault_of_some_turns_is_told_once_and_does_not_end_the_refreshing(
    library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refresh, turns = library.models.refresh, list[int]()

    def failing() -> None:
        turns.append(len(turns))
        if 2 <= len(turns) <= 4:
            raise RuntimeError("a fault")
        refresh()

    monkeypatch.setattr(library.models, "refresh", failing)
    refresher = ViewRefresher(library.models)
    refresher.start()
    wait_until(lambda: len(turns) > 6)
    assert refresher.alive
    refresher.close()
    assert [record.message for record in caplog.records] == ["the views could not be refreshed"]


def test_a_data_directory_that_is_away_is_told_in_one_line(
    library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns: list[int] = []

    def failing() -> None:
        turns.append(len(turns))
        if len(turns) > 1:
            raise MissingCatalog(Path("catalog.sqlite"))

    monkeypatch.setattr(library.models, "refresh", failing)
    refresher = ViewRefresher(library.models)
    refresher.start()
    wait_until(lambda: len(turns) > 3)
    refresher.close()
    (record,) = caplog.records
    assert record.message.startswith("the views could not be refreshed: catalog.sqlite is not there any more")
    assert record.exc_info is None


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"format": FORMAT, "layout": {}}', '{"format": FORMAT, "layout": {}, "x": 1}']
)
def test_a_damaged_view_is_reported_once_and_answers_as_before(
    library: Library, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    library.add("red", two_coloured("red", "red"))
    manifest = library.folder / "views" / library.matcher.digest / "manifest.json"
    manifest.write_text(content.replace("FORMAT", str(MANIFEST_FORMAT)))
    for _ in range(3):
        library.models.refresh()
    assert len(library.text("red").results) == 1
    assert ["cannot be read" in record.message for record in caplog.records] == [True]


def test_pictures_and_captions_that_are_deleted_are_not_counted(library: Library) -> None:
    added = [library.add(name, two_coloured(name, name), captions=[name, "both"]) for name in ("red", "blue", "green")]
    (model,) = library.models
    state = model.state(library.catalog)
    assert (state.pictures, state.captions) == (3, 6)
    library.catalog.delete(added[0], NOW)
    library.catalog.change(added[1], PictureChange(captions=["blue"]))
    state = model.state(library.catalog)
    assert (state.pictures, state.captions, state.missing_pictures, state.missing_captions) == (2, 3, 0, 0)
