"""Pictures of the page, taken by a browser of a service over the drawings beside this file.

python -m docs.images.screenshots docs/images

The service runs the shipped models on an empty data directory; chromium and playwright must be there.
"""

import argparse
import io
import tempfile
from pathlib import Path

import PIL.Image
from playwright.sync_api import Page

from tests.e2e.browser import Visit, chromium
from tests.e2e.pictures import Photo
from tests.e2e.stack import Stack
from tests.support.processes import wait_until

DRAWINGS = Path(__file__).with_name("drawings")
SENTENCE, WORD = "a black dog chases a ball on the grass", "ball"
NAMES = ("page-results.webp", "page-why.webp")
SIZES = ((800, 376), (800, 484))
COLOURS = 48


def take_screenshots(folder: Path) -> None:
    """Write both pictures: results with a word looked at, in light colours; the best of them large, in dark ones."""
    drawings = [Photo(path.name, path.read_bytes(), ()) for path in sorted(DRAWINGS.iterdir())]
    with tempfile.TemporaryDirectory() as place, Stack(Path(place)) as stack, chromium() as browser:
        stack.start("all")
        stack.wait_ready()
        stack.wait_job(stack.ingest(drawings))
        for name, colours, (width, height) in zip(NAMES, ("light", "dark"), SIZES, strict=True):
            size = {"width": width, "height": height}
            visit = Visit(browser, stack.url, viewport=size, color_scheme=colours, reduced_motion="reduce")
            visit.page.get_by_label("What do the pictures show?").fill(SENTENCE)
            word = visit.page.locator("#words").get_by_role("button", name=WORD, exact=True)
            word.wait_for()
            wait_for_images(visit.page)
            if name == NAMES[0]:
                word.hover()
            else:
                visit.page.locator("li.card .picture").first.click()
                visit.page.get_by_role("dialog").get_by_role("button", name=WORD, exact=True).hover()
                wait_for_images(visit.page)
            (folder / name).write_bytes(visit.page.screenshot(type="png"))
            visit.close()


def with_palette(png: bytes) -> bytes:
    """The picture in few colours as WebP, which takes an eighth of the bytes."""
    packed = io.BytesIO()
    with PIL.Image.open(io.BytesIO(png)) as picture:
        # Colours of small things count as those of large ones: what is lit is small.
        few = picture.convert("RGB").quantize(COLOURS, PIL.Image.Quantize.MAXCOVERAGE, dither=PIL.Image.Dither.NONE)
        few.convert("RGB").save(packed, "WEBP", lossless=True, quality=100, method=6)
    return packed.getvalue()


def wait_for_images(page: Page) -> None:
    """Wait until every picture of the page is there. Asked again from here: the page's policy refuses code as text."""
    wait_until(lambda: bool(page.evaluate("[...document.images].every((one) => one.complete)")))


def main() -> None:
    """Take the screenshots and keep them in few colours."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path, help="where the pictures go")
    folder = arguments.parse_args().folder
    with tempfile.TemporaryDirectory() as place:
        take_screenshots(Path(place))
        for name in NAMES:
            (folder / name).write_bytes(with_palette((Path(place) / name).read_bytes()))


if __name__ == "__main__":
    main()
