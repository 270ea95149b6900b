"""Every benchmark has its chart, of columns that its rows have."""

import pytest

from service.bench.charts import SHOWN, chart_of
from service.cli.benchmarks import Benchmark


@pytest.mark.parametrize("what", Benchmark)
def test_a_chart_shows_the_columns_of_the_rows(what: Benchmark) -> None:
    _, _, names, columns = SHOWN[what]
    row = dict.fromkeys(names, "x") | dict.fromkeys(columns.values(), 2.0)
    chart = chart_of(what, [row])
    assert set(chart.groups) == {" x ".join("x" for _ in names)}
    assert list(chart.series) == list(columns)


def test_what_a_row_does_not_have_is_left_out() -> None:
    chart = chart_of("start", [{"what": "serve", "ready_s": 3.0, "listening_s": None}])
    assert chart.groups == {"serve": {"ready": 3.0}}
