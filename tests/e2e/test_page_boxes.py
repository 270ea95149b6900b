"""Lit boxes sit on what is in the picture, in the pixels of the screen, however the picture is stored."""

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

from tests.support.fakes import COLOURS
from tests.support.marked_pictures import MARKS, QUERY, MarkExtractor, extent, marked_files, size_of
from tests.support.processes import wait_until
from tests.support.running_server import running_server

pytest.importorskip("playwright")
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser import Visit, chromium, search, send

pytestmark = pytest.mark.browser

FILES = marked_files()
HALF_STROKE = 1.5  # pixels of the outline in pictures.css that lie beyond a box
TOLERANCE = 2.0  # pixels: browsers round the place of a picture and of a box to pixels of the screen by themselves
TINY = "tiny.png"
TINY_BLUR = 2  # of its own pixels: a thumbnail, a JPEG, has one hue for two by two of them
IN_VIEW = {"width": 1280, "height": 2600}  # all cards at once


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    """The page over all marked pictures, dark, so that nothing but the outline is white near a picture."""
    folder = tmp_path_factory.mktemp("boxes")
    with running_server(folder, extractor=MarkExtractor()) as address, chromium() as browser:
        for name, content in FILES.items():
            send(address, name, content)
        begun = Visit(browser, address, viewport=IN_VIEW, color_scheme="dark", reduced_motion="reduce")
        yield begun
        begun.close()


def pixels(page: Page) -> npt.NDArray[np.uint8]:
    """The window as [height, width, 3]."""
    with PIL.Image.open(io.BytesIO(page.screenshot())) as shot:
        return np.asarray(shot.convert("RGB"))


def part(shot: npt.NDArray[np.uint8], place: Locator) -> npt.NDArray[np.uint8]:
    """What a window shows of an element that lies in it whole."""
    box = place.bounding_box()
    assert box is not None
    left, top, right, bottom = (
        round(edge) for edge in (box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"])
    )
    assert right <= shot.shape[1]
    assert bottom <= shot.shape[0]
    return shot[top:bottom, left:right]


def check_outline(name: str, plain: npt.NDArray[np.uint8], lit: npt.NDArray[np.uint8], colour: str) -> None:
    """AssertionError unless the white outline of `lit` goes around what has the colour in `plain`, for a named file."""
    wanted = np.array(COLOURS[colour], dtype=bool)
    there = np.asarray((plain[..., wanted] >= 128).all(-1) & (plain[..., ~wanted] < 128).all(-1))
    outline = extent(np.asarray((lit >= 200).all(-1)))
    left, top, right, bottom = extent(there)
    around = (left - HALF_STROKE, top - HALF_STROKE, right + HALF_STROKE, bottom + HALF_STROKE)
    blurred = TINY_BLUR * plain.shape[1] / size_of(TINY)[0]
    assert outline == pytest.approx(around, abs=blurred if name == TINY else TOLERANCE), name


def pictures_are_there(page: Page) -> None:
    wait_until(lambda: bool(page.evaluate("[...document.images].every((one) => one.complete && one.naturalWidth)")))


def test_a_word_lights_what_it_names_in_every_card(visit: Visit) -> None:
    page = visit.page
    found = {hit["image_id"]: hit for hit in search(page, QUERY)["results"]}
    assert {hit["filename"] for hit in found.values()} == set(FILES)
    for hit in found.values():
        assert (hit["width"], hit["height"]) == size_of(hit["filename"])
    pictures_are_there(page)
    plain = pixels(page)
    for colour in MARKS:
        page.locator("#words").get_by_role("button", name=colour, exact=True).hover()
        lit = pixels(page)
        for image_id, hit in found.items():
            place = page.locator(f"li.card[data-image='{image_id}'] .picture")
            check_outline(hit["filename"], part(plain, place), part(lit, place), colour)
    picture = page.locator("li.card", has_text="turned-1.png").locator(".picture")
    picture.evaluate("one => ([one.style.background, one.firstChild.style.opacity] = ['white', 0])")
    assert (part(pixels(page), picture)[9:-9, 9:-9] < 160).all(-1).any()  # on white the outline is seen, too


def test_a_word_lights_what_it_names_in_the_large_picture(visit: Visit) -> None:
    page = visit.page
    hits = search(page, QUERY)["results"]
    page.locator("li.card .picture").first.click()
    dialog = page.get_by_role("dialog")
    for number, hit in enumerate(hits):
        expect(dialog.get_by_role("heading", level=2)).to_have_text(hit["filename"])
        pictures_are_there(page)
        page.evaluate("document.querySelector('dialog .name').style.display = 'none'")  # the label is white, too
        figure, colour = dialog.locator("figure.picture"), list(MARKS)[number % len(MARKS)]
        dialog.get_by_role("heading", level=2).hover()
        plain = pixels(page)
        dialog.get_by_role("group", name="Words").get_by_role("button", name=colour, exact=True).hover()
        check_outline(hit["filename"], part(plain, figure), part(pixels(page), figure), colour)
        page.keyboard.press("ArrowRight")
