"""Ranking by text over several catalogs is that over one with all their pictures."""

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.catalog.catalog import Catalog
from index.catalog.filters import Filter
from index.catalog.text.search import match_expression
from index.catalog.text.statistics import TextStatistics, varints
from tests.support.catalogs import make_ready, picture

WORDS = ("beach", "dog", "red", "snow", "14", "kueche", "küche")
FOLDERS = ("1.jpg", "red dogs/2.jpg", "beach/dog/3.jpg")
MAY_14 = 1684065600.0
CAPTIONS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=200).map(" ".join)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    described=st.lists(st.tuples(CAPTIONS, st.sampled_from(FOLDERS), st.integers(0, 2)), min_size=1, max_size=12),
    question=st.lists(st.sampled_from((*WORDS, "jpg", "red dog", "may")), min_size=1, max_size=3).map(" ".join),
    limit=st.integers(1, 12),
)
def test_distances_and_order_are_those_of_one_catalog(
    described: list[tuple[str, str, int]], question: str, limit: int
) -> None:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        whole, *shards = (stack.enter_context(closing(Catalog(Path(folder, f"{n}.sqlite")))) for n in range(4))
        for n, (caption, filename, place) in enumerate(described):
            for catalog in (whole, shards[place]):
                said = picture(f"{n:03}", captions=[caption], taken_at=MAY_14, filename=filename)
                catalog.take_in([said], now=float(n))
                make_ready(catalog, f"{n:03}")
        everywhere = TextStatistics.total([shard.shared_texts.statistics(question) for shard in shards])
        assert everywhere == whole.shared_texts.statistics(question)
        parts = [shard.shared_texts.matches(question, limit, Filter(), everywhere) for shard in shards]
        for shard, part in zip(shards, parts, strict=True):
            here, counted = shard.shared_texts.counted(question, limit, Filter())
            assert here == shard.shared_texts.statistics(question)
            every = shard.shared_texts.matches(question, len(described), Filter(), everywhere)
            assert (counted is None) == (len(every) > limit)
            if counted is not None:
                scored = [(one.image.image_id, one.scored(everywhere).order) for one in counted]
                assert sorted(scored) == sorted((one.image.image_id, one.order) for one in part)
        merged = sorted((one for part in parts for one in part), key=lambda one: (one.order, -one.image.added_at))
        alone = whole.texts.matches(question, limit, Filter())
        found = [(one.image.image_id, one.by_folder) for one in merged[:limit]]
        assert found == [(match.image.image_id, match.by_folder) for match in alone]
        with closing(sqlite3.connect(Path(folder, "0.sqlite"))) as db:
            for one in merged:
                words = match_expression(question)
                number = "SELECT number FROM images WHERE image_id = ?"
                sql = f"SELECT bm25(texts) FROM texts WHERE texts MATCH ? AND rowid = ({number})"
                (minus_bm25,) = db.execute(sql, [words, one.image.image_id]).fetchone()
                assert one.bm25 == pytest.approx(-minus_bm25, abs=2e-9)


def test_a_question_without_a_word_and_an_empty_catalog_match_nothing(tmp_path: Path) -> None:
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        for question in ("!?", "red dog"):
            statistics = catalog.shared_texts.statistics(question)
            assert (statistics.texts, statistics.words) == (0, 0)
            assert catalog.shared_texts.matches(question, 10, Filter(), statistics) == []


def test_a_text_newer_than_the_statistics_has_a_bm25() -> None:
    assert TextStatistics(0, 0, (0,)).bm25([1], 5) > 0


def test_numbers_of_variable_length_are_read_as_sqlite_writes_them() -> None:
    assert varints(b"\x00\x7f\x81\x48\x82\x80\x00") == [0, 127, 200, 2 * 2**14]
    assert varints(b"\xff" * 9) == [2**64 - 1]
