"""Charts show what they are given: a bar's length is its value."""

import io

import PIL.Image
import PIL.ImageColor
import pytest

from models.bench.plots import BAR, WIDTH, BarChart, short


def bar_lengths(png: bytes, colour: str) -> list[int]:
    """Pixels of the longest run of a colour in each bar of that colour."""
    image = PIL.Image.open(io.BytesIO(png)).convert("RGB")
    wanted, pixels = PIL.ImageColor.getrgb(colour), image.load()
    assert pixels is not None
    counts = [sum(pixels[x, y] == wanted for x in range(image.width)) for y in range(image.height)]
    runs, previous = [], 0
    for y, count in enumerate(counts):
        if count > 0 and previous == 0 and counts[y : y + BAR].count(count) == BAR:
            runs.append(count)
        previous = count
    return runs


def test_bars_are_as_long_as_their_values() -> None:
    chart = BarChart(title="t", unit="u", groups={"a": {"ours": 10.0, "floor": 2.5}, "b": {"ours": 5.0}})
    png, colours = chart.to_png(), chart.colours()
    full = chart.bar_width
    assert bar_lengths(png, colours["ours"]) == [full, full // 2]
    assert bar_lengths(png, colours["floor"]) == [full // 4]
    assert PIL.Image.open(io.BytesIO(png)).width == WIDTH


def test_a_bar_that_is_infinite_or_tiny_stays_inside_the_picture() -> None:
    chart = BarChart(title="t", unit="u", groups={"a": {"x": float("inf"), "y": 1e-9, "z": 3.0}})
    assert (chart.length(float("inf")), chart.length(1e-9)) == (chart.bar_width, 1)
    chart.to_png()


def test_a_chart_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        BarChart(title="t", unit="u", groups={"a": {}}).to_png()


def test_numbers_have_three_digits() -> None:
    assert [short(one) for one in (0.012345, 12.345, 12345.6)] == ["0.0123", "12.3", "12,346"]
