"""Stage two: chunks change nothing, and reasons are those of the scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from index.views.view import View
from index.views.view_writer import ViewWriter
from models.batches import Regions
from service.search.scoring import rerank
from tests.support.fakes import D
from tests.support.kernels import load_kernels
from tests.support.library import Library, image_id_of, two_coloured
from tests.support.small_matchers import fused_but_for_short_questions, small_matcher


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_chunks_change_nothing(full: Library, chunk: int) -> None:
    view = full.models.default.snapshot()
    assert view is not None
    words, _ = full.matcher.encode_sentences(["green and white"])
    images, _ = full.matcher.encode_regions(full.features(image_id_of("green and white")).as_batch())
    rows = np.arange(63, -1, -1)
    whole = rerank.score_pictures(full.matcher, view, rows, words, chunk=64)
    np.testing.assert_allclose(rerank.score_pictures(full.matcher, view, rows, words, chunk), whole, atol=1e-6)
    captions = rerank.score_captions(full.matcher, view, rows, images, chunk=64)
    np.testing.assert_allclose(rerank.score_captions(full.matcher, view, rows, images, chunk), captions, atol=1e-6)


def test_stored_pictures_are_scored_where_they_lie(tmp_path: Path) -> None:
    """The kernels read the view's own file, while it grows too, and give what PyTorch gives from copies."""
    matcher, kernels = small_matcher("bfan-equal"), load_kernels()
    vectors = torch.randn(7, 5, D, generator=torch.Generator().manual_seed(1))
    regions = Regions(vectors, torch.arange(5) < torch.arange(1, 8)[:, None])
    encoded, embeddings = matcher.encode_regions(regions)
    records = {name: tensor.numpy() for name, tensor in encoded.tensors().items()}
    about: dict[str, Any] = {
        "layout": matcher.image_layout(5, D),
        "embed_dim": matcher.embed_dim,
        "word_dim": matcher.word_dim,
    }
    writer = ViewWriter(tmp_path, **about, digest="model", extractor="detector")
    writer.add_images(0, {name: array[:4] for name, array in records.items()}, embeddings[:4].numpy())
    view = View(tmp_path)
    before = view.snapshot()
    writer.add_images(4, {name: array[4:] for name, array in records.items()}, embeddings[4:].numpy())
    view.refresh()
    texts, _ = matcher.encode_sentences(["red green"])
    for snapshot, rows in ((before, [3, 0, 2]), (view.snapshot(), [6, 0, 5, 5]), (before, [])):
        matcher.use_kernels(None)
        assert rerank.score_stored(matcher, snapshot, rows, texts) is None
        copied = rerank.score_pictures(matcher, snapshot, rows, texts)
        matcher.use_kernels(kernels)
        in_place = rerank.score_stored(matcher, snapshot, rows, texts)
        assert in_place is not None
        np.testing.assert_allclose(in_place, copied, atol=1e-5)
        np.testing.assert_array_equal(rerank.score_pictures(matcher, snapshot, rows, texts), in_place)
    with pytest.raises(IndexError, match="the snapshot has 4 pictures, asked for 4"):
        rerank.score_pictures(matcher, before, [4], texts)


def test_stored_captions_are_scored_as_answers_and_not_as_short_questions(tmp_path: Path) -> None:
    matcher = fused_but_for_short_questions("scan-t2i-avg", 3)
    vectors = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(1))
    images, _ = matcher.encode_regions(Regions(vectors, torch.ones(2, 5, dtype=torch.bool)))
    texts, embeddings = matcher.encode_sentences(["red", "a wide green wall"])
    about: dict[str, Any] = {
        "layout": matcher.image_layout(5, D),
        "embed_dim": matcher.embed_dim,
        "word_dim": matcher.word_dim,
    }
    words = [vectors[mask].numpy() for vectors, mask in zip(texts.vectors, texts.mask, strict=True)]
    ViewWriter(tmp_path, **about, digest="model", extractor="detector").add_captions(0, words, embeddings.numpy())
    found = rerank.score_captions(matcher, View(tmp_path).snapshot(), [0, 1], images[[1]])
    answers = matcher.score(images, matcher.texts_from(texts.words, asked=False))[:, 1]
    np.testing.assert_allclose(found, answers, atol=2e-3)  # records are fp16
    assert abs(float(matcher.score(images, texts)[0, 1] - answers[0])) > 0.01


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
