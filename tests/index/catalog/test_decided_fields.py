"""An edit of a picture that waits for its regions holds, whatever its file says once they are found."""

from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

import pytest

from index.catalog.catalog import Catalog
from index.catalog.changes.decided_fields import DEFAULT_DATE
from index.records import PictureChange
from tests.support.catalogs import make_ready, picture

FILE_SAYS: dict[str, Any] = {"captions": ["of the file"], "tags": {"keywords": "a; b", "camera": "x"}, "taken_at": 9.0}
NEVER_EDITED = (("given", "of the file"), {"keywords": "a; b", "camera": "x", "place": "Oslo"}, 9.0)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A picture that waits, sent with a caption and a tag."""
    catalog = Catalog(tmp_path / "catalog.sqlite")
    catalog.take_in([picture("one", captions=["given"], tags={"place": "Oslo"})], now=1.0)
    return catalog


def said_of(catalog: Catalog) -> tuple[tuple[str, ...], dict[str, Any], float | None]:
    image = catalog.image("one")
    assert image is not None
    return image.captions, dict(image.tags), image.taken_at


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, NEVER_EDITED),
        ({"filename": "two.jpg"}, NEVER_EDITED),
        ({"captions": []}, ((), *NEVER_EDITED[1:])),
        ({"captions": ["mine"]}, (("mine",), *NEVER_EDITED[1:])),
        ({"taken_at": None}, (*NEVER_EDITED[:2], None)),
        ({"taken_at": 5.0}, (*NEVER_EDITED[:2], 5.0)),
        ({"tags": None}, (NEVER_EDITED[0], {}, 9.0)),
        ({"tags": {"keywords": None}}, (NEVER_EDITED[0], {"camera": "x", "place": "Oslo"}, 9.0)),
        ({"tags": {"place": None, "n": 1}}, (NEVER_EDITED[0], {"keywords": "a; b", "camera": "x", "n": 1}, 9.0)),
    ],
)
def test_what_was_edited_while_it_waited_is_as_it_was_edited(
    catalog: Catalog, change: dict[str, Any], expected: object
) -> None:
    assert catalog.change("one", PictureChange(**change))
    make_ready(catalog, "one", **FILE_SAYS)
    assert said_of(catalog) == expected
    assert catalog.decided_fields("one") == []


@pytest.mark.parametrize(("edited", "of_file"), [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("value", ["mine", None])
def test_a_tag_is_the_same_however_its_accents_are_written(
    catalog: Catalog, edited: Literal["NFC", "NFD"], of_file: Literal["NFC", "NFD"], value: str | None
) -> None:
    """In a file that comes later, and in one that was sent with a tag."""
    catalog.change("one", PictureChange(tags={normalize(edited, "café"): value}))
    make_ready(catalog, "one", tags={normalize(of_file, "café"): "of the file"})
    assert said_of(catalog)[1] == {"place": "Oslo"} | ({} if value is None else {"café": value})
    catalog.take_in([picture("two", tags={normalize(edited, "café"): "given"})], now=1.0)
    make_ready(catalog, "two", tags={normalize(of_file, "café"): "of the file"})
    image = catalog.image("two")
    assert image is not None
    assert image.tags == {"café": "given"}


def test_edits_outlast_a_failure_a_deletion_and_being_sent_again(catalog: Catalog) -> None:
    catalog.change("one", PictureChange(captions=[]))
    catalog.queue.set_aside("one", "broken", 2.0)
    catalog.queue.retry("one", 3.0)
    catalog.change("one", PictureChange(taken_at=None))
    catalog.delete("one", 4.0)
    catalog.take_in([picture("one")], now=5.0)
    make_ready(catalog, "one", **FILE_SAYS)
    assert said_of(catalog) == ((), NEVER_EDITED[1], None)


def test_what_comes_anew_after_it_was_erased_is_described_by_its_file_again(catalog: Catalog) -> None:
    catalog.change("one", PictureChange(captions=[], tags=None))
    catalog.delete("one", 2.0)
    catalog.take_in([picture("one")], now=9.0, kept_since=3.0)
    make_ready(catalog, "one", **FILE_SAYS)
    assert said_of(catalog) == (("of the file",), FILE_SAYS["tags"], 9.0)


def test_a_picture_that_comes_described_takes_nothing_from_its_file(catalog: Catalog) -> None:
    whole = ("captions", "tags", "taken_at")
    catalog.take_in([picture("two", captions=["whole"], decided_fields=whole)], now=2.0)
    assert catalog.decided_fields("two") == list(whole)
    make_ready(catalog, "two", **FILE_SAYS)
    image = catalog.image("two")
    assert image is not None
    assert (image.captions, dict(image.tags), image.taken_at) == (("whole",), {}, None)


@pytest.mark.parametrize(("of_file", "again", "expected"), [(9.0, None, 9.0), (None, None, 5.0), (9.0, 6.0, 6.0)])
def test_a_default_date_gives_way_to_that_in_the_file(
    catalog: Catalog, of_file: float | None, again: float | None, expected: float
) -> None:
    catalog.take_in([picture("one", taken_at=5.0, decided_fields=(DEFAULT_DATE,))], now=2.0)
    catalog.take_in([picture("one", taken_at=again)], now=3.0)
    make_ready(catalog, "one", taken_at=of_file, date_in_name=7.0)
    assert said_of(catalog)[2] == expected
