"""Deletions that can be undone for a time and are final then, and changes of what is known about a picture."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.catalog.catalog import Catalog
from index.records import PictureChange
from tests.support.catalogs import image_of, is_there, make_ready, picture


def erase(catalog: Catalog, kept_since: float = 1e9) -> list[str]:
    """Erase what was deleted before; the ids whose files are to be removed."""
    catalog.erasures.erase_deleted(kept_since, 1e9, 10)
    pictures = catalog.erasures.being_erased(10)
    catalog.erasures.forget(pictures)
    return [one.image_id for one in pictures]


def test_a_deletion_is_undone_as_long_as_it_is_young_enough(catalog: Catalog) -> None:
    catalog.take_in([picture("a", captions=["x"], tags={"n": 1}, taken_at=5.0), picture("b")], now=1.0)
    make_ready(catalog, "a")
    before = image_of(catalog, "a")
    assert catalog.restore("a", kept_since=0.0) == before
    for name in "ab":
        catalog.delete(name, now=2.0)
        assert not is_there(catalog.restore(name, kept_since=2.5))
        assert is_there(catalog.restore(name, kept_since=2.0))
    assert image_of(catalog, "a") == before
    assert [waiting.image_id for waiting in catalog.queue.waiting(9)] == ["b"]
    assert not is_there(catalog.restore("none", kept_since=0.0))


def test_deleted_pictures_are_looked_through_once_a_version(catalog: Catalog) -> None:
    catalog.take_in([picture("a"), picture("b")], now=1.0)
    asked = list[str]()
    catalog._database.connection().set_trace_callback(asked.append)
    for deleted_at, name in ((3.0, "a"), (2.0, "b")):
        catalog.delete(name, now=deleted_at)
        asked.clear()
        assert [catalog.erasures.are_due(since) for since in (deleted_at, deleted_at + 0.5)] == [False, True]
        assert sum("images" in sql for sql in asked) == 1


def test_an_erased_picture_leaves_its_slots_and_nothing_else(catalog: Catalog, tmp_path: Path) -> None:
    secret = picture("a" * 32, captions=["unheard of"], tags={"who": "Nobody"}, filename="private.jpg", taken_at=5.0)
    job = catalog.take_in([secret, picture("b", captions=["x"])], now=1.0).job_id
    make_ready(catalog, "a" * 32, "b")
    catalog.hashes.add(dict.fromkeys(("a" * 32, "b"), b"12345678"))
    catalog.delete("a" * 32, now=2.0)
    assert erase(catalog, kept_since=2.0) == []
    assert erase(catalog, kept_since=2.5) == ["a" * 32]
    assert catalog.image("a" * 32) is None
    assert not is_there(catalog.restore("a" * 32, kept_since=0.0))
    assert (catalog.num_slots(), catalog.num_caption_slots()) == (2, 2)
    assert catalog.visible().tolist() == catalog.visible_captions().tolist() == [False, True]
    assert [(one.text, one.deleted) for one in catalog.captions_at([0, 1])] == [("", True), ("x", False)]
    assert [image.is_erased for image in catalog.images_in_any_state_at([0, 1])] == [True, False]
    assert catalog.counts() == {"ready": 1, "queued": 0, "failed": 0, "deleted": 0}
    status = catalog.jobs.find(job)
    assert status is not None
    assert (status.state, status.done) == ("done", 2)
    assert [tag.name for tag in catalog.tags(9, 9)] == []
    assert [image.perceptual_hash for image in catalog.images_in_any_state_at([0, 1])] == [None, b"12345678"]
    catalog.close()  # the log is folded into the file
    content = (tmp_path / "catalog.sqlite").read_bytes()
    for text in (b"unheard of", b"Nobody", b"private.jpg", b"a" * 32):
        assert text not in content


def test_the_same_picture_sent_after_its_erasure_is_a_new_one(catalog: Catalog) -> None:
    for number, when in enumerate(["before", "between", "after"]):
        catalog.take_in([picture(when, captions=["old"], tags={"old": 1}, taken_at=5.0)], now=1.0)
        make_ready(catalog, when)
        catalog.delete(when, now=2.0)
        if when != "before":
            catalog.erasures.erase_deleted(3.0, 3.0, 10)
        if when == "after":
            catalog.erasures.forget(catalog.erasures.being_erased(10))
        catalog.take_in([picture(when, captions=["new"])], now=4.0, kept_since=3.0)
        found = image_of(catalog, when)
        assert (found.captions, found.tags, found.taken_at, found.slot) == (("new",), {}, None, None)
        make_ready(catalog, when)
        assert image_of(catalog, when).slot == 2 * number + 1
        assert catalog.erasures.being_erased(10) == []  # the files are those of the new picture
    assert catalog.visible().tolist() == [False, True] * 3


@pytest.mark.parametrize("kept_since", [1.5, 2.0])
def test_a_deleted_picture_sent_again_in_time_comes_back_as_it_was(catalog: Catalog, kept_since: float) -> None:
    catalog.take_in([picture("a", captions=["old"], tags={"year": 2024}, taken_at=5.0)], now=1.0)
    make_ready(catalog, "a")
    catalog.change("a", PictureChange(filename="a name of my own.jpg"))
    before = image_of(catalog, "a")
    catalog.delete("a", now=2.0)
    catalog.take_in([picture("a", captions=["new"], filename="another.jpg")], now=3.0, kept_since=kept_since)
    assert image_of(catalog, "a") == replace(before, captions=("old", "new"))


def test_a_change_is_what_it_says_and_nothing_else(catalog: Catalog) -> None:
    catalog.take_in([picture("a", captions=["x", "y"], tags={"n": 1, "m": 2}, taken_at=5.0)], now=1.0)
    make_ready(catalog, "a")
    before = image_of(catalog, "a")
    assert catalog.change("a", PictureChange())
    assert image_of(catalog, "a") == before
    change = PictureChange(tags={"n": None, "k": "v"}, taken_at=None, filename="other.jpg")
    assert catalog.change("a", change)
    after = image_of(catalog, "a")
    assert (after.tags, after.taken_at, after.filename) == ({"m": 2, "k": "v"}, None, "other.jpg")
    assert after.captions == before.captions
    assert catalog.change("a", PictureChange(tags=None, captions=()))
    assert (image_of(catalog, "a").tags, image_of(catalog, "a").captions) == ({}, ())
    assert catalog.visible_captions().tolist() == [False, False]
    assert catalog.identities.count_captions() == (0, 0)
    assert catalog.identities.count_captions().each == 1.0
    catalog.delete("a", now=2.0)
    assert not catalog.change("a", PictureChange(filename="no.jpg"))
    assert not catalog.change("none", PictureChange())


def test_a_change_that_cannot_be_made_whole_is_not_made(catalog: Catalog) -> None:
    catalog.take_in([picture("a", captions=["x"])], now=1.0)
    before = image_of(catalog, "a")
    with pytest.raises(ValueError, match="a value is"):
        catalog.change("a", PictureChange(captions=["y"], tags={"n": float("nan")}))
    assert image_of(catalog, "a") == before


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("uvwxyz"), max_size=5), min_size=1, max_size=5), st.booleans())
def test_captions_are_what_was_said_last_in_that_order(
    tmp_path_factory: pytest.TempPathFactory, said: list[list[str]], ready: bool
) -> None:
    with closing(Catalog(tmp_path_factory.mktemp("catalog") / "catalog.sqlite")) as catalog:
        catalog.take_in([picture("a", captions=["u", "v"]), picture("b", captions=["other"])], now=1.0)
        if ready:
            make_ready(catalog, "a", "b")
        for texts in said:
            slots = catalog.num_caption_slots()
            catalog.change("a", PictureChange(captions=texts))
            assert catalog.num_caption_slots() >= slots
        if not ready:
            assert catalog.num_caption_slots() == 0
            make_ready(catalog, "a", "b")
        expected = tuple(dict.fromkeys(said[-1]))
        assert image_of(catalog, "a").captions == expected
        placed = catalog.captions_at(range(catalog.num_caption_slots()))
        shown = [one for one, visible in zip(placed, catalog.visible_captions(), strict=True) if visible]
        assert sorted((one.image_id, one.text) for one in shown) == sorted(
            [*(("a", text) for text in expected), ("b", "other")]
        )
        assert [one.deleted for one in placed] == (~catalog.visible_captions()).tolist()


def test_what_is_erased_stays_erased_in_a_catalog_that_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with closing(Catalog(path)) as catalog:
        catalog.take_in([picture("a")], now=1.0)
        catalog.delete("a", now=2.0)
        catalog.erasures.erase_deleted(3.0, 3.0, 10)
    with closing(Catalog(path)) as catalog:
        assert [one.image_id for one in catalog.erasures.being_erased(10)] == ["a"]
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT filename FROM images").fetchall() == [("",)]
