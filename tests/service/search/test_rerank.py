"""Stage two: chunks change nothing, and reasons are those of the scores."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service.search import rerank
from tests.support.library import Library, image_id_of, sixty_four, two_coloured


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    library = sixty_four(tmp_path_factory.mktemp("full"))
    yield library
    library.close()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library(tmp_path)
    yield library
    library.close()


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_chunks_change_nothing(full: Library, chunk: int) -> None:
    view = full.models.default.snapshot()
    assert view is not None
    words, _ = full.matcher.encode_sentences(["green and white"])
    images, _ = full.matcher.encode_regions(full.search.stored(image_id_of("green and white"))[0].as_batch())
    rows = np.arange(63, -1, -1)
    whole = rerank.score_pictures(full.matcher, view, rows, words, chunk=64)
    np.testing.assert_allclose(rerank.score_pictures(full.matcher, view, rows, words, chunk), whole, atol=1e-6)
    captions = rerank.score_captions(full.matcher, view, rows, images, chunk=64)
    np.testing.assert_allclose(rerank.score_captions(full.matcher, view, rows, images, chunk), captions, atol=1e-6)


def test_an_explanation_adds_up_and_points_at_regions_of_the_picture(full: Library) -> None:
    outcome = full.text("a red wall", k=70, shortlist=70, explain=True)
    assert len(outcome.results) == 64
    for hit in outcome.results:
        why = hit.explanation
        assert why is not None
        assert why.contributions is not None
        assert why.attention is not None
        assert [word.text for word in why.words] == ["<start>", "a", "red", "wall", "<end>"]
        assert [word.special for word in why.words] == [True, False, False, False, True]
        assert sum(why.contributions) == pytest.approx(hit.score, abs=1e-6)
        assert why.shares is not None
        assert np.array(why.shares).shape == (5, 4)
        np.testing.assert_allclose(np.array(why.shares).sum(1), why.contributions, atol=1e-6)
        assert np.array(why.shares).sum() == pytest.approx(hit.score, abs=1e-6)
        assert [region.label for region in why.regions] == ["picture", "left", "right", "centre"]
        assert [region.box for region in why.regions][1] == (0, 0, 20, 20)
        assert np.array(why.attention).shape == (5, 4)
        np.testing.assert_allclose(np.array(why.attention)[[2]].sum(1), 1, atol=1e-5)
    best = outcome.results[0].explanation
    assert best is not None
    assert best.attention is not None
    looked_at = best.regions[int(np.argmax(best.attention[2]))]
    assert "red" in outcome.results[0].filename
    assert looked_at.label in {"left", "right", "picture", "centre"}


def test_explanations_leave_out_rows_that_are_no_region(library: Library) -> None:
    library.add("narrow", two_coloured("red", "red", width=6))
    (hit,) = library.text("red", explain=True).results
    assert hit.explanation is not None
    assert len(hit.explanation.regions) == 1
    assert np.array(hit.explanation.attention).shape == (3, 1)
    assert np.array(hit.explanation.shares).shape == (3, 1)


def test_nothing_is_explained_unasked(full: Library) -> None:
    assert all(hit.explanation is None for hit in full.text("red").results)
