"""The walk of a question: it enters index/ for a shortlist, for records and for rows, once each."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from service.search.requests import ImageSearchRequest, TextSearchRequest
from service.search.wording.parsed_query import parse_query
from tests.support.library import NAMES, Library, image_id_of, sixty_four
from tests.support.project_files import ROOT

INDEX = str(ROOT / "index")
# The state of the store that a query begins with, and which pictures (or captions) may be found: no reading of any.
STATE = {"Catalog.visible", "Catalog.visible_captions", "Queue.num_waiting", "RegionStoreTable.blank_slots"}
STATE |= {"View.snapshot", "View.refresh", "PictureHashes.plain_slots", "PictureHashes.rounds"}
NUMBERS = {"Catalog.version", "Snapshot.counts", "Snapshot.images_in_place", "Shortlist.__len__", "Catalog.image"}
NUMBERS |= {"Manifest.edition"}
WORDS = {"is_date"}  # of the question, which is looked at in no store


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Library]:
    library = sixty_four(tmp_path)
    yield library
    library.close()


def entries(work: Callable[[], object]) -> Counter[str]:
    """The number of calls of each function of index/ from outside of it, by its qualified name."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back
        if event != "call" or caller is None or not frame.f_code.co_filename.startswith(INDEX):
            return
        # contextlib resumes generators of index/ that index/ itself opened
        if not caller.f_code.co_filename.startswith(INDEX) and "contextlib" not in caller.f_code.co_filename:
            calls[frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_a_sentence_takes_a_shortlist_records_and_rows_once_each(full: Library) -> None:
    request = TextSearchRequest(query="red and blue", match="pictures")
    calls = entries(lambda: full.search.text(full.search.begin(request)))
    assert {name: calls.pop(name) for name in [*calls] if name not in STATE | NUMBERS | WORDS} == {
        "SharedSearches.search": 1,
        "Snapshot.read_images": 1,
        "Catalog.images_at": 1,
    }
    assert {name: number for name, number in calls.items() if name in STATE and number > 1} == {}


def test_a_stored_picture_takes_a_shortlist_records_and_rows_once_each(full: Library) -> None:
    image_id = image_id_of(NAMES[0])
    request = ImageSearchRequest(image_id=image_id, target="images")
    calls = entries(lambda: full.search.like_stored(full.search.begin(request), image_id))
    assert {name: calls.pop(name) for name in [*calls] if name not in STATE | NUMBERS} == {
        "SharedSearches.search": 1,
        "Slab.read": 1,  # its regions
        "Catalog.images_at": 1,
    }


def test_a_second_entry_is_counted(full: Library) -> None:
    request = TextSearchRequest(query="red and blue", match="pictures")
    calls = entries(lambda: [full.search.text(full.search.begin(request)) for _ in range(2)])
    assert calls["SharedSearches.search"] == calls["Snapshot.read_images"] == 2
    assert calls["Catalog.images_at"] == 1  # the second search finds the same pictures, as they were


@pytest.mark.parametrize("query", ["show me red without blue", "rot ohne blau"])
def test_the_words_of_a_query_are_parsed_once(full: Library, query: str) -> None:
    request = TextSearchRequest(query=query, explain=True)
    parse_query.cache_clear()
    begun = full.search.begin(request)
    full.search.costs.of(begun)
    full.search.text(begun)
    parsed = parse_query.cache_info()
    assert (parsed.misses, parsed.hits) == (1, 0)
