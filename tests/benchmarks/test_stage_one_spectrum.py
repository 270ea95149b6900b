"""The spectrum of a view: what is fitted to drawn vectors is what they were drawn from."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.stage_one_spectrum import HUB_NUMBERS, described, fitted, principal_axes, recalls, view_vectors
from service.bench.drawn_embeddings import PICTURE_SPREAD, drawn_pictures, drawn_sentences
from tests.support.small_views import EMBED, build, images


def test_the_fit_of_drawn_pictures_is_what_they_were_drawn_with() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((20_000, 64), np.float32) * PICTURE_SPREAD.deviations(64)
    vectors[:, 3] += 0.5
    turned = vectors @ np.linalg.qr(generator.standard_normal((64, 64)))[0].astype(np.float32)
    fit = fitted(turned, principal_axes(turned))
    assert fit.mean == pytest.approx(0.5, abs=0.01)
    assert fit.power == pytest.approx(PICTURE_SPREAD.power, abs=0.03)
    assert fit.decay == pytest.approx(PICTURE_SPREAD.decay, rel=0.2)


def test_more_lists_find_more_and_all_find_everything() -> None:
    pictures, sentences = drawn_pictures(500, 32, 1), drawn_sentences(50, 32, 2)
    found = recalls(pictures, sentences, 100, (1 / 8, 1 / 2, 1.0))
    assert 0.1 < found[0] < found[1] < found[2] == 1.0


def test_vectors_of_a_view_come_without_the_numbers_against_hubs(tmp_path: Path) -> None:
    build(tmp_path, 30, 12)
    pictures, sentences = view_vectors(tmp_path)
    np.testing.assert_array_equal(pictures, images(0, 30)[1][:, :-HUB_NUMBERS])
    assert sentences.shape == (12, EMBED - HUB_NUMBERS)


def test_a_view_without_captions_is_refused_in_words(tmp_path: Path) -> None:
    build(tmp_path, 3, 0)
    with pytest.raises(SystemExit, match="has 3 pictures and 0 captions"):
        view_vectors(tmp_path)


def test_the_report_has_both_columns() -> None:
    report = described(drawn_pictures(300, 32, 1), drawn_sentences(20, 32, 2))
    assert report.startswith("300 pictures, 20 captions, 32 numbers\npictures: mean 0.4")
    *_, last = report.splitlines()
    shares, *found = (part.strip() for part in last.strip("|").split("|"))
    assert shares == "1/4"
    assert len(found) == 4
    assert found[0::2] == found[1::2]  # the same vectors
