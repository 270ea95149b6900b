"""Explanations as pictures: boxes sit right to the pixel, brightness says how strongly a region answered."""

from collections.abc import Sequence
from typing import Any

import PIL.Image
import PIL.ImageFont
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.panels import (
    DIMMED,
    GAP,
    LINE,
    OUTLINE,
    SIGN_NOTE,
    draw_explanation,
    drawable,
    footer,
    panel_corner,
    panels_of,
    scaled,
)
from service.search.results import PairExplanation, ScoredWord
from service.storage.regions.records import Region

WHITE = (255, 255, 255)


def explanation(boxes: Sequence[Any], shares: Sequence[Sequence[float]] | None, **parts: Any) -> PairExplanation:
    words = [ScoredWord(f"word{n}", False) for n in range(len(shares or [[]]))]
    regions = [Region(box, "thing", 0.5) for box in boxes]
    return PairExplanation(kind="words attend regions", words=words, regions=regions, shares=shares, **parts)


def drawn(size: tuple[int, int], why: PairExplanation) -> PIL.Image.Image:
    return draw_explanation(PIL.Image.new("RGB", size, WHITE), size, why, "title")


def test_the_strongest_region_is_outlined_where_it_is() -> None:
    sheet = drawn((320, 240), explanation([(40, 60, 200, 180), (0, 0, 320, 240)], [[0.8, 0.2]]))
    left, top = panel_corner(0, (320 + GAP, 240 + LINE + GAP))

    def at(x: int, y: int) -> Any:
        return sheet.getpixel((left + x, top + y))

    for corner in ((40, 60), (199, 60), (40, 179), (199, 179)):
        assert at(*corner) == OUTLINE
    for outside in ((39, 60), (200, 60), (40, 59), (40, 180)):
        assert at(*outside) != OUTLINE
    assert at(120, 120) == WHITE
    faint = round(DIMMED + (255 - DIMMED) * 0.25)
    assert at(10, 10) == (faint, faint, faint)


def test_a_word_that_fits_nowhere_stays_dark() -> None:
    sheet = drawn((320, 240), explanation([(0, 0, 320, 240)], [[1.0], [-0.5]]))
    cell = (320 + GAP, 240 + LINE + GAP)
    bright, dark = (panel_corner(n, cell) for n in (0, 1))
    assert sheet.getpixel((bright[0] + 100, bright[1] + 100)) == WHITE
    assert sheet.getpixel((dark[0] + 100, dark[1] + 100)) == (DIMMED, DIMMED, DIMMED)


def test_a_model_that_tells_no_words_apart_has_one_panel() -> None:
    (panel,) = panels_of(explanation([(0, 0, 1, 1), None], None, region_weights=[0.1, 0.4]))
    assert panel.strengths == [0.25, 1.0]


def test_attention_is_shown_where_there_are_no_shares() -> None:
    why = explanation([(0, 0, 1, 1)] * 2, [[0.0], [0.0]])
    attention = PairExplanation(kind=why.kind, words=why.words, regions=why.regions, attention=[[0.2, 0.1], [0.0, 0.5]])
    assert [panel.strengths for panel in panels_of(attention)] == [[1.0, 0.5], [0.0, 1.0]]


def of_words(*words: str) -> PairExplanation:
    """An explanation in which the first word added 1, the second 2, and so on; words in <> are marks."""
    scored = [ScoredWord(word, word.startswith("<")) for word in words]
    added = [float(n) for n in range(1, len(words) + 1)]
    regions = [Region((0, 0, 1, 1), "thing", 0.5)]
    shares = [[one] for one in added]
    return PairExplanation("words attend regions", scored, regions, shares=shares, contributions=added)


def test_content_words_have_panels_and_the_others_are_told_below() -> None:
    why = of_words("<start>", "a", "dog", "on", "grass", ".", "<end>")
    assert [panel.text for panel in panels_of(why)] == ["dog  +3.0000", "grass  +5.0000"]
    assert footer(why) == f"{SIGN_NOTE} Besides: the other words +12.0000, <start> +1.0000, <end> +7.0000"


@pytest.mark.parametrize(
    ("words", "shown", "below"),
    [
        (("<start>", "what", "is", "this"), ["what", "is", "this"], " Besides: <start> +1.0000"),
        (("<start>", "<end>"), ["<start>", "<end>"], ""),
        (("dog",), ["dog"], ""),
    ],
)
def test_where_no_word_has_content_all_have_panels(words: tuple[str, ...], shown: list[str], below: str) -> None:
    why = of_words(*words)
    assert [panel.text.split()[0] for panel in panels_of(why)] == shown
    assert footer(why) == SIGN_NOTE + below


@given(
    st.tuples(st.integers(1, 9000), st.integers(1, 9000)),
    st.tuples(st.integers(1, 320), st.integers(1, 320)),
    st.lists(st.floats(-10, 9010), min_size=4, max_size=4),
)
def test_a_box_stays_inside_and_holds_a_pixel(size: Any, shown: Any, ends: list[float]) -> None:
    box = scaled((*sorted(ends[::2]), *sorted(ends[1::2])), size, shown)
    assert box is not None
    left, top, right, bottom = box
    assert 0 <= left <= right < shown[0]
    assert 0 <= top <= bottom < shown[1]


@pytest.mark.parametrize("size", [(1, 1), (4000, 30), (30, 4000), (6000, 4000)])
def test_tiny_huge_and_narrow_pictures_are_drawn(size: tuple[int, int]) -> None:
    sheet = drawn(size, explanation([(0, 0, *size)], [[1.0]] * 30))
    assert sheet.width > 0
    assert sheet.height > 0


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("a café  +0.0123", "a cafe  +0.0123"),
        ("“Straße in Łódź” …", "“Strasse in Lodz” …"),
        ("東京", "??"),
        ("собака", "??????"),
        ("e\N{COMBINING ACUTE ACCENT}", "e"),
    ],
)
def test_text_is_drawn_in_characters_that_the_font_has(text: str, drawn: str) -> None:
    assert drawable(text) == drawn
    font = PIL.ImageFont.load_default(14)
    missing = bytes(font.getmask("\U000f0000"))
    assert all(bytes(font.getmask(letter)) != missing for letter in {*drawable(text)} - {" "})
