"""Drawn embeddings lie as they are said to."""

import numpy as np
import pytest

from service.bench.drawn_embeddings import (
    BRANCHES,
    MEANS_COSINE,
    PICTURE_SPREAD,
    SENTENCE_SPREAD,
    Spread,
    drawn_pictures,
    drawn_sentences,
)

DIM = 48


@pytest.mark.parametrize(("draw", "spread"), [(drawn_pictures, PICTURE_SPREAD), (drawn_sentences, SENTENCE_SPREAD)])
def test_vectors_are_of_length_one_around_their_mean_with_variances_that_fall(draw: object, spread: Spread) -> None:
    rows = draw(20_000, DIM, 3)  # type: ignore[operator]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert np.linalg.norm(rows.mean(0)) == pytest.approx(spread.mean, abs=0.1)
    deviations = rows.std(0)
    assert deviations[0] > 1.5 * deviations[7] > 1.5 * deviations[30]
    assert (draw(5, DIM, 3) == draw(5, DIM, 3)).all()  # type: ignore[operator]
    assert not (draw(5, DIM, 4) == draw(5, DIM, 3)).any()  # type: ignore[operator]


def test_sentences_and_pictures_are_of_the_same_subjects_and_apart() -> None:
    pictures, sentences = drawn_pictures(20_000, DIM, 1), drawn_sentences(200, DIM, 2)
    means = pictures.mean(0), drawn_sentences(20_000, DIM, 5).mean(0)
    cosine = means[0] @ means[1] / np.linalg.norm(means[0]) / np.linalg.norm(means[1])
    assert cosine == pytest.approx(MEANS_COSINE, abs=0.2)
    products = sentences @ pictures.T
    near = np.sort(products, axis=1)[:, -20_000 // BRANCHES**2 :].mean()
    assert near > products.mean() + 1.5 * products.std()


def test_variances_add_up_with_the_mean_to_one() -> None:
    for dim in (2, DIM, 386):
        assert (PICTURE_SPREAD.deviations(dim) ** 2).sum() + PICTURE_SPREAD.mean**2 == pytest.approx(1, rel=1e-5)
