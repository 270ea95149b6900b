"""The picture that shows why a stored picture answers a sentence."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from service.api.schemas.resources import IngestAnswer
from service.panels import GAP, LINE, OUTLINE, panel_corner
from tests.support.library import Library, two_coloured
from tests.support.web_app import Api, checked, problem

ORIENTATION = 0x0112


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    library = Library(tmp_path)
    api = Api(library)
    yield api
    api.close()
    library.close()


def stored(api: Api, picture: PIL.Image.Image, orientation: int) -> str:
    """The id of a picture whose file is turned, and says how."""
    turns = {1: None, 6: PIL.Image.Transpose.ROTATE_90, 8: PIL.Image.Transpose.ROTATE_270}
    turn = turns[orientation]
    exif, content = PIL.Image.Exif(), io.BytesIO()
    exif[ORIENTATION] = orientation
    (picture if turn is None else picture.transpose(turn)).save(content, "PNG", exif=exif)
    answer = api.request("POST", "/ingest", files={"images": ("a.png", content.getvalue())})
    api.library.work(api.services.originals, api.services.pool)
    image_id: str = checked(answer, 202, IngestAnswer)["accepted"][0]["image_id"]
    return image_id


@pytest.mark.parametrize("orientation", [1, 6, 8])
def test_the_outlined_region_is_the_one_that_answered_in_the_upright_picture(api: Api, orientation: int) -> None:
    image_id = stored(api, two_coloured("red", "blue", 640, 480), orientation)
    answer = api.get(f"/images/{image_id}/explain.png", query="red blue")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    with PIL.Image.open(io.BytesIO(answer.content)) as sheet:
        sheet.load()
    cell = (320 + GAP, 240 + LINE + GAP)

    def at(panel: int, x: int, y: int) -> Any:
        left, top = panel_corner(panel, cell)
        return sheet.getpixel((left + x, top + y))

    assert [at(0, x, 120) == OUTLINE for x in (0, 159, 160, 319)] == [True, True, False, False]
    assert [at(1, x, 120) == OUTLINE for x in (0, 159, 160, 319)] == [False, False, True, True]
    assert at(0, 40, 120) == (255, 0, 0)
    assert at(1, 280, 120) == (0, 0, 255)


def test_what_cannot_be_explained_is_said_in_words(api: Api) -> None:
    image_id = stored(api, two_coloured("red", "blue"), 1)
    path = f"/images/{image_id}/explain.png"
    assert problem(api.get(path), 422, "invalid-request")["errors"][0]["field"] == "query"
    assert problem(api.get(path, query=" "), 422, "invalid-request")["errors"][0]["field"] == "query"
    problem(api.get(path, query="red", model="nothing"), 404, "unknown-model")
    problem(api.get(f"/images/{'0' * 32}/explain.png", query="red"), 404, "not-found")
