"""The shortlist's benchmark compares with an exact search."""

import numpy as np
import pytest

from models.bench.timing import MachineRates
from service.bench.shortlist import recall, shortlist_row, spectral_rows

RATES = MachineRates(flops=1e12, reads=1e10)


def test_recall_is_the_share_of_the_exact_rows() -> None:
    exact = np.array([[1, 2], [3, 4]])
    assert recall(exact[:, ::-1], exact) == 1.0
    assert recall(np.array([[1, 9], [8, -1]]), exact) == 0.25


def test_rows_have_a_spectrum_that_falls() -> None:
    rows = spectral_rows(2000, 16, 3)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    deviations = rows.std(0)
    assert deviations[0] > 2 * deviations[7] > deviations[15]
    assert (spectral_rows(5, 16, 3) == spectral_rows(5, 16, 3)).all()


def test_an_exact_shortlist_misses_nothing() -> None:
    row = shortlist_row(300, 8, 10, 1, RATES)
    assert row["recall"] == 1.0
    assert row["floor_of_exact_ms"] == pytest.approx(1e3 * 300 * 8 * 4 / 1e10)
    assert {"ms_per_query", "exact_ms_per_query", "ratio_to_exact"} <= {name for name, one in row.items() if one > 0}
